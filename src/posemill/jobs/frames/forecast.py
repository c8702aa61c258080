"""What keeping all frames of a source would take: disk and time, by a sample of that source."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posemill.config import FramesConfig
from posemill.decoders.sampling import fewer_frames
from posemill.jobs.extract.opening import count_frames
from posemill.jobs.extract.workers import plan_workers
from posemill.jobs.forecast import sample_clips
from posemill.jobs.frames.run import with_decoder, write_frames
from posemill.messages import Message
from posemill.runs.frame_index import read_index
from posemill.sources import find_clips
from posemill.terminal import duration

_FIRST_FRAMES = 64
_SAMPLE_SECONDS = 5.0


@dataclass(frozen=True)
class FramesForecast:
    """What was measured, and what follows from it.

    Args:
        num_frames: That would be kept, of the whole source.
        picture_bytes: On the disk, of all pictures; None where the frames are packed.
        packed_bytes: Of all packs.
        seconds: Of work, with `num_workers`.
        what: The pictures in a few words: `jpg 256 (q90)`.
    """

    num_clips: int
    num_frames: int
    picture_bytes: int | None
    packed_bytes: int
    seconds: float
    num_workers: int
    what: str
    sample_frames: int
    sample_seconds: float

    def describe(self) -> Message:
        """Return one line: clips, frames, disk and time, and what packs would take."""
        template = (
            "{num_clips:,|clip|clips}, {num_frames} frames: about {packed_size} packed, {time} on "
            "{num_workers:worker|workers}"
        )
        if self.picture_bytes is not None:
            template = (
                "{num_clips:,|clip|clips}, {num_frames} frames: about {picture_size} as {what}, "
                "{time} on {num_workers:worker|workers}; packed {packed_size}"
            )
        return Message(
            template,
            num_clips=self.num_clips,
            num_frames=in_words(self.num_frames),
            picture_size=in_bytes(self.picture_bytes or 0),
            what=self.what,
            time=duration(self.seconds),
            num_workers=self.num_workers,
            packed_size=in_bytes(self.packed_bytes),
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return dataclasses.asdict(self)


def forecast_frames(
    config: FramesConfig, *, on_count: Callable[[int, int], None] | None = None
) -> FramesForecast:
    """Return what the frames of a source would take; some of it is done in a scratch folder."""
    clips = find_clips(config.source, layout=config.layout, splits=config.splits)
    config, _ = with_decoder(config, config.out, clips)
    sampling = fewer_frames(config.fps, config.stride)
    counted = count_frames(clips, on_count, decoder=config.decoder, sampling=sampling)
    num_frames = sum(clip.num_frames or 0 for clip in counted)
    plan = plan_workers(config)
    with tempfile.TemporaryDirectory(prefix="posemill-frames-") as name:
        budget, speed = _FIRST_FRAMES, 0.0
        # A small one first: it warms the caches and says how large the sample may be.
        for step in ("first", "second"):
            sample = sample_clips(clips, counted, budget)
            changed = config.replace(
                out=Path(name) / step, executor="serial", workers=None, retry_failed=False
            )
            started = time.monotonic()
            summary = write_frames(changed, clips=sample)
            seconds = max(time.monotonic() - started, 1e-6)
            speed = max(1, summary.num_frames) / seconds
            budget = max(_FIRST_FRAMES, int(speed * _SAMPLE_SECONDS))
        kept = max(1, summary.num_frames)
        raw = sum(
            3 * clip.size_wh[0] * clip.size_wh[1] * clip.num_frames
            for clip in read_index(summary.index)
        )
    share = num_frames / kept
    size = "" if config.resize is None else f" {config.resize.partition('x')[0]}"
    if config.resize and not config.short_side:
        size = f" {config.resize}"
    quality = "" if config.format == "png" else f" (q{config.quality})"
    return FramesForecast(
        len(clips),
        num_frames,
        None if config.pack else int(summary.num_bytes * share),
        int(raw * share),
        num_frames / speed / plan.num_workers,
        plan.num_workers,
        f"{config.format}{size}{quality}",
        kept,
        seconds,
    )


def in_words(number: int) -> str:
    """Return a number as one reads it: `812`, `3,600`, `3.6 M`."""
    return f"{number / 1e6:.1f} M" if number >= 1e6 else f"{number:,}"


def in_bytes(number: int) -> str:
    """Return `210 GB`, `1.3 TB`, `4.2 MB`."""
    for power, unit in ((12, "TB"), (9, "GB"), (6, "MB")):
        if number >= 10**power:
            value = number / 10**power
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"
    return f"{number / 1000:.1f} kB"
