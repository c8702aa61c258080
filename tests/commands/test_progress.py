"""A line where someone watches, lines in a log that asks for them, and the items unchanged."""

import io
import sys
import time
from types import SimpleNamespace

import pytest

from posemill.commands import progress
from posemill.commands.progress import ProgressView, TextLine, choose_display, show_progress, track
from posemill.jobs.extract.status import Progress
from posemill.runs.queries import SplitCounts
from posemill.terminal import duration

TRAIN = SplitCounts("train", 9, 5, 100, 40, 3, 1)
DEV = SplitCounts("dev", 4, 2, 20, 7, 0, 0)


class Terminal(io.StringIO):
    """A stderr that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def notebook(monkeypatch, capsys):
    """This process as the kernel of a notebook; returns what it shows."""
    shell = SimpleNamespace(kernel="a kernel")
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    return lambda: capsys.readouterr().err


@pytest.fixture
def shown_as(monkeypatch):
    """A function: stderr with one way to show progress, and no rest between two lines."""

    def choose(display):
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        monkeypatch.setattr(progress, "choose_display", lambda _: display)
        monkeypatch.setattr(progress, "_SECONDS", {"line": 0.0, "log": 0.0})
        return sys.stderr

    return choose


def test_progress_is_shown_where_someone_watches(monkeypatch, notebook):
    assert [choose_display(wish) for wish in (None, True, False)] == ["line", "line", "none"]
    for shell in (None, SimpleNamespace()):  # an IPython in a terminal
        module = SimpleNamespace(get_ipython=lambda shell=shell: shell)
        monkeypatch.setitem(sys.modules, "IPython", module)
        monkeypatch.setattr("sys.stderr", io.StringIO())
        assert [choose_display(wish) for wish in (None, True, False)] == ["none", "log", "none"]
    monkeypatch.setattr("sys.stderr", Terminal())
    assert [choose_display(wish) for wish in (None, True, False)] == ["line", "line", "none"]
    monkeypatch.setattr("sys.stderr", None)
    assert choose_display(True) == "none"


def test_a_stream_that_is_left_early_is_closed_at_once_even_if_somebody_holds_it():
    closed = []

    def numbers():
        try:
            yield from range(5)
        finally:
            closed.append(True)

    shown = track(numbers(), "counting", 5, progress=False)
    assert next(shown) == 0
    shown.close()
    assert closed == [True]


def test_one_line_renews_itself_also_where_the_total_is_unknown(notebook, monkeypatch):
    with show_progress("preparing", 4) as advance:
        advance(3)
        advance(1)
    first, *others = notebook().split("\r")[1:]
    assert first == f"preparing [{'#' * 22}{' ' * 8}] 3 / 4"
    assert others[-1] == f"preparing [{'#' * 30}] 4 / 4\n"
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert list(track(iter(["aa", "bbb"]), "measuring", 5, len)) == ["aa", "bbb"]
    with show_progress("drawing frames") as advance:
        for _ in range(7):
            advance()
    lines = terminal.getvalue().split("\r")
    assert lines[1] == f"measuring [{'#' * 12:<30}] 2 / 5"
    assert f"measuring [{'#' * 30}] 5 / 5\n" in lines
    assert lines[-1] == "drawing frames 7\n"


def test_the_time_that_is_left_is_what_the_rest_takes_at_this_speed(shown_as, monkeypatch):
    stderr, now = shown_as("line"), time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with show_progress("preparing", 10) as advance:
        monkeypatch.setattr(time, "monotonic", lambda: now + 30)
        advance(4)
    assert stderr.getvalue().endswith("] 4 / 10, 0:00:45 left\n")


def test_a_shorter_line_covers_the_longer_one_and_none_is_wider_than_the_terminal(
    notebook, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "9")
    line = TextLine("line")
    line.show("帧帧帧帧帧帧")
    line.show("123")
    line.close()
    assert notebook() == "\r帧帧帧帧\r123     \n"


def test_a_log_has_a_line_every_ten_seconds_if_it_is_asked_for(monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr("sys.stderr", log)
    now = time.monotonic()
    with show_progress("preparing", progress=True) as advance:
        advance()
        monkeypatch.setattr(time, "monotonic", lambda: now + 11)
        advance(4)
    assert log.getvalue() == "preparing 5\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00:00"), (59.4, "0:00:59"), (59.6, "0:01:00"), (3600, "1:00:00"), (97389, "27:03:09")],
)
def test_a_duration_has_hours_minutes_and_seconds(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (Progress(()), "0/0 frames, 0 failed"),
        (
            Progress((TRAIN,), {"train": 7}, 0.0692, 723.0),
            "50/100 frames (50.0%), 0.1 frames/s, 0:12:03 left, 3 frames and 1 clip failed",
        ),
        (
            Progress((TRAIN, DEV), {}, 2.0),
            "50/120 frames (41.7%), 2.0 frames/s, 0:00:35 left, 3 frames and 1 clip failed; "
            "train 43/100, dev 7/20",
        ),
    ],
)
def test_one_line_says_it_all_and_the_splits_where_there_are_several(snapshot, words):
    assert snapshot.describe() == words


@pytest.mark.parametrize(
    ("display", "wanted"),
    [
        ("none", ""),
        ("log", "counting frames: 1 / 3 videos\nposemill: worker 1 died\n7/20 frames (35.0%), "
         "0 failed\n"),
        ("line", "\rcounting frames: 1 / 3 videos\rposemill: worker 1 died      \n\r[##########"
         "                    ] 7/20 frames (35.0%), 0 failed\r[##########                    ] "
         "7/20 frames (35.0%), 0 failed\n"),
    ],
)  # fmt: skip
def test_a_run_shows_what_is_counted_what_happens_and_how_far_it_is(shown_as, display, wanted):
    stderr = shown_as(display)
    with ProgressView() as view:
        view.count(1, 3)
        view.show(Progress((DEV,), news=("worker 1 died",)))
    assert stderr.getvalue() == wanted


def test_on_a_terminal_there_is_a_bar_for_each_split_and_the_speed_behind_the_last(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    odd = SplitCounts("a\nb", 1, 0, 0, 0, 0, 0)
    with ProgressView() as view:
        assert view._bars.live.is_started
        view.count(2, 3)
        view.count(3, 3)
        for _ in range(2):
            view.show(Progress((TRAIN, DEV, odd), {"dev": 2}, 2.0, news=("worker 1 died",)))
        bars = [
            (bar.description, bar.completed, bar.total, bar.fields["note"], bar.visible)
            for bar in view._bars.tasks
        ]
    assert bars == [
        ("counting frames", 3, 3, "", False),
        ("train", 43, 100, "3 frames and 1 clip failed", True),
        ("dev", 9, 20, "", True),
        ("a?b", 0, 1, "2.0 frames/s, 0:00:34 left", True),
    ]
    assert not view._bars.live.is_started
    assert sys.stderr.getvalue().count("posemill: worker 1 died") == 2
