"""A run's progress on stderr: live bars on a terminal, a line or lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from posemill.api.progress import TextLine, bar_text, choose_display
from posemill.language import translate, word
from posemill.terminal import printable

if TYPE_CHECKING:
    from posemill.jobs.extract.snapshot import Snapshot


class ProgressView:
    """Shows snapshots: one bar per split, the rate, what is left, what failed.

    Args:
        progress: As in `posemill.api.progress.choose_display`.
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
                TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
                TextColumn("{task.fields[note]}", markup=False), console=Console(stderr=True),
            )  # fmt: skip
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bars is not None:
            self._bars.stop()
        self._line.close()

    def show(self, snapshot: Snapshot) -> None:
        """Show where things are now, and what happened since."""
        for text in snapshot.news:
            self._say(text)
        if self._bars is not None:
            self._draw(snapshot)
        elif self._display == "line":
            bar = bar_text(snapshot.frames_done, snapshot.frames_known)
            self._line.show(f"{bar} frames  {speed_text(snapshot)}")
        else:
            self._line.show(describe(snapshot))

    def _say(self, text: str) -> None:
        said = printable(f"posemill: {translate(text)}", keep="")
        if self._bars is not None:
            self._bars.console.print(said, markup=False, highlight=False, soft_wrap=True)
        else:
            self._line.say(said)

    def count(self, done: int, total: int) -> None:
        """Show how many videos were looked into to learn their lengths."""
        if self._bars is None:
            self._line.show(f"counting frames: {done} / {total} videos")
            return
        if "counting" not in self._tasks:
            words = word("counting frames")
            self._tasks["counting"] = self._bars.add_task(words, total=total, note="")
        self._bars.update(self._tasks["counting"], completed=done, visible=done < total)

    def _draw(self, snapshot: Snapshot) -> None:
        from posemill.jobs.extract.snapshot import failed_text

        for index, each in enumerate(snapshot.counts):
            if each.split not in self._tasks:
                name = printable(each.split, keep="")
                self._tasks[each.split] = self._bars.add_task(name, note="")
            done = snapshot.done_by_split[each.split]
            failed = each.frames_failed, each.clips_failed
            note = translate(failed_text(*failed)) if any(failed) else ""
            if index == len(snapshot.counts) - 1:
                note += "  " + speed_text(snapshot)
            self._bars.update(
                self._tasks[each.split],
                completed=done,
                total=max(each.frames_known, done, 1),
                note=note.strip(),
            )


def speed_text(snapshot: Snapshot) -> str:
    """Return `41.2 frames/s, 0:12:03 left`, in the user's language."""
    from posemill.jobs.extract.snapshot import speed_text as in_english

    return in_english(snapshot, translate)


def describe(snapshot: Snapshot) -> str:
    """Return one line on how far a run is, in the user's language."""
    from posemill.jobs.extract.snapshot import describe as in_english

    return in_english(snapshot, translate)
