"""What a worker does with a task: decode, estimate, write, and say what it committed.

The only place of the package that catches everything: whatever a file or an engine throws becomes
a row with its reason, and the next frame follows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import psutil

from posemill.decoders import VideoReader, open_video
from posemill.decoders.pictures import read_picture
from posemill.errors import ConfigError, DecodeError, PosemillError
from posemill.estimators import ClipState, Estimator, open_estimator
from posemill.executors import Progress
from posemill.jobs.messages import (
    DECODING,
    ESTIMATING,
    STARTING,
    WRITING,
    Commit,
    Fatal,
    Lost,
    Task,
    Unit,
    UnitProgress,
    WorkerSettings,
)
from posemill.records import Frame, Keypoints, PoseClip
from posemill.sources.frames import frame_path, list_frames
from posemill.stores.writer import ShardWriter

_SLOW_STEP_SECONDS = 600.0  # loading models for the first time, writing to a busy disk
_FRAMES_BETWEEN_MEMORY_CHECKS = 16
_BEAT_SECONDS = 0.2
_T = TypeVar("_T")


@dataclass(frozen=True)
class _Failed:
    reason: str
    message: str


def _attempt(step: Callable[[], _T]) -> _T | _Failed:
    """Return what a step gives, or why it gave nothing."""
    try:
        return step()
    except DecodeError as error:
        return _Failed(error.reason, str(error))
    except Exception as error:  # noqa: BLE001  (see the top of the module)
        return _Failed(f"unexpected {type(error).__name__}", f"{type(error).__name__}: {error}")


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
        progress.at(-1, -1, STARTING, 0, seconds=_SLOW_STEP_SECONDS)
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


@dataclass
class _Lane:
    """A unit under way: what was found since its last commit."""

    unit: Unit
    next_frame: int
    state: ClipState | None
    fps: float | None = None
    found: list[tuple[int, str | None, Keypoints]] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    waiting: list[tuple[int, str | None, Frame]] = field(default_factory=list)

    def lose(self, index: int | None, failed: _Failed, *, path: str, num_frames: int = 1) -> None:
        self.lost.append(Lost(index, num_frames, path, failed.reason, failed.message))


_Item = tuple[int, "str | None", "Frame | _Failed"]


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
            # Only writing raises here: reading goes through `_attempt`.
            yield Fatal("RunError", self._describe(error))

    def _run(self) -> Iterator[Commit | None]:
        beat_at = time.monotonic()
        for self._position, unit in enumerate(self._task.units):
            lane = self._open_lane(unit)
            with closing(self._read(lane)) as items:
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

    def _open_lane(self, unit: Unit) -> _Lane:
        state = None
        if unit.is_chain:
            engine = self._estimator
            state = engine.new_state() if unit.state is None else engine.load_state(unit.state)
        return _Lane(unit, unit.next_frame, state)

    def _at(self, index: int, phase: int, *, seconds: float = 0) -> None:
        self._progress.at(self._position, index, phase, self._num_frames, seconds=seconds)

    # Reading

    def _read(self, lane: _Lane) -> Iterator[_Item]:
        """Yield a unit's frames from where it stands; a loss of all the rest is noted in `lane`."""
        if lane.unit.clip.kind != "video":
            yield from self._read_pictures(lane)
            return
        unit, clip = lane.unit, lane.unit.clip
        self._at(unit.next_frame, DECODING)
        reader = _attempt(
            lambda: open_video(
                clip.path,
                decoder=self._settings.decoder,
                start_seconds=clip.start_seconds,
                end_seconds=clip.end_seconds,
            )
        )
        if isinstance(reader, _Failed):
            self._lose_rest(lane, None, reader)
            return
        with closing(reader):
            lane.fps = reader.fps
            yield from self._read_video(lane, reader)

    def _read_video(self, lane: _Lane, reader: VideoReader) -> Iterator[_Item]:
        unit = lane.unit
        frames = reader.read_frames(unit.next_frame)
        index = unit.next_frame
        # The frames before the first are decoded too, on the way there.
        seconds = _SLOW_STEP_SECONDS if index else 0.0
        while unit.stop_frame is None or index < unit.stop_frame:
            if unit.give_up is not None and index >= unit.give_up[0]:
                self._lose_rest(lane, reader, _Failed("crashed the worker", unit.give_up[1]))
                return
            self._at(index, DECODING, seconds=seconds)
            frame = _attempt(lambda: next(frames, None))
            seconds = 0.0
            if isinstance(frame, _Failed):
                self._lose_rest(lane, reader, frame)
                return
            if frame is None:
                known = unit.clip.num_frames
                if known is not None and index < (unit.stop_frame or known):
                    message = f"the file ends after {index} of {known} frames"
                    self._lose_rest(lane, reader, _Failed("ends too early", message))
                return
            yield index, None, frame
            index += 1

    def _lose_rest(self, lane: _Lane, reader: VideoReader | None, failed: _Failed) -> None:
        """Note that nothing more of a unit comes, with how many frames that is."""
        unit, index = lane.unit, lane.next_frame
        total = unit.clip.num_frames
        if total is None and reader is not None:
            counted = _attempt(reader.count_frames)
            # Damage hides frames from the count as well: at least the damaged one is lost.
            total = max(index + 1, 0 if isinstance(counted, _Failed) else counted)
        if unit.stop_frame is not None and total is not None:
            total = min(total, unit.stop_frame)
        num_frames = 0 if total is None else max(0, total - index)
        lane.lose(index if reader else None, failed, path=unit.clip.path, num_frames=num_frames)
        lane.next_frame = index + num_frames

    def _read_pictures(self, lane: _Lane) -> Iterator[_Item]:
        unit = lane.unit
        self._at(unit.next_frame, DECODING)
        names = _attempt(lambda: list_frames(unit.clip))
        if isinstance(names, _Failed):
            self._lose_rest(lane, None, names)
            return
        planned = unit.clip.num_frames if unit.clip.num_frames is not None else len(names)
        stop = planned if unit.stop_frame is None else min(unit.stop_frame, planned)
        for index in range(unit.next_frame, stop):
            if index >= len(names):
                gone = _Failed("missing", f"the folder has {len(names)} of {planned} frames left")
                yield index, unit.clip.path, gone
                continue
            path = frame_path(unit.clip, names[index])
            if index in unit.skip or (unit.give_up is not None and index >= unit.give_up[0]):
                yield index, path, _Failed("skipped", "")  # `_take` knows why
                continue
            self._at(index, DECODING)
            yield index, path, _attempt(lambda path=path: read_picture(path))  # type: ignore[misc]

    # Estimating

    def _take(self, lane: _Lane, item: _Item) -> None:
        """Add a frame to its lane, with its keypoints or with the reason why there are none."""
        index, path, frame = item
        unit = lane.unit
        if index in unit.skip:
            frame = _Failed("crashed the worker", unit.skip[index])
        elif unit.give_up is not None and index >= unit.give_up[0]:
            frame = _Failed("crashed the worker", unit.give_up[1])
        if isinstance(frame, _Failed):
            self._estimate(lane)
            lane.lose(index, frame, path=path or unit.clip.path)
            lane.next_frame = index + 1
            self._num_frames += 1
            return
        lane.waiting.append((index, path, frame))
        if unit.is_chain or len(lane.waiting) >= self._batch_size:
            self._estimate(lane)

    def _estimate(self, lane: _Lane) -> None:
        """Run the engine on the frames that wait."""
        waiting, lane.waiting = lane.waiting, []
        if not waiting:
            return
        self._at(waiting[0][0], ESTIMATING)
        frames = [frame for _, _, frame in waiting]
        states = None if lane.state is None else [lane.state]
        result = _attempt(lambda: self._estimator.estimate(frames, states))
        if isinstance(result, _Failed) and len(waiting) > 1:
            for each in waiting:  # one of them is to blame
                lane.waiting = [each]
                self._estimate(lane)
            return
        if isinstance(result, _Failed):
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
        if limit and self._num_frames % _FRAMES_BETWEEN_MEMORY_CHECKS == 0:
            if self._process.memory_info().rss > limit:
                self._progress.recycle()
                return True
        return False

    # Writing

    def _collect(self, lane: _Lane, *, is_done: bool) -> UnitProgress:
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

    def _commit(self, lane: _Lane | None) -> Commit:
        """Write the shard; return it with the units finished since the last, and the one begun."""
        units = self._finished
        if lane is not None:
            self._estimate(lane)
            units = [*units, self._collect(lane, is_done=False)]
        self._progress.at(-1, -1, WRITING, self._num_frames, seconds=_SLOW_STEP_SECONDS)
        shard = None
        if self._writer.num_rows:
            shard = self._writer.write(f"{self._task.name}-{self._num_shards:04d}.parquet")
            self._num_shards += 1
        self._finished, self._num_rows = [], 0
        return Commit(shard, tuple(units))

    def _describe(self, error: OSError) -> str:
        where = os.path.join(self._settings.folder, "shards")  # noqa: PTH118
        return disk_message(error, where)


def disk_message(error: OSError, where: str) -> str:
    """Return what to tell about a write that failed: what happened and what to do."""
    import errno

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
    return Keypoints(
        keypoints.points[chosen], keypoints.scores[chosen], keypoints.sizes_wh[chosen]
    )


def _pose_clip(lane: _Lane, skeleton_name: str) -> PoseClip:
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
