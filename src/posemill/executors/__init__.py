"""Functions over tasks: serial, threads, processes, Ray. Each is a module and a row in `EXECUTORS`.

An executor asks for tasks one at a time, gives each to a worker, and hands back events in one
stream, to be read by one thread:

    for event in executor.run(make_function, next_task): ...

`make_function(worker_index)` is called once in each worker. The function it returns takes a task
and a `Progress`, and yields values: each one reaches the reader as an `Output`, in order; `None`
reaches nobody and only gives the executor a chance to look up.
"""

from __future__ import annotations

import ctypes
import multiprocessing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from posemill import plugins

WORKER_NAME = "posemill-worker"  # and a number: the processes of executor 'processes'


def is_worker_process() -> bool:
    """Return whether this process is there for our tasks alone, without code of the user's."""
    return multiprocessing.current_process().name.startswith(WORKER_NAME)


class Progress(ctypes.Structure):
    """Where a worker is: numbers set before each step, in memory that outlives its process."""

    _fields_ = (
        ("_place", ctypes.c_int64 * 4),
        ("counter", ctypes.c_int64),
        ("seconds", ctypes.c_int64),
        ("is_stopping", ctypes.c_bool),
        ("wants_recycling", ctypes.c_bool),
    )
    counter: int  # how often `at` was called
    seconds: int  # how long the step under way may take, 0 for the usual
    is_stopping: bool  # whether the task shall save what it has and end
    wants_recycling: bool  # set by a task: a new worker after it, as when this one grew too large

    def at(self, *place: int, seconds: float = 0) -> None:
        """Say what is done next: up to four numbers, and how long it may take if unusual."""
        self._place[: len(place)] = place
        self.seconds = int(seconds)
        self.counter += 1

    @property
    def place(self) -> tuple[int, ...]:
        """The numbers last given to `at`."""
        return tuple(self._place)


class Worker:
    """A worker as its executor sees it: this one is known by its `Progress`."""

    progress: Progress
    task: Any = None  # under way

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a task."""
        return self.task is None

    @property
    def place(self) -> tuple[int, ...]:
        """Where it is, as far as it said."""
        return self.progress.place

    def give(self, task: Any) -> None:
        """Begin a task."""
        self.task = task

    def ask_to_stop(self) -> None:
        """Ask the task under way to save what it has."""
        self.progress.is_stopping = True


TaskFunction = Callable[[Any, Progress], Iterator[Any]]
MakeFunction = Callable[[int], TaskFunction]


@dataclass(frozen=True)
class Output:
    """A value the function yielded for a task."""

    task: Any
    value: Any


@dataclass(frozen=True)
class Finished:
    """The function came to its end for a task."""

    task: Any


@dataclass(frozen=True)
class Died:
    """A worker died, or had to be killed, and will be replaced."""

    task: Any  # what it was at, None if it had not begun
    place: tuple[int, ...]  # what it last said to `Progress.at`
    reason: str  # `killed by SIGSEGV`, `no progress for 120 s`, …
    worker_index: int
    # Somebody ended it, an operator or a scheduler, by a signal that programs do not send.
    is_from_outside: bool = False
    # SIGILL before any worker gave anything: the machine is to blame.
    is_refused_instruction: bool = False


Event = Output | Finished | Died | None  # None: nothing happened for a moment


@dataclass(frozen=True)
class Limits:
    """What workers may take, as far as an executor can watch over it."""

    timeout_seconds: float = 120.0  # without progress
    memory_bytes: int = 0  # resident, of one worker process; 0 for no limit
    log_folder: Path | None = None  # for what worker processes print; None for our stderr
    environment: Mapping[str, str] = field(default_factory=dict)  # of worker processes
    # For `ray`:
    address: str = ""  # of a cluster; empty: this machine alone
    gpus_per_worker: float = 0.0
    is_elastic: bool = False  # whether there are more workers when machines join
    must_see: Path | None = None  # what every machine has to see
    files: Mapping[str, Path] = field(default_factory=dict)  # by name in every machine's cache


class Executor(ABC):
    """Hands tasks to workers that are started as needed; what they are is left to subclasses."""

    def __init__(self, num_workers: int, limits: Limits, *, first_index: int = 0) -> None:
        self._workers: dict[int, Any] = {}  # each a `Worker`
        self._indices = range(first_index, first_index + num_workers)
        self._limits = limits
        self._waiting: Any = None
        self._is_stopping = False

    @abstractmethod
    def _start(self, index: int, make_function: MakeFunction) -> Worker:
        """Return a new worker."""

    @abstractmethod
    def _listen(self) -> Iterator[Event]:
        """Yield what happens within a moment, None if nothing, and look after the workers."""

    @abstractmethod
    def _close(self) -> None:
        """End all workers."""

    def run(
        self, make_function: MakeFunction, next_task: Callable[[], Any | None]
    ) -> Iterator[Event]:
        """Yield what happens until `next_task` returns None and no task is under way.

        A task whose worker died is not tried again by itself: `next_task` may return it once more.
        Closing the iterator ends all workers at once.
        """
        try:
            while self._hand_out(next_task):
                for index in self._indices:
                    if self._waiting is not None and index not in self._workers:
                        self._workers[index] = worker = self._start(index, make_function)
                        if self._is_stopping:
                            worker.ask_to_stop()
                yield from self._listen()
        finally:
            self._close()
            self._workers.clear()

    def _hand_out(self, next_task: Callable[[], Any | None]) -> bool:
        """Give tasks to idle workers; return whether there is anything to wait for."""
        idle = iter([worker for worker in self._workers.values() if worker.is_idle])
        while True:
            if self._waiting is None:
                self._waiting = next_task()
            if self._waiting is None:
                return any(worker.task is not None for worker in self._workers.values())
            if (worker := next(idle, None)) is None:
                return True
            worker.give(self._waiting)
            self._waiting = None

    def ask_to_stop(self) -> None:
        """Ask tasks under way to save what they have and end."""
        self._is_stopping = True
        for worker in [*self._workers.values()]:
            worker.ask_to_stop()

    def places(self) -> list[tuple[Any, tuple[int, ...]]]:
        """Return the task and the place of every busy worker, as far as is known."""
        workers = [*self._workers.values()]  # those of a slot are asked by another thread
        return [(worker.task, worker.place) for worker in workers if worker.task is not None]


# name -> "module:class"; other packages: entry points of the group `posemill.executors`.
EXECUTORS = {
    "serial": "posemill.executors.threads:SerialExecutor",
    "threads": "posemill.executors.threads:ThreadExecutor",
    "processes": "posemill.executors.processes:ProcessExecutor",
    "ray": "posemill.executors.ray_cluster:RayExecutor",
}


def find_executor(name: str) -> type[Executor]:
    """Return the executor of that name; raises where what it needs is not installed."""
    return cast("type[Executor]", plugins.load("executor", EXECUTORS, name, extra="ray"))


def known_executors() -> list[str]:
    """Return the names of `EXECUTORS` and of other packages' executors."""
    return plugins.names_of("executor", EXECUTORS)
