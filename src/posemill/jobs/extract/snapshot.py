"""How far a run is, at one moment: for a live bar, for `status`, and for the run's own file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from posemill.messages import Message, join
from posemill.runs.queries import SplitCounts
from posemill.terminal import duration


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
        news: What happened since the snapshot before and is worth a line: workers that died.
    """

    counts: tuple[SplitCounts, ...]
    in_flight: Mapping[str, int] = field(default_factory=dict)
    frames_per_second: float | None = None
    seconds_left: float | None = None
    elapsed_seconds: float = 0.0
    num_workers: int = 0
    news: tuple[str, ...] = ()

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

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values; `news` were told already."""
        return {
            "frames_known": self.frames_known,
            "frames_done": self.frames_done,
            "frames_failed": self.frames_failed,
            "clips_failed": self.clips_failed,
            "frames_per_second": self.frames_per_second,
            "seconds_left": self.seconds_left,
            "elapsed_seconds": self.elapsed_seconds,
            "num_workers": self.num_workers,
            "done_by_split": self.done_by_split,
            "splits": [
                {**asdict(count), "in_flight": self.in_flight.get(count.split, 0)}
                for count in self.counts
            ],
        }


def reasons_json(reasons: Iterable[tuple[str, int, int]]) -> list[dict[str, Any]]:
    """Return reasons, how many failures each has and how many frames, as plain values."""
    return [
        {"reason": reason, "failures": failures, "frames": frames}
        for reason, failures, frames in reasons
    ]


def failed_text(num_frames: int, num_clips: int) -> Message:
    """Return `3 failed`, which are frames; `3 frames and 1 clip failed` if a whole clip did."""
    template = "{num_frames} failed"
    if num_clips:
        template = "{num_clips:clip|clips} failed"
    if num_clips and num_frames:
        template = "{num_frames:frame|frames} and {num_clips:clip|clips} failed"
    return Message(template, num_frames=num_frames, num_clips=num_clips)


def speed_text(snapshot: Snapshot) -> Message:
    """Return `41.2 frames/s, 0:12:03 left`."""
    rate, left = snapshot.frames_per_second, snapshot.seconds_left
    if rate is None:
        return Message("…")
    if left is None:
        return Message("{rate:.1f} frames/s", rate=rate)
    return Message("{rate:.1f} frames/s, {time} left", rate=rate, time=duration(left))


def describe(snapshot: Snapshot) -> Message:
    """Return one line: frames done, share, speed, failures, and the splits if there are several."""
    done, known = snapshot.frames_done, snapshot.frames_known
    template = "{done}/{known} frames ({share:.1%})" if known else "{done}/{known} frames"
    if done > known:  # some of a video whose length nobody knows yet
        template = "{done} frames"
    parts = [Message(template, done=done, known=known, share=done / known if known else 0)]
    if snapshot.frames_per_second is not None:
        parts.append(speed_text(snapshot))
    parts.append(failed_text(snapshot.frames_failed, snapshot.clips_failed))
    by_split = snapshot.done_by_split
    splits = [
        f"{count.split} {by_split[count.split]}/{count.frames_known}" for count in snapshot.counts
    ]
    return join("; ", [join(", ", parts), ", ".join(splits) if len(splits) > 1 else ""])
