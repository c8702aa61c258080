"""Bars where someone watches, silence in logs, and the items unchanged in both."""

from __future__ import annotations

import io

import pytest

from posemill.cli.progress import show_progress, track


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
