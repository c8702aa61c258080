"""Clips that could not be read: counted over all processes, and told at the end of a training."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from posemill.messages import Message, from_json, join, to_json
from posemill.terminal import warn_once


class ClipProblem(NamedTuple):
    """A clip that could not be read, why, and how often that was found."""

    clip_id: str
    message: str
    times: int


class Problems:
    """What loader processes note in one file beside each other; goes with who made it.

    `rule` says what is done with such a clip; `labels` are those of each clip by its id.
    """

    def __init__(self, rule: str, labels: Mapping[str, str] | None = None) -> None:
        self.rule, self.labels = rule, dict(labels or {})
        self._folder = Path(tempfile.mkdtemp(prefix="posemill-clips-"))
        weakref.finalize(self, _remove, self._folder, os.getpid())
        _LIVE.add(self)

    def add(self, clip_id: str, message: str, rule: str = "") -> None:
        """Note that a clip could not be read, and log it; with the rule where it is another."""
        warn_once(
            Message(
                "{message}; clip {clip_id!r} is {rule}",
                message=message,
                clip_id=clip_id,
                rule=Message(rule or self.rule),
            )
        )
        line = json.dumps([clip_id, to_json(message)]).encode() + b"\n"
        # One write to the end of a file: lines of several processes stay whole.
        with (
            suppress(OSError),  # a counter is not worth a training; the log has it
            (self._folder / "problems").open("ab", buffering=0) as file,
        ):
            file.write(line)

    def found(self) -> list[ClipProblem]:
        """Return the clips that could not be read so far, in all processes."""
        counts: dict[str, tuple[str, int]] = {}
        try:
            text = (self._folder / "problems").read_text()
        except FileNotFoundError:
            return []
        for line in text.splitlines():
            clip_id, message = json.loads(line)
            counts[clip_id] = (from_json(message), counts.get(clip_id, ("", 0))[1] + 1)
        return [ClipProblem(name, *rest) for name, rest in counts.items()]

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch for every process."""
        # Behind the last one: there is no moment without eight bytes, and others read meanwhile.
        with (self._folder / "epoch").open("ab", buffering=0) as file:
            file.write(epoch.to_bytes(8, "little"))

    def read_epoch(self) -> int | None:
        """Return the epoch that was last set in any process; None if none was."""
        try:
            return int.from_bytes((self._folder / "epoch").read_bytes()[-8:], "little")
        except OSError:
            return None


def live_problems() -> dict[Problems, int]:
    """Return how often each data set of this process met a clip that could not be read."""
    return {each: sum(problem.times for problem in each.found()) for each in list(_LIVE)}


def describe_problems(before: Mapping[Problems, int]) -> list[str]:
    """Return a line for each data set with clips that could not be read since `before`."""
    lines: list[str] = []
    for problems, times in live_problems().items():
        since, found = times - before.get(problems, 0), problems.found()
        if not since:
            continue
        more = Message("; and {num_more} more", num_more=len(found) - 3) if len(found) > 3 else ""
        lines.append(
            Message(
                "{num_clips:clip|clips} could not be read, {num_times} times in all, each was "
                "{rule}: {first}{more}",
                num_clips=len(found),
                num_times=since,
                rule=Message(problems.rule),
                first=join("; ", [problem.message for problem in found[:3]]),
                more=more,
            )
        )
        unread = {problem.clip_id for problem in found}
        read = {label for clip_id, label in problems.labels.items() if clip_id not in unread}
        lines += [
            Message(
                "no clip of label {label!r} could be read: nothing was learned, or scored, of it",
                label=label,
            )
            for label in sorted({*problems.labels.values()} - read - {""})
        ]
    return lines


def _remove(folder: Path, pid: int) -> None:
    if os.getpid() == pid:  # a forked loader drops its copy, too
        shutil.rmtree(folder, ignore_errors=True)


_LIVE: weakref.WeakSet[Problems] = weakref.WeakSet()
