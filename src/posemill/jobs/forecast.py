"""How long a job on a dataset would take and how much disk, by a sample of it on this machine."""

from __future__ import annotations

import dataclasses
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posemill.config import FramesConfig, JobConfig
from posemill.jobs.extract.job import FrameJob
from posemill.jobs.extract.run import Extraction, run_job
from posemill.jobs.extract.status import Progress
from posemill.jobs.frames import FramesJob
from posemill.machine.limits import count_cores
from posemill.messages import Message
from posemill.records import Clip
from posemill.sources import ClipList

_FIRST_FRAMES = 24
_USUAL_FPS = 25.0


@dataclass(frozen=True)
class Forecast:
    """What was measured, and what follows from it."""

    num_clips: int
    num_frames: int  # of the whole source
    sample_frames: int  # that were measured
    speeds: dict[int, float]  # measured frames per second by number of workers
    bytes_per_frame: float
    num_cores: int

    def rows(self) -> Iterator[tuple[int, float, float, float, Message]]:
        """Yield workers (1, 2, 4, 8 …), hours, gigabytes, frames per second, and how it is known.

        The speed was measured, or is in proportion to the closest that was.
        """
        gigabytes = self.num_frames * self.bytes_per_frame / 1e9
        workers = 1
        while workers <= max(32, self.num_cores):
            smaller = [number for number in self.speeds if number <= workers]
            nearest = max(smaller, default=min(self.speeds))
            speed = self.speeds[nearest] * workers / nearest
            hours = self.num_frames / speed / 3600
            template = "in proportion; this machine has {num_cores:core|cores}"
            if workers in self.speeds:
                template = "measured"
            elif workers <= self.num_cores:
                template = "in proportion"
            note = Message(template, num_cores=self.num_cores)
            yield workers, hours, gigabytes, speed, note
            workers *= 2

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        names = ("workers", "hours", "gigabytes", "frames_per_second", "note")
        rows = [dict(zip(names, row, strict=True)) for row in self.rows()]
        return {**dataclasses.asdict(self), "forecast": rows}


def forecast(
    config: JobConfig,
    *,
    sample_seconds: float = 20.0,
    on_count: Callable[[int, int], None] = lambda done, total: None,
    on_frames: Callable[[int], None] = lambda number: None,
) -> Forecast:
    """Return what a job on a source would take; measures about `sample_seconds` per step.

    `on_frames` is called with the number of frames that were measured since the last call.
    """
    cores, speeds = count_cores(), {}
    with tempfile.TemporaryDirectory(prefix="posemill-plan-") as name:
        scratch = Path(name)
        job = _job_of(config, scratch)
        clips = job.count_frames(job.find_clips(), on_count)
        config, sample = job.config, sample_clips(clips, _FIRST_FRAMES)
        # A small one first: it warms the caches and says how large the sample may be.
        _, speed = _measure(config, sample, scratch / "first", on_frames, workers=1)
        budget = max(_FIRST_FRAMES, int(speed * sample_seconds))
        # With GPUs their number decides, whatever the cores.
        numbers = {1, cores} if config.executor != "serial" else {1}
        if config.num_gpus:
            numbers = {config.num_gpus * config.num_workers_per_gpu}
        for workers in sorted(numbers):
            sample, folder = sample_clips(clips, budget * workers), scratch / str(workers)
            summary, speeds[workers] = _measure(config, sample, folder, on_frames, workers=workers)
    return Forecast(
        len(clips),
        sum(clip.num_frames or 0 for clip in clips),
        summary.frames_done,
        speeds,
        summary.num_bytes / max(1, summary.num_frames),
        cores,
    )


def sample_clips(clips: ClipList, budget: int) -> ClipList:
    """Return clips from all over the source, always the same, together of about `budget` frames."""
    chosen: list[Clip] = []
    for clip in random.Random(0).sample(clips, len(clips)):
        if budget <= 0:
            break
        if not clip.num_frames:
            continue
        # Of a long one the first frames are enough.
        num_frames = min(clip.num_frames, max(budget, 8))
        if clip.kind == "video" and num_frames < clip.num_frames:
            end = clip.start_seconds + num_frames / _USUAL_FPS
            clip = dataclasses.replace(clip, num_frames=None, end_seconds=end)
        elif clip.kind != "video":
            clip = dataclasses.replace(clip, num_frames=num_frames)
        chosen.append(clip)
        budget -= num_frames
    return dataclasses.replace(clips, clips=tuple(chosen), fingerprint="sample")


def _job_of(config: JobConfig, folder: Path) -> FrameJob:
    """Return the job on a folder of this machine, wherever it would go to."""
    if isinstance(config, FramesConfig):
        return FramesJob(config.replace(out=folder))
    return Extraction(config.replace(out=folder, storage="local"))


def _measure(
    config: JobConfig,
    sample: ClipList,
    folder: Path,
    on_frames: Callable[[int], None],
    *,
    workers: int,
) -> tuple[Progress, float]:
    """Return what came of a sample, and frames per second without the start of the workers."""
    seen: list[tuple[float, int]] = []

    def watch(snapshot: Progress) -> None:
        before = seen[-1][1] if seen else 0
        if snapshot.frames_done > before:
            seen.append((time.monotonic(), snapshot.frames_done))
            on_frames(snapshot.frames_done - before)

    number = None if config.num_gpus or config.executor == "serial" else workers
    job = _job_of(config.replace(workers=number, retry_failed=False), folder)
    started = time.monotonic()
    summary = run_job(job, clips=sample, on_progress=watch)
    (first_at, first), (last_at, last) = (seen[0], seen[-1]) if seen else ((started, 0),) * 2
    if last_at - first_at > 1.0:
        return summary, (last - first) / (last_at - first_at)
    return summary, max(1, summary.num_frames) / (time.monotonic() - started)
