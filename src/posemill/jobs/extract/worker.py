"""A worker: reads frames, hands them to what makes something of them, says what is committed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import cast

import psutil

from posemill.errors import ConfigError, DecodeError, PosemillError
from posemill.executors import Died, Progress
from posemill.jobs.extract.job import Fatal, FrameJob, Lane, Phase, Sink, Task, part_of
from posemill.jobs.extract.plan import WorkerPlan
from posemill.machine.disk import disk_message
from posemill.messages import Message
from posemill.records import Frame
from posemill.runs.events import Committed, Lost, UnitProgress
from posemill.runs.queries import Unit
from posemill.sources.reading import (
    SLOW_STEP_SECONDS,
    VIDEOS_AHEAD,
    ClipReader,
    End,
    Item,
    Listing,
    attempt,
)

_BEAT_SECONDS = 0.2
_PIECE_SHRINKS_BY = 8  # the rows of a commit, after every death without progress
_NOWHERE = (-1, -1, Phase.STARTING, 0)


class Worker:
    """Has one sink, opened at the first task on the device of its number, and does task by task."""

    def __init__(self, job: FrameJob, workers: WorkerPlan, run_id: str, worker_index: int) -> None:
        self.job, self.memory_bytes = job, workers.memory_bytes
        self._device = workers.devices[worker_index % len(workers.devices)]
        self._run_id, self._index = run_id, worker_index
        self._sink: Sink | None = None
        self.listing = Listing()

    def __call__(self, task: Task, progress: Progress) -> Iterator[Committed | Fatal | Died | None]:
        """Yield a commit for every shard written; None now and then.

        A worker whose engine fails at frames that are in order, as after a CUDA error, says that
        it died, and leaves. What it did since its last commit is done again by a new one.
        """
        progress.at(*_NOWHERE, seconds=SLOW_STEP_SECONDS)
        try:
            sink = self._open()
            # To tell a frame that breaks the engine from an engine that never works.
            if task.is_careful and not sink.has_worked and sink.is_broken():
                raise _BrokenError("it fails at a grey picture", _NOWHERE)
            yield from _TaskRun(self, sink, task, progress).run()
        except PosemillError as error:
            yield Fatal(type(error).__name__, error.sentence)
        except _BrokenError as error:
            why, place = error.args
            reason = Message("its engine failed also where it had not: {reason}", reason=why)
            yield Died(task, place if sink.has_worked else _NOWHERE, reason, self._index)
            progress.wants_recycling = True

    def _open(self) -> Sink:
        if self._sink is None:
            self._sink = self.job.open_sink(self._device, self._run_id)
            used = psutil.Process().memory_info().rss
            if self.memory_bytes and used > self.memory_bytes:
                raise ConfigError(
                    "memory limit: the engine alone needs {used_mb} MB, allowed are {allowed_mb} "
                    "MB; give more with {--memory-limit-mb}",
                    used_mb=used >> 20,
                    allowed_mb=self.memory_bytes >> 20,
                )
        return self._sink


class _BrokenError(Exception):
    """The engine fails at frames that are in order: why, and the place where it was noticed."""


class _TaskRun:
    """One task, from its first frame to its last commit."""

    def __init__(self, worker: Worker, sink: Sink, task: Task, progress: Progress) -> None:
        self._worker, self._sink = worker, sink
        self._task, self._progress = task, progress
        # Of states that cannot be copied one is at risk at a time.
        is_careful = task.is_careful or not sink.saves_states
        self._batch_size = 1 if is_careful else worker.job.batch_size
        self._lanes: list[Lane] = []  # under way, and those done since the last commit
        self._num_frames = self._num_shards = 0
        task_frames = worker.job.config.task_frames
        self._piece_frames = max(1, task_frames // _PIECE_SHRINKS_BY**task.tries)
        self._process = psutil.Process()

    def run(self) -> Iterator[Committed | Fatal | None]:
        """Yield a commit whenever enough rows are there, and at the end.

        Units are taken in their order, several tracked ones side by side if the batch allows.
        """
        beat_at, suspect = time.monotonic(), self._task.suspect_frame
        to_come = deque(enumerate(self._task.units))
        try:
            while to_come or self._open_lanes():
                while to_come and self._has_room_for(to_come[0][1]):
                    self._lanes.append(self._open_lane(*to_come.popleft()))
                self._advance()
                if self._should_leave():
                    yield self._commit()
                    return
                num_rows = sum(len(lane.rows) for lane in self._lanes)
                nexts = {lane.next_frame for lane in self._open_lanes()}
                is_behind = suspect is not None and suspect + 1 in nexts
                if num_rows >= self._piece_frames or suspect in nexts or is_behind:
                    yield self._commit()
                    if is_behind:
                        return
                elif time.monotonic() - beat_at > _BEAT_SECONDS:
                    beat_at = time.monotonic()
                    yield None
            if self._lanes:
                yield self._commit()
        except OSError as error:
            # Only writing raises here: reading and computing go through `attempt`.
            yield Fatal("RunError", disk_message(error, self._sink.writes_to))
        finally:
            for lane in self._lanes:
                lane.items.close()

    def _open_lanes(self) -> list[Lane]:
        return [lane for lane in self._lanes if not lane.is_done]

    def _has_room_for(self, unit: Unit) -> bool:
        # Frames that stand alone fill a batch from one unit, tracked ones are one of each.
        lanes = self._open_lanes()
        is_tracked = unit.is_chain and all(lane.unit.is_chain for lane in lanes)
        return not lanes or (is_tracked and len(lanes) < self._batch_size)

    def _open_lane(self, position: int, unit: Unit) -> Lane:
        if unit.state is not None:  # a library may die of it
            self._at(position, unit.next_frame, Phase.ESTIMATING)
        job = self._worker.job
        after = self._task.units[position + 1 : position + 1 + VIDEOS_AHEAD]
        reader = ClipReader(
            unit.clip,
            job.config.decoder,
            sampling=job.sampling,
            target_size=job.target_size,
            listing=self._worker.listing,
            next_clips=[later.clip for later in after],
            on_step=lambda index, seconds: self._at(
                position, index, Phase.DECODING, seconds=seconds
            ),
        )
        state = attempt(lambda: self._sink.begin(unit))
        if isinstance(state, DecodeError):
            end = End(state, unit.clip.num_frames, is_open=False)
            return Lane(unit, position, unit.next_frame, None, reader, (item for item in (end,)))
        start = unit.next_frame
        if unit.state is not None and not self._sink.saves_states:
            start = unit.start_frame  # all again, to come to where it was
        return Lane(unit, position, start, state, reader, reader.read(part_of(unit, start)))

    def _at(self, *place: int, seconds: float = 0.0) -> None:
        self._progress.at(*place, self._num_frames, seconds=seconds)

    def _advance(self) -> None:
        """Take the next frames of all lanes and have them handled."""
        waiting: list[tuple[Lane, Item]] = []
        for lane in self._open_lanes():
            for _ in range(1 if lane.unit.is_chain else self._batch_size):
                item = next(lane.items, None)
                if item is None:
                    lane.is_done = True
                    break
                if isinstance(item, End):
                    _lose_rest(lane, item)
                    continue
                lane.next_frame = item.frame_index + 1
                if isinstance(item.content, DecodeError):
                    self._lose(lane, item, item.content)
                else:
                    waiting.append((lane, item))
        if waiting:
            self._handle(waiting)

    def _handle(self, waiting: list[tuple[Lane, Item]]) -> None:
        """Hand on all frames that wait at once."""
        lane, item = waiting[0]
        self._at(lane.position, item.frame_index, Phase.ESTIMATING)
        states = [lane.state for lane, _ in waiting if lane.state is not None] or None
        # Whoever throws leaves nobody's state to be trusted.
        saved = [state.copy() for state in states or ()] if len(waiting) > 1 else []
        frames = [cast(Frame, item.content) for _, item in waiting]
        results = attempt(lambda: self._sink.compute(frames, states))
        if isinstance(results, DecodeError) and len(waiting) > 1:
            # Which frame failed? Each by itself, in its turn.
            for number, (lane, item) in enumerate(waiting):
                lane.state = saved[number] if saved else lane.state
                self._handle([(lane, item)])
        elif isinstance(results, DecodeError):
            if self._sink.is_broken():
                place = (lane.position, item.frame_index, Phase.ESTIMATING, 0)
                raise _BrokenError(results.sentence, place)
            self._lose(lane, item, results)
            if lane.state is not None:
                lane.state = self._sink.state_after_failure(lane.state)
        else:
            for (lane, item), result in zip(waiting, results, strict=True):
                if item.frame_index >= lane.unit.next_frame:
                    kept = self._sink.put(lane, result)
                    lane.rows.append((item.frame_index, item.path, kept))
                    self._num_frames += 1

    def _lose(self, lane: Lane, item: Item, failed: DecodeError) -> None:
        index, path = item.frame_index, item.path or lane.unit.clip.path
        if index >= lane.unit.next_frame:
            failed = lane.reader.with_number(failed, index)
            lane.lost.append(Lost(index, 1, path, failed.reason, failed.sentence))
            self._num_frames += 1

    def _should_leave(self) -> bool:
        if self._progress.is_stopping:
            return True
        limit = self._worker.memory_bytes
        if not limit or self._process.memory_info().rss <= limit:  # 20 microseconds
            return False
        self._progress.wants_recycling = True
        return True

    def _commit(self) -> Committed:
        """Write the shard; return it with the units finished since the last, and those begun."""
        units = tuple(
            UnitProgress(
                lane.unit.unit_no,
                lane.unit.clip_no,
                lane.unit.clip.split,
                next_frame=max(lane.next_frame, lane.unit.next_frame),
                state=None if lane.is_done or lane.state is None else lane.state.to_bytes(),
                is_done=lane.is_done,
                num_rows=len(lane.rows),
                lost=tuple(lane.lost),
            )
            for lane in self._lanes
        )
        self._at(-1, -1, Phase.WRITING, seconds=SLOW_STEP_SECONDS)
        shard = None
        if with_rows := [lane for lane in self._lanes if lane.rows]:
            shard = self._sink.commit(f"{self._task.name}-{self._num_shards:04d}", with_rows)
            self._num_shards += 1
        self._lanes, self._num_frames = self._open_lanes(), 0
        for lane in self._lanes:
            lane.rows, lane.lost = [], []
        self._at(-1, -1, Phase.WRITING)  # from here on they count as committed
        return Committed(shard, units)


def _lose_rest(lane: Lane, end: End) -> None:
    """Note that nothing more of a unit comes, with how many frames that is."""
    unit, index, num_frames = lane.unit, max(lane.next_frame, lane.unit.next_frame), 0
    if end.total is not None:
        stop = end.total if unit.stop_frame is None else min(end.total, unit.stop_frame)
        num_frames = max(0, stop - index)
    first, failed = index if end.is_open else None, end.failed
    lane.lost.append(Lost(first, num_frames, unit.clip.path, failed.reason, failed.sentence))
    lane.next_frame = index + num_frames
