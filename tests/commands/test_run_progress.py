"""A run's progress: words, times, lines of a log, a line that renews itself, and bars."""

from __future__ import annotations

import io
import sys

import pytest

from posemill.commands import progress
from posemill.commands.progress import ProgressView
from posemill.jobs.extract.status import Progress
from posemill.runs.queries import SplitCounts
from posemill.terminal import duration

TRAIN = SplitCounts("train", 9, 5, 100, 40, 3, 1)
DEV = SplitCounts("dev", 4, 2, 20, 7, 0, 0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00:00"), (59.4, "0:00:59"), (59.6, "0:01:00"), (3599, "0:59:59"), (3600, "1:00:00"),
     (97389, "27:03:09")],
)  # fmt: skip
def test_a_duration_has_hours_minutes_and_seconds(seconds, text):
    assert duration(seconds) == text


def test_a_speed_in_words():
    assert Progress((TRAIN,)).speed_text() == "…"
    assert Progress((TRAIN,), frames_per_second=41.24).speed_text() == "41.2 frames/s"
    known = Progress((TRAIN,), frames_per_second=0.0, seconds_left=723.0)
    assert known.speed_text() == "0.0 frames/s, 0:12:03 left"
    assert Progress((TRAIN,), seconds_left=5.0).speed_text() == "…"


def test_one_line_says_it_all_and_the_splits_where_there_are_several():
    assert Progress((TRAIN,), {"train": 7}, 2.0).describe() == (
        "50/100 frames (50.0%), 2.0 frames/s, 3 frames and 1 clip failed"
    )
    assert Progress((TRAIN, DEV)).describe() == (
        "50/120 frames (41.7%), 3 frames and 1 clip failed; train 43/100, dev 7/20"
    )
    assert Progress(()).describe() == "0/0 frames, 0 failed"


@pytest.fixture
def shown_as(monkeypatch):
    """Returns a function: stderr as a log, a notebook's line, or a terminal with bars."""

    def choose(display):
        stderr = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stderr)
        monkeypatch.setattr(progress, "choose_display", lambda _: display)
        monkeypatch.setattr(progress, "_SECONDS", {"line": 0.0, "log": 0.0})
        return stderr

    return choose


def test_a_log_has_lines(shown_as):
    stderr = shown_as("log")
    with ProgressView() as view:
        view.count(1, 3)
        view.show(Progress((DEV,)))
    assert stderr.getvalue() == ("counting frames: 1 / 3 videos\n7/20 frames (35.0%), 0 failed\n")


def test_a_notebook_has_one_line_that_ends(shown_as):
    stderr = shown_as("line")
    with ProgressView() as view:
        view.show(Progress((DEV,), frames_per_second=2.0))
    bar = f"[{'#' * 10:<30}] 7 / 20 frames  2.0 frames/s"
    assert stderr.getvalue() == f"\r{bar}\r{bar}\n"


def test_nothing_is_shown_where_nothing_is_wanted(monkeypatch):
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    with ProgressView(False) as view:
        view.count(1, 3)
        view.show(Progress((DEV,)))
    assert stderr.getvalue() == ""


def tasks_of(view):
    return {task.description: task for task in view._bars.tasks}


def test_there_is_a_bar_for_each_split_and_the_speed_behind_the_last(shown_as):
    shown_as("bars")
    with ProgressView() as view:
        odd = SplitCounts("a\nb", 1, 0, 0, 0, 0, 0)
        view.show(Progress((TRAIN, DEV, odd), {"dev": 2}, 2.0))
        view.show(Progress((TRAIN, DEV, odd), {"dev": 2}, 2.0))
        train, dev, last = view._bars.tasks
        assert (train.description, train.completed, train.total) == ("train", 43, 100)
        assert train.fields["note"] == "3 frames and 1 clip failed"
        assert (dev.completed, dev.total, dev.fields["note"]) == (9, 20, "")
        assert "\n" not in last.description
        assert (last.completed, last.total, last.fields["note"]) == (0, 1, "2.0 frames/s")
        # More done than known, and failures beside the speed.
        view.show(Progress((TRAIN,), {"train": 70}))
        train = tasks_of(view)["train"]
        assert (train.completed, train.total) == (113, 113)
        assert train.fields["note"] == "3 frames and 1 clip failed  …"
        assert view._bars.live.is_started
    assert not view._bars.live.is_started


def test_counting_has_a_bar_that_goes_when_it_is_done(shown_as):
    shown_as("bars")
    with ProgressView() as view:
        view.count(1, 3)
        view.count(2, 3)
        (task,) = view._bars.tasks
        assert (task.description, task.completed, task.total) == ("counting frames", 2, 3)
        assert task.visible
        view.count(3, 3)
        assert (task.completed, task.visible) == (3, False)


@pytest.mark.parametrize("display", ["log", "line", "bars"])
def test_a_worker_that_died_is_said_where_the_progress_is(shown_as, display):
    stderr = shown_as(display)
    with ProgressView() as view:
        view.show(Progress((TRAIN,), news=("worker 1 ended: killed by SIGKILL; …",)))
        view.show(Progress((TRAIN,)))
    assert stderr.getvalue().count("posemill: worker 1 ended: killed by SIGKILL") == 1


def test_a_worker_that_died_is_not_said_where_no_progress_is_wanted(shown_as):
    stderr = shown_as("none")
    with ProgressView() as view:
        view.show(Progress((TRAIN,), news=("worker 1 ended: killed by SIGKILL; …",)))
    assert stderr.getvalue() == ""
