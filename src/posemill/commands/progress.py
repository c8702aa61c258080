"""Progress on stderr: bars on a terminal, a line that renews itself in a notebook, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from posemill.messages import Message, render
from posemill.terminal import printable, width_of

if TYPE_CHECKING:
    from posemill.jobs.extract.status import Progress

Item = TypeVar("Item")
_SECONDS = {"line": 0.2, "log": 10.0}  # between two lines
_BAR_LETTERS = 30


def choose_display(progress: bool | None) -> Literal["bars", "line", "log", "none"]:
    """Return how progress is shown here.

    Args:
        progress: None: bars on a terminal, a line in a notebook, else nothing. True: lines in a
            log as well, one every ten seconds. False: nothing.
    """
    if progress is False or sys.stderr is None:
        return "none"
    if sys.stderr.isatty():
        return "bars"
    if is_notebook():
        return "line"
    return "log" if progress else "none"


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")


class TextLine:
    """Progress in words: a line that is written over itself, or lines of a log.

    Args:
        display: `line`, `log`, or `none`: nothing is written.
    """

    def __init__(self, display: str) -> None:
        self._display = display
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
            self._write()

    def say(self, text: str) -> None:
        """Write a line that stays."""
        if self._display == "none":
            return
        blanks = " " * (width_of(self._shown) - width_of(text)) if self._display == "line" else ""
        start = "\r" if self._display == "line" else ""
        sys.stderr.write(f"{start}{text}{blanks}\n")
        sys.stderr.flush()
        self._shown = ""

    def _write(self) -> None:
        if self._display == "log":
            sys.stderr.write(f"{self._next}\n")
        else:  # blanks over what was longer before
            blanks = " " * (width_of(self._shown) - width_of(self._next))
            sys.stderr.write(f"\r{self._next}{blanks}")
        sys.stderr.flush()
        self._shown = self._next

    def close(self) -> None:
        """Say where things were last, and end the line."""
        if self._display == "line" and self._next:
            self._write()
            sys.stderr.write("\n")
            sys.stderr.flush()


def bar_text(done: int, total: int | None) -> str:
    """Return `[######            ] 1,200 / 4,000`; only the number where the total is unknown."""
    if not total:
        return f"{done:,}"
    filled = min(_BAR_LETTERS, _BAR_LETTERS * done // total)
    return f"[{'#' * filled:<{_BAR_LETTERS}}] {done:,} / {total:,}"


@contextmanager
def show_progress(
    description: str, total: int | None = None, *, progress: bool | None = None
) -> Iterator[Callable[..., None]]:
    """Yield a function that moves a bar on stderr by one step, or by so many.

    Args:
        description: What is done, in a word or two.
        total: How many steps there will be, None where unknown.
        progress: As in `choose_display`.
    """
    display = choose_display(progress)
    if display == "bars":
        with _bar(description, total) as advance_bar:
            yield advance_bar
        return
    line, done, name = TextLine(display), 0, Message(description)

    def advance(steps: int = 1) -> None:
        nonlocal done
        done += steps
        line.show(Message("{name} {bar}", name=name, bar=bar_text(done, total)))

    try:
        yield advance
    finally:
        line.close()


@contextmanager
def _bar(description: str, total: int | None) -> Iterator[Callable[..., None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns: list[Any] = [TextColumn("{task.description}", markup=False), BarColumn()]
    columns.append(TextColumn("{task.completed:,.0f}" + (f" / {total:,}" if total else "")))
    columns.append(TimeRemainingColumn(elapsed_when_finished=True))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(printable(render(Message(description)), keep=""), total=total)
        yield lambda steps=1: bars.advance(task, steps)


def track(
    items: Iterable[Item],
    description: str,
    total: int | None = None,
    size_of: Callable[[Item], int] = lambda _: 1,
    *,
    progress: bool | None = None,
) -> Iterator[Item]:
    """Yield the items while a bar on stderr shows how far it is; it vanishes at the end.

    Args:
        items: Taken one at a time.
        description: What is done, in a word or two.
        total: Sum of all sizes, None where unknown.
        size_of: How far an item brings the bar.
        progress: As in `choose_display`.
    """
    with show_progress(description, total, progress=progress) as advance:
        for item in items:
            yield item
            advance(size_of(item))


class ProgressView:
    """Shows snapshots: one bar per split, the rate, what is left, what failed.

    Args:
        progress: As in `choose_display`.
    """

    def __init__(self, progress: bool | None = True) -> None:
        self._display = choose_display(progress)
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._line = TextLine("none" if self._display == "bars" else self._display)

    def __enter__(self) -> ProgressView:
        if self._display == "bars":
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            self._bars = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}", markup=False),
                console=Console(stderr=True),
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
            self._say(text)
        if self._bars is not None:
            self._draw(snapshot)
        elif self._display == "line":
            bar = bar_text(snapshot.frames_done, snapshot.frames_known)
            self._line.show(Message("{bar} frames  {speed}", bar=bar, speed=snapshot.speed_text()))
        else:
            self._line.show(snapshot.describe())

    def _say(self, text: str) -> None:
        said = printable(render(Message("posemill: {text}", text=text)), keep="")
        if self._bars is not None:
            self._bars.console.print(said, markup=False, highlight=False, soft_wrap=True)
        else:
            self._line.say(said)

    def count(self, done: int, total: int) -> None:
        """Show how many videos were looked into to learn their lengths."""
        if self._bars is None:
            self._line.show(
                Message("counting frames: {done} / {total} videos", done=done, total=total)
            )
            return
        if "counting" not in self._tasks:
            words = render(Message("counting frames"))
            self._tasks["counting"] = self._bars.add_task(words, total=total, note="")
        self._bars.update(self._tasks["counting"], completed=done, visible=done < total)

    def _draw(self, snapshot: Progress) -> None:
        from posemill.jobs.extract.status import failed_text

        for index, each in enumerate(snapshot.counts):
            if each.split not in self._tasks:
                name = printable(each.split, keep="")
                self._tasks[each.split] = self._bars.add_task(name, note="")
            done = snapshot.done_by_split[each.split]
            failed = each.frames_failed, each.clips_failed
            note = render(failed_text(*failed)) if any(failed) else ""
            if index == len(snapshot.counts) - 1:
                note += "  " + render(snapshot.speed_text())
            self._bars.update(
                self._tasks[each.split],
                completed=done,
                total=max(each.frames_known, done, 1),
                note=note.strip(),
            )
