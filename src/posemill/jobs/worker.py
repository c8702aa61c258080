"""A worker: decodes, estimates and writes by itself, and says what it committed."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from posemill.errors import ConfigError, PosemillError
from posemill.estimators import Estimator, open_estimator
from posemill.executors import Progress
from posemill.jobs.messages import (
    ESTIMATING,
    STARTING,
    WRITING,
    Commit,
    Fatal,
    Task,
    Unit,
    UnitProgress,
    WorkerSettings,
)
from posemill.jobs.task import SLOW_STEP_SECONDS, Failed, FrameReader, Item, Lane, attempt
from posemill.records import Keypoints, PoseClip
from posemill.stores.writer import ShardWriter

_FRAMES_BETWEEN_MEMORY_CHECKS = 16
_BEAT_SECONDS = 0.2


@dataclass(frozen=True)
class MakeWorker:
    """Makes the function of worker number i, in the worker."""

    settings: WorkerSettings

    def __call__(self, worker_index: int) -> Worker:
        """Return the worker, bound to its device."""
        devices = self.settings.devices
        return Worker(self.settings, devices[worker_index % len(devices)])


class Worker:
    """Has one engine, opened at the first task, and does one task after the other."""

    def __init__(self, settings: WorkerSettings, device: str) -> None:
        self.settings = settings
        self._device = device
        self._estimator: Estimator | None = None

    def __call__(self, task: Task, progress: Progress) -> Iterator[Commit | Fatal | None]:
        """Yield a commit for every shard written; None now and then."""
        progress.at(-1, -1, STARTING, 0, seconds=SLOW_STEP_SECONDS)
        try:
            estimator = self._open()
        except PosemillError as error:
            yield Fatal(type(error).__name__, str(error))
            return
        yield from _TaskRun(self.settings, estimator, task, progress).run()

    def _open(self) -> Estimator:
        if self._estimator is None:
            settings = self.settings
            self._estimator = open_estimator(
                settings.engine, device=self._device, threads=1, **settings.engine_options
            )
            used = psutil.Process().memory_info().rss
            if settings.memory_bytes and used > settings.memory_bytes:
                raise ConfigError(
                    f"memory limit: the engine alone needs {used >> 20} MB, allowed are "
                    f"{settings.memory_bytes >> 20} MB; give more with --memory-limit-mb"
                )
        return self._estimator


class _TaskRun:
    """One task, from its first frame to its last commit."""

    def __init__(
        self, settings: WorkerSettings, estimator: Estimator, task: Task, progress: Progress
    ) -> None:
        self._settings = settings
        self._estimator = estimator
        self._task = task
        self._progress = progress
        self._batch_size = 1 if task.is_careful else settings.batch_size
        self._writer = ShardWriter(Path(settings.folder))
        self._finished: list[UnitProgress] = []
        self._reader = FrameReader(settings.decoder, self._at)
        self._num_rows = 0
        self._num_frames = 0
        self._num_shards = 0
        self._position = 0
        self._process = psutil.Process()

    def run(self) -> Iterator[Commit | Fatal | None]:
        """Yield a commit whenever enough rows are there, and at the end."""
        try:
            yield from self._run()
        except OSError as error:
            # Only writing raises here: reading and estimating go through `attempt`.
            yield Fatal("RunError", self._describe(error))

    def _run(self) -> Iterator[Commit | None]:
        beat_at = time.monotonic()
        for position, unit in enumerate(self._task.units):
            self._position = position
            lane = self._open_lane(unit)
            with closing(self._reader.read(lane)) as items:
                for item in items:
                    self._take(lane, item)
                    if self._should_leave():
                        yield self._commit(lane)
                        return
                    if self._num_rows >= self._task.piece_frames and not lane.waiting:
                        yield self._commit(lane)
                    elif time.monotonic() - beat_at > _BEAT_SECONDS:
                        beat_at = time.monotonic()
                        yield None
            self._estimate(lane)
            self._finished.append(self._collect(lane, is_done=True))
        yield self._commit(None)

    def _open_lane(self, unit: Unit) -> Lane:
        state = None
        if unit.is_chain:
            engine = self._estimator
            state = engine.new_state() if unit.state is None else engine.load_state(unit.state)
        return Lane(unit, unit.next_frame, state)

    def _at(self, index: int, phase: int, seconds: float = 0.0) -> None:
        self._progress.at(self._position, index, phase, self._num_frames, seconds=seconds)

    def _take(self, lane: Lane, item: Item) -> None:
        """Add a frame to its lane, with its keypoints or with the reason why there are none."""
        index, path, frame = item
        unit = lane.unit
        if index in unit.skip:
            frame = Failed("crashed the worker", unit.skip[index])
        elif unit.give_up is not None and index >= unit.give_up[0]:
            frame = Failed("crashed the worker", unit.give_up[1])
        if isinstance(frame, Failed):
            self._estimate(lane)
            lane.lose(index, frame, path=path or unit.clip.path)
            lane.next_frame = index + 1
            self._num_frames += 1
            return
        lane.waiting.append((index, path, frame))
        if unit.is_chain or len(lane.waiting) >= self._batch_size:
            self._estimate(lane)

    def _estimate(self, lane: Lane) -> None:
        """Run the engine on the frames that wait."""
        waiting, lane.waiting = lane.waiting, []
        if not waiting:
            return
        self._at(waiting[0][0], ESTIMATING)
        frames = [frame for _, _, frame in waiting]
        states = None if lane.state is None else [lane.state]
        result = attempt(lambda: self._estimator.estimate(frames, states))
        if isinstance(result, Failed) and len(waiting) > 1:
            for each in waiting:  # one of them is to blame
                lane.waiting = [each]
                self._estimate(lane)
            return
        if isinstance(result, Failed):
            index, path, _ = waiting[0]
            lane.lose(index, result, path=path or lane.unit.clip.path)
            if lane.state is not None:  # what is left of it is not to be trusted
                lane.state = self._estimator.new_state()
        else:
            for row, (index, path, _) in enumerate(waiting):
                lane.found.append((index, path, _row_of(result, row)))
            self._num_rows += len(waiting)
        lane.next_frame = waiting[-1][0] + 1
        self._num_frames += len(waiting)

    def _should_leave(self) -> bool:
        if self._progress.is_stopping:
            return True
        limit = self._settings.memory_bytes
        if not limit or self._num_frames % _FRAMES_BETWEEN_MEMORY_CHECKS:
            return False
        if self._process.memory_info().rss <= limit:
            return False
        self._progress.recycle()
        return True

    def _collect(self, lane: Lane, *, is_done: bool) -> UnitProgress:
        """Move what a lane has to the shard, and return how far the unit is."""
        unit, found, lost = lane.unit, lane.found, lane.lost
        if found:
            clip = _pose_clip(lane, self._estimator.skeleton_name)
            self._writer.add(
                unit.clip_no, clip.as_skeleton(self._settings.skeleton_name), unit_no=unit.unit_no
            )
        lane.found, lane.lost = [], []
        state = None if is_done or lane.state is None else lane.state.to_bytes()
        return UnitProgress(unit.unit_no, unit.clip_no, unit.clip.split, lane.next_frame, state,
                            is_done, len(found), tuple(lost))  # fmt: skip

    def _commit(self, lane: Lane | None) -> Commit:
        """Write the shard; return it with the units finished since the last, and the one begun."""
        units = self._finished
        if lane is not None:
            self._estimate(lane)
            units = [*units, self._collect(lane, is_done=False)]
        self._progress.at(-1, -1, WRITING, self._num_frames, seconds=SLOW_STEP_SECONDS)
        shard = None
        if self._writer.num_rows:
            shard = self._writer.write(f"{self._task.name}-{self._num_shards:04d}.parquet")
            self._num_shards += 1
        self._finished, self._num_rows, self._num_frames = [], 0, 0
        self._progress.at(-1, -1, WRITING, 0)  # from here on they count as committed
        return Commit(shard, tuple(units))

    def _describe(self, error: OSError) -> str:
        where = os.path.join(self._settings.folder, "shards")  # noqa: PTH118
        return disk_message(error, where)


def disk_message(error: OSError, where: str) -> str:
    """Return what to tell about a write that failed: what happened and what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"no room left to write to {where} ({error.strerror}); everything committed so far "
            "is safe: make room and run the same command again"
        )
    return (
        f"cannot write to {where}: {error}; everything committed so far is safe: "
        "run the same command again when it can be written"
    )


def _row_of(keypoints: Keypoints, row: int) -> Keypoints:
    chosen = slice(row, row + 1)
    return Keypoints(keypoints.points[chosen], keypoints.scores[chosen], keypoints.sizes_wh[chosen])


def _pose_clip(lane: Lane, skeleton_name: str) -> PoseClip:
    clip = lane.unit.clip
    results: list[Any] = [keypoints for _, _, keypoints in lane.found]
    paths = tuple(path for _, path, _ in lane.found if path is not None)
    return PoseClip(
        np.concatenate([each.points for each in results]),
        np.concatenate([each.scores for each in results]),
        np.concatenate([each.sizes_wh for each in results]),
        skeleton_name,
        clip_id=clip.clip_id,
        split=clip.split,
        frame_indices=np.array([index for index, _, _ in lane.found], np.int64),
        image_paths=paths,
        label=clip.label,
        fps=lane.fps,
        extra=dict(clip.extra),
    )
