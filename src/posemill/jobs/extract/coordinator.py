"""The loop that hands out tasks and records what comes back. It never touches a pixel."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import posemill.errors
from posemill.config import ExtractConfig
from posemill.errors import RunError, StoppedError
from posemill.executors import Died, Executor, Finished, Message
from posemill.jobs.extract.ledger import Ledger
from posemill.jobs.extract.log import RunLog
from posemill.jobs.extract.messages import DECODING, ESTIMATING, Commit, Fatal, Task
from posemill.jobs.extract.plan import group_units
from posemill.jobs.extract.signals import StopSignals
from posemill.jobs.extract.snapshot import Snapshot, Speedometer, write_live
from posemill.jobs.extract.worker import MakeWorker
from posemill.records import Clip
from posemill.stores.commits import SplitCounts

_GRACE_SECONDS = 8.0  # to save what is under way when asked to stop
_LIVE_SECONDS = 1.0
_SHOW_SECONDS = 0.25
_MOST_TRIES = 10  # of one task without any progress, wherever it dies
_MOST_FAILED_STARTS = 10  # in a row, of all workers together
_PIECE_SHRINKS_BY = 8


class Coordinator:
    """Runs all units of a ledger that are not done.

    Args:
        folder: The run.
        ledger: Open, planned.
        clips: Of the source, as numbered in the ledger.
        config: Tries and task size.
        on_progress: Called a few times per second.
    """

    def __init__(
        self,
        folder: Path,
        ledger: Ledger,
        clips: Sequence[Clip],
        *,
        config: ExtractConfig,
        log: RunLog,
        on_progress: Callable[[Snapshot], None] | None = None,
    ) -> None:
        self._folder = folder
        self._ledger = ledger
        self._clips = clips
        self._config = config
        self._log = log
        self._on_progress = on_progress
        self._start_no = ledger.begin_start()
        self._num_tasks = 0
        # After a crash: units, rows per commit, tries without progress.
        self._again: deque[tuple[list[int], int, int]] = deque()
        self._tries: dict[str, int] = {}
        # Units of a task under way that are done, to spare a look into the ledger at its end.
        self._done: dict[str, int] = {}
        self._failed_starts = 0
        self._started_at = time.monotonic()
        self._speed = Speedometer()
        self._shown_at = self._live_at = 0.0
        self._groups: list[list[int]] = []
        self._is_stopping = False

    def plan(self, num_workers: int) -> int:
        """Group what is left to do; return how many tasks that makes."""
        groups = group_units(
            self._ledger.costs_to_do(),
            task_frames=self._config.task_frames,
            num_workers=num_workers,
        )
        self._groups = groups[::-1]  # taken from the end
        return len(groups)

    def run(self, executor: Executor, make_worker: MakeWorker, signals: StopSignals) -> None:
        """Work until all is done; raise when told to stop, or when nobody can go on."""
        deadline = None
        with closing(executor.run(make_worker, self._next_task)) as events:  # type: ignore[type-var]
            for event in events:
                if isinstance(event, Message):
                    self._receive(event.task, event.value)
                elif isinstance(event, Finished):
                    self._finish(event.task)
                elif isinstance(event, Died):
                    self._retry_or_give_up(event)
                self._ledger.flush(only_if_due=True)
                self._report(executor)
                if signals.received and deadline is None:
                    self._is_stopping = True
                    executor.ask_to_stop()
                    deadline = time.monotonic() + _GRACE_SECONDS
                if deadline and (time.monotonic() > deadline or signals.is_urgent):
                    break
            self._ledger.flush()
        self._report(executor, is_last=True)
        if signals.received:
            self._log.write(f"stopped by signal {signals.received}")
            raise StoppedError(signals.received, self._folder)

    def _next_task(self) -> Task | None:
        if self._is_stopping:
            return None
        while self._again or self._groups:
            tries = 0
            piece_frames = self._config.task_frames
            if self._again:
                unit_nos, piece_frames, tries = self._again.popleft()
            else:
                unit_nos = self._groups.pop()
            units = self._ledger.load_units(unit_nos, self._clips)
            if units:
                self._num_tasks += 1
                name = f"part-{self._start_no:03d}-{self._num_tasks:07d}"
                if tries:
                    self._tries[name] = tries
                return Task(name, units, piece_frames, is_careful=tries > 0)
        return None

    def _receive(self, task: Task, value: Any) -> None:
        self._failed_starts = 0
        if isinstance(value, Fatal):
            self._log.write(f"stopping: {value.message}")
            self._ledger.flush()
            raise getattr(posemill.errors, value.kind)(value.message)
        if isinstance(value, Commit):
            self._ledger.apply(value)
            self._tries.pop(task.name, None)
            done = sum(unit.is_done for unit in value.units)
            self._done[task.name] = self._done.get(task.name, 0) + done
            for unit in value.units:
                for lost in unit.lost:
                    self._log.write(f"failed: {lost.message}")

    def _finish(self, task: Task) -> None:
        """Go on with what a task left: its worker was asked to stop, or made room for a new one."""
        self._tries.pop(task.name, None)
        if self._done.pop(task.name, 0) == len(task.units):
            return
        left = self._ledger.load_units([unit.unit_no for unit in task.units], self._clips)
        if left and not self._is_stopping:
            self._log.write(f"{task.name}: goes on in a new worker, the old one had grown")
            unit_nos = [unit.unit_no for unit in left]
            self._again.append((unit_nos, self._config.task_frames, 0))

    def _retry_or_give_up(self, died: Died) -> None:
        """Try a dead worker's task again, and give up the frame that kills for the third time."""
        task: Task | None = died.task
        self._log.write(f"worker {died.worker_index}: {died.reason}")
        if task is None:
            self._failed_starts += 1
            if self._failed_starts >= _MOST_FAILED_STARTS:
                raise RunError(
                    f"workers die before they can start ({died.reason}); see "
                    f"posemill logs {self._folder} --worker {died.worker_index}"
                )
            return
        self._done.pop(task.name, None)
        tries = self._tries.pop(task.name, 0) + 1
        unit_nos = [unit.unit_no for unit in task.units]
        left = self._ledger.load_units(unit_nos, self._clips)
        position, frame, phase, _ = died.place
        message = f"{died.reason}, {self._config.max_tries} times, at this frame"
        if phase in (DECODING, ESTIMATING) and 0 <= position < len(task.units):
            unit_no = task.units[position].unit_no
            count = self._ledger.record_crash(unit_no, (frame, phase), died.reason)
            if count >= self._config.max_tries:
                self._ledger.give_up(unit_no, (frame, phase), message)
                self._log.write(f"{task.units[position].clip.path}: frame {frame}: {message}")
                tries = 0
        if tries >= _MOST_TRIES and left:
            message = f"{died.reason}; workers died {tries} times, at different frames"
            self._ledger.give_up(left[0].unit_no, (left[0].next_frame, -1), message)
            tries = 0
        piece_frames = self._config.task_frames // _PIECE_SHRINKS_BY**tries
        self._again.append((unit_nos, max(1, piece_frames), tries))

    def _report(self, executor: Executor, *, is_last: bool = False) -> None:
        now = time.monotonic()
        if not is_last and now - self._shown_at < _SHOW_SECONDS:
            return
        self._shown_at = now
        snapshot = self._snapshot(executor)
        if self._on_progress is not None:
            self._on_progress(snapshot)
        if is_last or now - self._live_at > _LIVE_SECONDS:
            self._live_at = now
            write_live(self._folder, snapshot)

    def _snapshot(self, executor: Executor) -> Snapshot:
        in_flight: dict[str, int] = {}
        places = executor.places()
        for task, (position, _, _, num_frames) in places:
            split = task.units[max(0, min(position, len(task.units) - 1))].clip.split
            in_flight[split] = in_flight.get(split, 0) + num_frames
        counts = self._ledger.counts()
        snapshot = Snapshot(tuple(counts), in_flight)
        speed = self._speed.see(snapshot.frames_done)
        left = _seconds_left(counts, snapshot, speed)
        return Snapshot(
            tuple(counts), in_flight, speed, left, time.monotonic() - self._started_at, len(places)
        )


def _seconds_left(
    counts: Sequence[SplitCounts], snapshot: Snapshot, speed: float | None
) -> float | None:
    left = snapshot.frames_known - snapshot.frames_done
    if speed is None or left < 0:
        return None
    return left / speed
