"""Progress on stderr: a bar, or a line that renews itself, where someone watches; or a log."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from posemill.machine.read_ahead import closing_stream
from posemill.messages import Message, render
from posemill.terminal import duration, printable, width_of

if TYPE_CHECKING:
    from posemill.jobs.extract.status import Progress

Item = TypeVar("Item")
_SECONDS = {"line": 0.2, "log": 10.0}  # between two lines
_BAR_LETTERS = 30


def choose_display(progress: bool | None) -> Literal["line", "log", "none"]:
    """Return how progress is shown here.

    Args:
        progress: None: a line on a terminal or in a notebook, else nothing. True: lines in a log
            as well, one every ten seconds. False: nothing.
    """
    if progress is False or sys.stderr is None:
        return "none"
    if sys.stderr.isatty() or is_notebook():
        return "line"
    return "log" if progress else "none"


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")


class TextLine:
    """Progress in words: a `line` that is written over itself, lines of a `log`, or `none`."""

    def __init__(self, display: str) -> None:
        self._display = display
        self._columns = shutil.get_terminal_size().columns - 1  # a longer line would not renew
        self._shown, self._next = "", ""
        # A log has its first line after a while: what is done by then needs none.
        self._at = time.monotonic() if display == "log" else float("-inf")

    def show(self, text: Message) -> None:
        """Say where things are, unless it was said a moment ago."""
        if self._display == "none":
            return
        self._next = printable(render(text), keep="")
        now = time.monotonic()
        if now - self._at >= _SECONDS[self._display]:
            self._at = now
            self._write(self._next)

    def say(self, text: str) -> None:
        """Write a line that stays."""
        if self._display != "none":
            self._write(text, end="\n")

    def close(self) -> None:
        """Say where things were last, and end the line."""
        if self._display == "line" and self._next:
            self._write(self._next, end="\n")

    def _write(self, text: str, end: str = "") -> None:
        if self._display == "log":
            sys.stderr.write(f"{text}\n")
        else:
            while not end and width_of(text) > self._columns:
                text = text[:-1]
            blanks = " " * (width_of(self._shown) - width_of(text))  # over what was longer before
            sys.stderr.write(f"\r{text}{blanks}{end}")
            self._shown = "" if end else text
        sys.stderr.flush()


def bar_of(done: int, total: int) -> str:
    """Return `[######            ]`."""
    return f"[{'#' * min(_BAR_LETTERS, _BAR_LETTERS * done // total):<{_BAR_LETTERS}}]"


@contextmanager
def show_progress(
    description: str, total: int | None = None, *, progress: bool | None = None
) -> Iterator[Callable[..., None]]:
    """Yield a function that moves a bar on stderr by one step, or by so many, of a known total."""
    line, done, started = TextLine(choose_display(progress)), 0, time.monotonic()
    name = Message(description)

    def advance(steps: int = 1) -> None:
        nonlocal done
        done += steps
        if not total:
            line.show(Message("{name} {done:,}", name=name, done=done))
            return
        bar = f"{bar_of(done, total)} {done:,} / {total:,}"
        left = (time.monotonic() - started) * (total - done) / max(done, 1)
        template = "{name} {bar}" if left < 1 else "{name} {bar}, {time} left"
        line.show(Message(template, name=name, bar=bar, time=duration(left)))

    try:
        yield advance
    finally:
        line.close()


def track(
    items: Iterator[Item],
    description: str,
    total: int | None = None,
    size_of: Callable[[Item], int] = lambda _: 1,
    *,
    progress: bool | None = None,
) -> Iterator[Item]:
    """Yield the items while a bar on stderr shows how far it is, in a total of their sizes."""
    # A stream that waited for the garbage collector could be ended inside a lock that it needs.
    with show_progress(description, total, progress=progress) as advance, closing_stream(items):
        for item in items:
            yield item
            advance(size_of(item))


class ProgressView:
    """Shows snapshots of a run: on a terminal a bar per split, else one line with all splits."""

    def __init__(self, progress: bool | None = True) -> None:
        display = choose_display(progress)
        self._has_bars = display == "line" and sys.stderr.isatty()
        self._is_line = display == "line"
        self._line = TextLine("none" if self._has_bars else display)
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> ProgressView:
        if self._has_bars:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            name, note = "{task.description}", "{task.fields[note]}"
            columns = TextColumn(name, markup=False), BarColumn(), MofNCompleteColumn()
            self._bars = Progress(
                *columns, TextColumn(note, markup=False), console=Console(stderr=True)
            )
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()
        self._line.close()

    def show(self, snapshot: Progress) -> None:
        """Show where things are now, and what happened since."""
        for text in snapshot.news:
            words = printable(render(Message("posemill: {text}", text=text)), keep="")
            if self._bars is None:
                self._line.say(words)
            else:
                self._bars.console.print(words, markup=False, highlight=False, soft_wrap=True)
        if self._bars is not None:
            self._draw(snapshot)
        elif self._is_line and snapshot.frames_known:
            bar = bar_of(snapshot.frames_done, snapshot.frames_known)
            self._line.show(Message("{bar} {words}", bar=bar, words=snapshot.describe()))
        else:
            self._line.show(snapshot.describe())

    def count(self, done: int, total: int) -> None:
        """Show how many videos were looked into to learn their lengths."""
        if self._bars is None:
            template = "counting frames: {done} / {total} videos"
            self._line.show(Message(template, done=done, total=total))
        else:
            self._move(render(Message("counting frames")), done, total, visible=done < total)

    def _draw(self, snapshot: Progress) -> None:
        from posemill.jobs.extract.status import failed_text

        for index, count in enumerate(snapshot.counts, start=1):
            done = snapshot.done_by_split[count.split]
            failed = count.frames_failed, count.clips_failed
            notes = [failed_text(*failed)] if any(failed) else []
            notes += [snapshot.speed_text()] if index == len(snapshot.counts) else []
            note = "  ".join(map(render, notes))
            self._move(count.split, done, max(count.frames_known, done, 1), note=note)

    def _move(self, name: str, done: int, total: int, *, note: str = "", **more: Any) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(printable(name, keep=""), note="")
        self._bars.update(self._tasks[name], completed=done, total=total, note=note, **more)
