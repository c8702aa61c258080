"""The loop that hands out tasks and records what comes back. It never touches a pixel."""

from __future__ import annotations

import dataclasses
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import count, cycle, islice
from types import FrameType
from typing import Any

import posemill.errors
from posemill.errors import PosemillError, RunError, StoppedError
from posemill.executors import Died, Executor, Finished, Output
from posemill.jobs.extract.job import PHASES, Fatal, FrameJob, Phase, Task
from posemill.jobs.extract.plan import group_units
from posemill.jobs.extract.status import Progress
from posemill.jobs.extract.worker import Worker
from posemill.machine.gpus import place_workers
from posemill.machine.live_files import LogFile, Speedometer, write_live
from posemill.machine.processes import STOP_SIGNALS
from posemill.messages import Message
from posemill.records import Clip
from posemill.runs.events import Committed, Crashed, GaveUp, Started
from posemill.runs.log import EventLog
from posemill.runs.queries import SplitCounts, Unit
from posemill.runs.writer import shard_stem

# `timeout` signals its child and then the child's group: what comes within this is one request.
_SAME_REQUEST_SECONDS = 1.0
_GRACE_SECONDS = 8.0  # to save what is under way when asked to stop
_SHOW_SECONDS = 0.25
_LOG_SECONDS = (10.0, 60.0)  # till the first line of progress in the log, and between two
_MOST_TRIES = 10  # of one task without any progress, wherever it dies
# Deaths of one worker that end a run, by what they were of, and what to do then. All but the last
# count from the last commit of any worker on: a machine that goes away takes many at once.
_MOST_DEATHS = {"failed start": 10, "outside kill": 30, "refused instruction": 3}
_ADVICE = {
    "failed start": "if the machine has too little memory for the engine, use fewer workers",
    "outside kill": "find out who ends them from outside (a scheduler, a limit on memory or time), "
    "then run the same command again",
    "refused instruction": "the machine refuses an instruction that its processor names, as some "
    "virtual machines do: posemill doctor there says which library it is; choose another one, as "
    "by {--engine-option:runtime=onnxruntime} or {--decoder:opencv}",
}


class StopSignals:
    """SIGINT, SIGTERM and SIGHUP as a request to stop cleanly; a later one as an order."""

    received, is_urgent, _received_at = 0, False, 0.0

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if not self.received:
            self.received, self._received_at = number, time.monotonic()
        elif time.monotonic() - self._received_at > _SAME_REQUEST_SECONDS:
            self.is_urgent = True

    @contextmanager
    def caught(self) -> Iterator[StopSignals]:
        """Remember what comes within the block. Does nothing outside of the main thread."""
        is_main = threading.current_thread() is threading.main_thread()
        with ExitStack() as stack:
            for number in STOP_SIGNALS if is_main else ():
                if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup: it stays so
                    stack.callback(signal.signal, number, signal.signal(number, self._remember))
            yield self


class Coordinator:
    """Runs all units of a ledger that are not done; `clips` are those that the ledger numbers.

    How far the units under way are is known here; what is durable of it may be a moment behind.
    """

    def __init__(
        self,
        job: FrameJob,
        events: EventLog,
        clips: Sequence[Clip],
        *,
        log: LogFile,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._home, self._config, self._clips = job.home, job.config, clips
        self._events, self._log, self._on_progress = events, log, on_progress
        start_no = events.ledger.num_starts()
        self._names = (shard_stem(start_no, number) for number in count(1))
        events.record(Started())
        self._num_received = _done_in(events.ledger.counts())  # durable, or on their way
        self._again: deque[Task] = deque()
        self._under_way: dict[str, Task] = {}  # by their names, as far as they are left
        self._crashes = events.ledger.crashes()
        self._deaths: Counter[tuple[str, int]] = Counter()  # by what of, and worker
        self._started_at = time.monotonic()
        self._speed = Speedometer()
        self._shown_at = 0.0
        self._log_at = self._started_at + _LOG_SECONDS[0]
        self._groups: list[list[int]] = []
        self._is_stopping = False
        self._news: list[str] = []  # since the last snapshot
        self._workers_on: dict[str, list[int]] = {}  # by GPU

    def plan(self, num_workers: int) -> int:
        """Group what is left to do; return how many tasks that makes."""
        costs, task_frames = self._events.ledger.costs_to_do(), self._config.task_frames
        groups = group_units(costs, task_frames=task_frames, num_workers=num_workers)
        self._groups = groups[::-1]  # taken from the end
        devices = islice(cycle(self._config.devices()), min(num_workers, len(groups)))
        self._workers_on = place_workers([*devices])
        return len(groups)

    def run(
        self, executor: Executor, make_worker: Callable[[int], Worker], signals: StopSignals
    ) -> None:
        """Work until all is done; raise when told to stop, or when nobody can go on."""
        deadline, num_lost, self._is_stopping = None, 0, bool(signals.received)
        with closing(executor.run(make_worker, self._next_task)) as events:  # type: ignore[type-var]
            for event in events:
                match event:
                    case Output(task, value):
                        self._receive(task, value)
                    case Finished(task):
                        self._finish(task)
                    case Died():
                        self._retry_or_give_up(event)
                self._events.flush_if_due()
                self._report(executor)
                if signals.received and deadline is None:
                    self._is_stopping = True
                    executor.ask_to_stop()
                    deadline = time.monotonic() + _GRACE_SECONDS
                if deadline and (time.monotonic() > deadline or signals.is_urgent):
                    num_lost = sum(place[3] for _, place in executor.places())
                    break
            self._events.flush(lambda: signals.is_urgent)
        self._report(executor, is_last=True)
        if signals.received:
            num_lost += (self._num_received - _done_in(self._events.ledger.counts())).total()
            self._log.write(f"stopped by signal {signals.received}")
            raise StoppedError(signals.received, self._home.name, num_lost=num_lost)

    def _next_task(self) -> Task | None:
        while not self._is_stopping and (self._again or self._groups):
            if self._again:
                task = self._again.popleft()
            else:
                units = self._events.ledger.units(self._groups.pop(), self._clips)
                task = Task(tuple(units))
            if task.units:
                task = dataclasses.replace(task, name=next(self._names))
                self._under_way[task.name] = task
                return task
        return None

    def _receive(self, task: Task, value: Committed | Fatal | Died) -> None:
        if isinstance(value, Died):  # as its worker says: the engine is broken
            self._retry_or_give_up(value)
            return
        for key in [key for key in self._deaths if key[0] != "refused instruction"]:
            del self._deaths[key]
        if isinstance(value, Fatal):
            self._log.write(f"stopping: {value.message}")
            self._events.flush()
            # An engine of another package may raise a class of its own.
            raise getattr(posemill.errors, value.kind, PosemillError)(value.message)
        self._events.append(value)
        left = _by_number(self._under_way[task.name])
        for progress in value.units:
            self._num_received[progress.split] += progress.num_rows
            for lost in progress.lost:
                self._num_received[progress.split] += lost.num_frames
                self._log.write(f"failed: {lost.message}")
            assert progress.unit_no is not None  # what workers do was planned
            unit = left[progress.unit_no]
            left[progress.unit_no] = dataclasses.replace(
                unit, next_frame=progress.next_frame, state=progress.state
            )
            if progress.is_done:
                del left[progress.unit_no]
        self._under_way[task.name] = Task(tuple(left.values()), task.name)

    def _finish(self, task: Task) -> None:
        """Go on with what a task left: its worker was asked to stop, or made room for a new one."""
        left = self._under_way.pop(task.name, None)  # None: its engine was broken
        if left is not None and left.units and not self._is_stopping:
            self._log.write(f"{task.name}: what is left of it goes on")
            self._again.append(Task(left.units))

    def _retry_or_give_up(self, died: Died) -> None:
        """Try a dead worker's task again, and give up a frame only for deaths that it causes."""
        self._log.write(f"worker {died.worker_index}: {died.reason}")
        template = "worker {worker_index} ended: {reason}; another one goes on with its frames"
        self._news.append(Message(template, **vars(died)))
        position, frame, phase, _ = died.place
        is_blamed = not self._is_innocent(died)
        rest = died.task and self._under_way.pop(died.task.name, None)
        if rest is None:
            return
        left, tries, suspect, given_up = _by_number(rest), rest.tries + is_blamed, None, None
        if phase in (Phase.DECODING, Phase.ESTIMATING) and 0 <= position < len(died.task.units):
            suspect = left.get(died.task.units[position].unit_no)
        if suspect is not None and (message := self._reason_to_give_up(died, suspect)):
            unit, given_up = suspect, (frame, phase, message)
        elif tries >= _MOST_TRIES and left:
            template = "{reason}; workers died {tries} times, at different frames"
            message = Message(template, reason=died.reason, tries=tries)
            unit = next(iter(left.values()))
            given_up = unit.next_frame, -1, message
        if given_up is not None:
            self._events.append(GaveUp(unit.unit_no, *given_up))
            unit = dataclasses.replace(unit, given_up=(*unit.given_up, given_up))
            left[unit.unit_no], tries, suspect = unit, 0, None
        if suspect is None or died.is_from_outside:
            self._again.append(Task(tuple(left.values()), tries=tries))
            return
        # The unit under suspicion gets a worker of its own, the others are as innocent as before.
        del left[suspect.unit_no]
        alone = Task((suspect,), tries=tries, suspect_frame=frame)
        self._again += [alone, Task(tuple(left.values()))]

    def _reason_to_give_up(self, died: Died, unit: Unit) -> str:
        """Count a death that only its frame can have caused; return why to give up, if that is due.

        That is: the unit alone in its task, all before the frame committed, no signal from outside.
        """
        task: Task = died.task
        _, frame, phase, _ = died.place
        if died.is_from_outside or task.suspect_frame is None or unit.next_frame != frame:
            return ""
        self._events.append(Crashed(unit.unit_no, frame, phase, died.reason))
        self._crashes[unit.unit_no, frame, phase] += 1
        number = self._crashes[unit.unit_no, frame, phase]
        if number < self._config.max_tries:
            return ""
        template = "{reason}, {count} times, at this frame alone"
        message = Message(template, reason=died.reason, count=number)
        self._log.write(f"{task.units[0].clip.path}: frame {frame}: {message}")
        return message

    def _is_innocent(self, died: Died) -> bool:
        """Return whether no unit is to blame for a death; raise where there were too many such."""
        if died.is_from_outside:
            kind = "outside kill"
        elif died.is_refused_instruction:  # before any worker gave anything
            kind = "refused instruction"
        elif died.task is None or died.place[2] == Phase.STARTING:  # no unit was touched
            kind = "failed start"
        else:
            return False
        self._deaths[kind, died.worker_index] += 1
        if (number := self._deaths[kind, died.worker_index]) < _MOST_DEATHS[kind]:
            return True
        raise RunError(
            "a worker died {number} times without any progress ({reason}); no frame is to blame "
            "and none was given up: {advice}; see posemill logs {name!q} --worker {worker_index}",
            number=number,
            reason=died.reason,
            advice=Message(_ADVICE[kind]),
            name=self._home.name,
            worker_index=died.worker_index,
        )

    def _report(self, executor: Executor, *, is_last: bool = False) -> None:
        now = time.monotonic()
        if not is_last and now - self._shown_at < _SHOW_SECONDS:
            return
        self._shown_at = now
        workers = [_doing(task, place) for task, place in executor.places()]
        counts = self._events.ledger.counts()
        in_flight = self._num_received - _done_in(counts)  # not durable yet
        for worker in workers:
            in_flight[worker["split"]] += worker["num_frames"]
        speed = self._speed.see((_done_in(counts) + in_flight).total())
        seconds, news = now - self._started_at, tuple(self._news)
        progress = Progress(tuple(counts), in_flight, speed, seconds, len(workers), news)
        self._news = []
        self._on_progress(progress)
        note = {"workers_on": self._workers_on, "workers": workers}
        write_live(self._home.work, progress.to_json() | note)
        if now >= self._log_at:
            self._log_at = now + _LOG_SECONDS[1]
            self._log.write(f"progress: {progress.describe()}")


def _done_in(counts: Sequence[SplitCounts]) -> Counter[str]:
    """Return the frames of each split that the ledger has."""
    return Counter({each.split: each.frames_out + each.frames_failed for each in counts})


def _by_number(task: Task) -> dict[int, Unit]:
    return {unit.unit_no: unit for unit in task.units}


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
