"""Bars where someone watches, a line in notebooks, silence in logs, and the items unchanged."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from posemill.commands.progress import ProgressView, TextLine, choose_display, show_progress, track
from posemill.jobs.extract.status import Progress
from posemill.runs.queries import SplitCounts


class Terminal(io.StringIO):
    """A stderr that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_log_stays_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    monkeypatch.setattr("sys.stderr", log)
    assert list(track(range(5), "counting", 5)) == [0, 1, 2, 3, 4]
    with show_progress("drawing") as advance:
        advance()
        advance(3)
    assert log.getvalue() == ""


def test_a_terminal_sees_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert list(track(["aa", "bbb"], "measuring", 5, len)) == ["aa", "bbb"]
    assert "measuring" in terminal.getvalue()
    assert "5 / 5" in terminal.getvalue()


def test_an_unknown_total_counts_on(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with show_progress("drawing frames") as advance:
        for _ in range(7):
            advance()
    assert "drawing frames" in terminal.getvalue()
    assert "7" in terminal.getvalue()


@pytest.fixture
def notebook(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[], str]:
    """This process as the kernel of a notebook; returns what it shows."""
    shell = SimpleNamespace(kernel="a kernel")
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    return lambda: capsys.readouterr().err


def test_progress_is_shown_where_someone_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert [choose_display(wish) for wish in (None, True, False)] == ["none", "log", "none"]
    monkeypatch.setattr("sys.stderr", Terminal())
    assert [choose_display(wish) for wish in (None, True, False)] == ["bars", "bars", "none"]
    monkeypatch.setattr("sys.stderr", None)
    assert choose_display(True) == "none"


def test_an_ipython_in_a_terminal_is_no_notebook(
    notebook: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert choose_display(None) == "line"
    monkeypatch.setattr("sys.stderr", Terminal())
    assert choose_display(None) == "bars"
    for shell in (None, SimpleNamespace()):
        module = SimpleNamespace(get_ipython=lambda shell=shell: shell)
        monkeypatch.setitem(sys.modules, "IPython", module)
        monkeypatch.setattr("sys.stderr", io.StringIO())
        assert choose_display(None) == "none"


def test_a_notebook_sees_one_line_that_renews_itself(notebook: Callable[[], str]) -> None:
    with show_progress("preparing", 4) as advance:
        advance(3)
        advance(1)
    first, *others = notebook().split("\r")[1:]
    assert first == f"preparing [{'#' * 22}{' ' * 8}] 3 / 4"
    assert others[-1] == f"preparing [{'#' * 30}] 4 / 4\n"


def test_a_shorter_line_covers_the_longer_one(notebook: Callable[[], str]) -> None:
    line = TextLine("line")
    line.show("12345")
    line.show("123")
    line.close()
    assert notebook() == "\r12345\r123  \n"


def test_a_run_in_a_notebook_shows_frames_and_speed(notebook: Callable[[], str]) -> None:
    with ProgressView(None) as view:
        view.count(1, 2)
        view.show(Progress((SplitCounts("train", 2, 1, 200, 49, 1),), {}, 20.0, 7.0))
    counting, working = notebook().split("\r")[1:]
    assert counting == "counting frames: 1 / 2 videos"
    assert working.endswith("] 50 / 200 frames  20.0 frames/s, 0:00:07 left\n")


def test_a_log_has_a_line_every_ten_seconds_if_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = io.StringIO()
    monkeypatch.setattr("sys.stderr", log)
    now = time.monotonic()
    with show_progress("preparing", progress=True) as advance:
        advance()
        monkeypatch.setattr(time, "monotonic", lambda: now + 11)
        advance(4)
    assert log.getvalue() == "preparing 5\n"
