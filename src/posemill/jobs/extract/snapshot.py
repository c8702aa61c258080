"""How far a run is, at one moment: for a live bar, for `status`, and for the run's own file."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from posemill.files import open_plain
from posemill.stores.commits import SplitCounts

LIVE_NAME = "live.json"
_RATE_SECONDS = 60.0


@dataclass(frozen=True)
class Snapshot:
    """Counts per split, and the speed of the last minute.

    Args:
        counts: What is committed, per split.
        in_flight: Frames done and not yet committed, per split.
        frames_per_second: Over the last minute; None before there is anything to measure.
        seconds_left: By that speed; None where it cannot be said.
        elapsed_seconds: Since this start of the run.
        num_workers: Busy ones.
    """

    counts: tuple[SplitCounts, ...]
    in_flight: Mapping[str, int] = field(default_factory=dict)
    frames_per_second: float | None = None
    seconds_left: float | None = None
    elapsed_seconds: float = 0.0
    num_workers: int = 0

    @property
    def frames_known(self) -> int:
        """Frames of all clips whose length is known."""
        return sum(each.frames_known for each in self.counts)

    @property
    def done_by_split(self) -> dict[str, int]:
        """Frames that are out, failed, or in flight, of each split."""
        return {
            each.split: each.frames_out + each.frames_failed + self.in_flight.get(each.split, 0)
            for each in self.counts
        }

    @property
    def frames_done(self) -> int:
        """Frames that are out, failed, or in flight."""
        return sum(self.done_by_split.values())

    @property
    def frames_failed(self) -> int:
        """Frames that gave no keypoints."""
        return sum(each.frames_failed for each in self.counts)

    @property
    def clips_failed(self) -> int:
        """Clips that gave no keypoints at all."""
        return sum(each.clips_failed for each in self.counts)


def failed_text(num_frames: int, num_clips: int) -> str:
    """Return `3 failed`, which are frames; `3 frames and 1 clip failed` if a whole clip did."""
    if not num_clips:
        return f"{num_frames} failed"
    clips = f"{num_clips} clip{'s' * (num_clips > 1)} failed"
    return f"{num_frames} frame{'s' * (num_frames > 1)} and {clips}" if num_frames else clips


class Speedometer:
    """Frames per second over the last minute."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def see(self, frames_done: int) -> float | None:
        """Return the speed now that so many frames are done."""
        now = time.monotonic()
        if not self._seen or now - self._seen[-1][0] > 0.2:
            self._seen.append((now, frames_done))
        while len(self._seen) > 2 and now - self._seen[0][0] > _RATE_SECONDS:
            self._seen.popleft()
        (then, before), (last, after) = self._seen[0], self._seen[-1]
        if last - then < 1.0 or after <= before:
            return None
        return (after - before) / (last - then)


def write_live(folder: Path, snapshot: Snapshot) -> None:
    """Leave the speed where `status` finds it. Not flushed: it is worth nothing after a crash."""
    content = {
        **asdict(snapshot),
        "counts": None,
        "done_by_split": snapshot.done_by_split,
        "written_at": time.time(),
    }
    temporary = folder / f".{LIVE_NAME}.tmp"
    with suppress(OSError):  # a full disk is met where it matters
        descriptor = open_plain(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(json.dumps(content))
        os.replace(temporary, folder / LIVE_NAME)  # noqa: PTH105


def read_live(folder: Path) -> dict[str, Any]:
    """Return what `write_live` left, nothing if it did not."""
    try:
        with os.fdopen(open_plain(folder / LIVE_NAME), encoding="utf-8") as handle:
            content = json.load(handle)
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
