"""The loop that hands out tasks and records what comes back. It never touches a pixel."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import posemill.errors
from posemill.config import JobConfig
from posemill.errors import PosemillError, RunError, StoppedError
from posemill.executors import Died, Executor, Finished, Message
from posemill.jobs.extract.ledger import Ledger
from posemill.jobs.extract.log import RunLog
from posemill.jobs.extract.messages import (
    DECODING,
    ESTIMATING,
    PHASES,
    STARTING,
    Commit,
    Fatal,
    Task,
    Unit,
)
from posemill.jobs.extract.plan import group_units
from posemill.jobs.extract.signals import StopSignals
from posemill.jobs.extract.snapshot import Snapshot, describe, live_note
from posemill.jobs.extract.worker import MakeWorker
from posemill.machine.gpus import place_workers
from posemill.machine.live_files import Speedometer, write_live
from posemill.records import Clip
from posemill.stores.commits import SplitCounts
from posemill.stores.replica import place_name
from posemill.stores.writer import shard_stem
from posemill.terminal import quoted

_GRACE_SECONDS = 8.0  # to save what is under way when asked to stop
_LIVE_SECONDS = 1.0
_SHOW_SECONDS = 0.25
_LOG_SECONDS = (10.0, 60.0)  # till the first line of progress in the log, and between two
_MOST_TRIES = 10  # of one task without any progress, wherever it dies
_MOST_ILLEGAL = 3  # illegal instructions, as long as no frame was ever done
# Of one worker, without a commit of any in between: a machine that goes away takes many at once.
_MOST_FAILED_STARTS = 10
_MOST_OUTSIDE_KILLS = 30
_PIECE_SHRINKS_BY = 8


@dataclass(frozen=True)
class _Retry:
    """Units to do, some of them again.

    Args:
        tries: How often their workers died without any progress.
        suspect: The frame that the only unit's worker died at.
    """

    unit_nos: Sequence[int]
    tries: int = 0
    suspect: int | None = None


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
        config: JobConfig,
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
        self._again: deque[_Retry] = deque()
        self._tries: dict[str, int] = {}
        # Units of a task under way that are done, to spare a look into the ledger at its end.
        self._done: dict[str, int] = {}
        self._failed_starts: Counter[int] = Counter()  # by worker, as are the next
        self._outside_kills: Counter[int] = Counter()
        self._num_illegal = 0
        self._has_progress = False
        self._started_at = time.monotonic()
        self._speed = Speedometer()
        self._shown_at = self._live_at = 0.0
        self._log_at = self._started_at + _LOG_SECONDS[0]
        self._groups: list[list[int]] = []
        self._is_stopping = False
        self._news: list[str] = []  # since the last snapshot
        self._workers_on: dict[str, list[int]] = {}  # by GPU

    def plan(self, num_workers: int) -> int:
        """Group what is left to do; return how many tasks that makes."""
        groups = group_units(
            self._ledger.costs_to_do(),
            task_frames=self._config.task_frames,
            num_workers=num_workers,
        )
        self._groups = groups[::-1]  # taken from the end
        devices = self._config.devices()
        self._workers_on = place_workers(
            [devices[index % len(devices)] for index in range(min(num_workers, len(groups)))]
        )
        return len(groups)

    def run(self, executor: Executor, make_worker: MakeWorker, signals: StopSignals) -> None:
        """Work until all is done; raise when told to stop, or when nobody can go on."""
        deadline, num_lost = None, 0
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
                    num_lost = sum(place[3] for _, place in executor.places())
                    break
            self._ledger.flush()
        self._report(executor, is_last=True)
        if signals.received:
            self._log.write(f"stopped by signal {signals.received}")
            raise StoppedError(signals.received, place_name(self._folder), num_lost=num_lost)

    def _next_task(self) -> Task | None:
        if self._is_stopping:
            return None
        while self._again or self._groups:
            retry = self._again.popleft() if self._again else _Retry(self._groups.pop())
            units = self._ledger.load_units(retry.unit_nos, self._clips)
            if units:
                self._num_tasks += 1
                name = shard_stem(self._start_no, self._num_tasks)
                if retry.tries:
                    self._tries[name] = retry.tries
                return self._make_task(name, units, retry)
        return None

    def _make_task(self, name: str, units: tuple[Unit, ...], retry: _Retry) -> Task:
        piece_frames = max(1, self._config.task_frames // _PIECE_SHRINKS_BY**retry.tries)
        if retry.suspect is None:
            return Task(name, units, piece_frames, is_careful=retry.tries > 0)
        # A commit right before the frame that is suspected, then the frame by itself.
        before = max(1, retry.suspect - units[0].next_frame)
        return Task(name, units, min(before, piece_frames), True, leave_after=retry.suspect)

    def _receive(self, task: Task, value: Any) -> None:
        self._failed_starts.clear()
        self._outside_kills.clear()
        if isinstance(value, Fatal):
            self._log.write(f"stopping: {value.message}")
            self._ledger.flush()
            # An engine of another package may raise a class of its own.
            raise getattr(posemill.errors, value.kind, PosemillError)(value.message)
        if isinstance(value, Commit):
            self._has_progress = True
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
            why = "goes on in a new worker, the old one had grown"
            if task.leave_after is not None:
                why = f"frame {task.leave_after} went well by itself, the rest goes on"
            self._log.write(f"{task.name}: {why}")
            self._again.append(_Retry([unit.unit_no for unit in left]))

    def _retry_or_give_up(self, died: Died) -> None:
        """Try a dead worker's task again, and give up a frame only for deaths that it causes."""
        task: Task | None = died.task
        self._log.write(f"worker {died.worker_index}: {died.reason}")
        self._news.append(
            f"worker {died.worker_index} ended: {died.reason}; another one goes on with its frames"
        )
        if died.is_illegal_instruction and not self._has_progress:
            self._count_illegal_instruction(died)
        position, frame, phase, _ = died.place
        # While the engine is loaded no unit was touched: none is to blame.
        is_starting = task is None or phase == STARTING
        if died.is_from_outside:
            self._count_outside_kill(died)
        elif is_starting:
            self._count_failed_start(died)
        if task is None:
            return
        self._done.pop(task.name, None)
        is_blamed = not died.is_from_outside and not is_starting
        tries = self._tries.pop(task.name, 0) + is_blamed
        left = self._ledger.load_units([unit.unit_no for unit in task.units], self._clips)
        suspect = None
        if phase in (DECODING, ESTIMATING) and 0 <= position < len(task.units):
            suspect = task.units[position].unit_no
        if suspect is not None and self._is_given_up(died, suspect, left):
            tries, suspect = 0, None
        if tries >= _MOST_TRIES and left:
            message = f"{died.reason}; workers died {tries} times, at different frames"
            self._ledger.give_up(left[0].unit_no, (left[0].next_frame, -1), message)
            tries, suspect = 0, None
        if suspect is None or died.is_from_outside:
            self._again.append(_Retry([unit.unit_no for unit in left], tries))
            return
        # The unit under suspicion gets a worker of its own, the others are as innocent as before.
        self._again.append(_Retry([suspect], tries, frame))
        self._again.append(_Retry([unit.unit_no for unit in left if unit.unit_no != suspect]))

    def _is_given_up(self, died: Died, unit_no: int, left: Sequence[Unit]) -> bool:
        """Count a death that only its frame can have caused; return whether it was the last one.

        That is: the unit alone in its task, all before the frame committed, no signal from outside.
        """
        task: Task = died.task
        _, frame, phase, _ = died.place
        is_next = any(unit.unit_no == unit_no and unit.next_frame == frame for unit in left)
        if died.is_from_outside or task.leave_after is None or not is_next:
            return False
        count = self._ledger.record_crash(unit_no, (frame, phase), died.reason)
        if count < self._config.max_tries:
            return False
        message = f"{died.reason}, {count} times, at this frame alone"
        self._ledger.give_up(unit_no, (frame, phase), message)
        self._log.write(f"{task.units[0].clip.path}: frame {frame}: {message}")
        return True

    def _count_illegal_instruction(self, died: Died) -> None:
        self._num_illegal += 1
        if self._num_illegal >= _MOST_ILLEGAL:
            raise RunError(
                f"{self._num_illegal} workers ended before any frame was done: {died.reason}. This "
                "machine refuses an instruction that its processor names, as some virtual machines "
                "do; no frame is to blame and none was given up. posemill doctor tries the "
                "libraries and says which one it is; choose another one, for example by "
                "--engine-option runtime=onnxruntime or --decoder opencv, and run the same command "
                "again"
            )

    def _count_failed_start(self, died: Died) -> None:
        self._failed_starts[died.worker_index] += 1
        if self._failed_starts[died.worker_index] >= _MOST_FAILED_STARTS:
            raise RunError(
                f"workers die before they can start ({died.reason}); if the machine has too little "
                "memory for the engine, use fewer workers; see "
                f"posemill logs {quoted(place_name(self._folder))} --worker {died.worker_index}"
            )

    def _count_outside_kill(self, died: Died) -> None:
        self._outside_kills[died.worker_index] += 1
        if (number := self._outside_kills[died.worker_index]) >= _MOST_OUTSIDE_KILLS:
            raise RunError(
                f"workers were {died.reason} from outside {number} times without any "
                "progress in between; no frame is to blame and none was given up: find out who "
                "ends them (a scheduler, a limit on memory or time), then run the same command "
                "again"
            )

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
            workers = [_doing(task, place) for task, place in executor.places()]
            note = {"workers_on": self._workers_on, "workers": workers}
            write_live(self._folder, live_note(snapshot) | note)
        if now >= self._log_at:
            self._log_at = now + _LOG_SECONDS[1]
            self._log.write(f"progress: {describe(snapshot)}")

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
        news, self._news = tuple(self._news), []
        elapsed_seconds = time.monotonic() - self._started_at
        return Snapshot(
            tuple(counts), in_flight, speed, left, elapsed_seconds, len(places), news=news
        )


def _doing(task: Task, place: Sequence[int]) -> dict[str, Any]:
    """Return what a worker is at, in words and numbers, for who looks at the run."""
    position, frame, phase, num_frames = place
    clip = task.units[max(0, min(position, len(task.units) - 1))].clip
    return {
        "task": task.name,
        "split": clip.split,
        "clip_id": clip.clip_id,
        "frame": frame,
        "phase": PHASES[phase] if 0 <= phase < len(PHASES) else "",
        "num_frames": num_frames,
    }


def _seconds_left(
    counts: Sequence[SplitCounts], snapshot: Snapshot, speed: float | None
) -> float | None:
    left = snapshot.frames_known - snapshot.frames_done
    if speed is None or left < 0:
        return None
    return left / speed
