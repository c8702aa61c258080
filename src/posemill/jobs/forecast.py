"""How long a dataset would take and how much disk, measured on a sample on this machine."""

from __future__ import annotations

import dataclasses
import hashlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posemill.config import ExtractConfig
from posemill.decoders.choice import settle_for_extraction
from posemill.decoders.sampling import fewer_frames
from posemill.jobs.extract.opening import count_frames
from posemill.jobs.extract.plan import check_rate
from posemill.jobs.extract.run import extract
from posemill.machine.limits import count_cores
from posemill.messages import Message
from posemill.records import Clip
from posemill.runs.reader import open_run
from posemill.sources import ClipList, find_clips

_CLIPS_PROBED = 24
_USUAL_FPS = 25.0


@dataclass(frozen=True)
class Forecast:
    """What was measured, and what follows from it.

    Args:
        num_frames: Of the whole source; videos that do not say are counted by their packets.
        sample_frames: How many were measured.
        speeds: Measured frames per second by number of workers.
        bytes_per_frame: On the disk.
    """

    num_clips: int
    num_frames: int
    sample_frames: int
    speeds: dict[int, float]
    bytes_per_frame: float
    num_cores: int

    def rows(self) -> Iterator[tuple[int, float, float, Message]]:
        """Yield workers, hours, gigabytes, and how the speed is known: 1, 2, 4, 8 … workers."""
        gigabytes = self.num_frames * self.bytes_per_frame / 1e9
        workers = 1
        while workers <= max(32, self.num_cores):
            hours = self.num_frames / self.speed(workers) / 3600
            yield workers, hours, gigabytes, self.note(workers)
            workers *= 2

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        rows = [
            {"workers": workers, "hours": hours, "gigabytes": gigabytes, "note": note}
            for workers, hours, gigabytes, note in self.rows()
        ]
        return {**dataclasses.asdict(self), "forecast": rows}

    def speed(self, workers: int) -> float:
        """Return frames per second: measured, or in proportion to the closest that was."""
        nearest = max((each for each in self.speeds if each <= workers), default=min(self.speeds))
        return self.speeds[nearest] * workers / nearest

    def note(self, workers: int) -> Message:
        """Return how the speed is known."""
        if workers in self.speeds:
            return Message("measured")
        if workers <= self.num_cores:
            return Message("in proportion")
        return Message(
            "in proportion; this machine has {num_cores:core|cores}", num_cores=self.num_cores
        )


def forecast(config: ExtractConfig, *, sample_seconds: float = 20.0) -> Forecast:
    """Return what extracting a source would take; measures about `sample_seconds` per step."""
    clips = find_clips(config.source, layout=config.layout, splits=config.splits)
    config = config.replace(decoder=settle_for_extraction(config.decoder))
    check_rate(config.fps, clips)
    sampling = fewer_frames(config.fps, config.stride)
    counted = count_frames(clips, decoder=config.decoder, sampling=sampling)
    num_frames = sum(clip.num_frames or 0 for clip in counted)
    cores = count_cores()
    with tempfile.TemporaryDirectory(prefix="posemill-plan-") as name:
        scratch = Path(name)
        # A small one first: it warms the caches and says how large the sample may be.
        _, speed, _ = _measure(
            config, sample_clips(clips, counted, 24), scratch / "first", workers=1
        )
        budget = max(24, int(speed * sample_seconds))
        speeds, used, bytes_per_frame = {}, 0, 0.0
        # With GPUs their number decides, whatever the cores.
        num_on_gpus = config.num_gpus * config.num_workers_per_gpu
        for workers in [num_on_gpus] if num_on_gpus else sorted({1, cores}):
            sample = sample_clips(clips, counted, budget * workers)
            used, speeds[workers], bytes_per_frame = _measure(
                config, sample, scratch / str(workers), workers=workers
            )
    return Forecast(len(clips), num_frames, used, speeds, bytes_per_frame, cores)


def sample_clips(clips: ClipList, counted: Sequence[Clip], budget: int) -> ClipList:
    """Return clips from all over the source, together of about `budget` frames."""
    order = sorted(
        range(len(clips)), key=lambda index: hashlib.sha256(str(index).encode()).digest()
    )[: max(_CLIPS_PROBED, budget)]
    chosen: list[Clip] = []
    total = 0
    for index in order:
        clip = counted[index]
        if not clip.num_frames:
            continue
        room = budget - total
        # Of a long one the first frames are enough.
        wanted = min(clip.num_frames, max(room, 8))
        if clip.kind == "video" and wanted < clip.num_frames:
            end = clip.start_seconds + wanted / _USUAL_FPS
            clip = dataclasses.replace(clip, num_frames=None, end_seconds=end)
        elif clip.kind != "video":
            clip = dataclasses.replace(clip, num_frames=wanted)
        chosen.append(clip)
        total += wanted
        if total >= budget:
            break
    return dataclasses.replace(clips, clips=tuple(chosen), fingerprint=f"sample-{budget}")


def _measure(
    config: ExtractConfig, sample: ClipList, folder: Path, *, workers: int
) -> tuple[int, float, float]:
    """Return frames done, frames per second without the start of the workers, bytes per frame."""
    seen: list[tuple[float, int]] = []

    def watch(snapshot: object) -> None:
        done = getattr(snapshot, "frames_done", 0)
        if done and (not seen or done > seen[-1][1]):
            seen.append((time.monotonic(), done))

    workers_or_gpus = None if config.num_gpus else workers
    config = config.replace(out=folder, workers=workers_or_gpus, retry_failed=False)
    started = time.monotonic()
    extract(config, clips=sample, on_progress=watch)
    run = open_run(folder)
    size = sum(path.stat().st_size for path in (folder / "shards").iterdir())
    (first_at, first), (last_at, last) = (seen[0], seen[-1]) if seen else ((started, 0),) * 2
    if last_at - first_at > 1.0:
        speed = (last - first) / (last_at - first_at)
    else:
        speed = max(1, run.num_frames) / (time.monotonic() - started)
    return last, speed, size / max(1, run.num_frames)
