"""Tasks in this process: one after the other, or in threads, for functions that release the
interpreter lock. Neither can be killed: nothing here survives a crash or ends a hang; `processes`
does.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from posemill.executors import (
    NUM_SLOTS,
    Event,
    Finished,
    Limits,
    MakeFunction,
    Output,
    Progress,
    TaskFunction,
    Tick,
)

_TICK_SECONDS = 0.2
# Messages of tasks, and the ended tasks themselves: a thread puts its messages before its end.
_Queue = queue.SimpleQueue[tuple[Any, Any] | Future[bool]]


class SerialExecutor:
    """The plainest executor: for debuggers, and for machines that allow nothing else."""

    def __init__(self, num_workers: int, limits: Limits) -> None:
        self._progress = Progress([0] * NUM_SLOTS)
        self._task: Any = None

    def run(
        self, make_function: MakeFunction, next_task: Callable[[], Any | None]
    ) -> Iterator[Event]:
        """Yield what happens, see `Executor.run`."""
        function = make_function(0)
        while (task := next_task()) is not None:
            self._task = task
            for value in function(task, self._progress):
                yield Tick() if value is None else Output(task, value)
            self._task = None
            yield Finished(task)
            if self._progress.wants_recycling:
                self._progress = Progress([0] * NUM_SLOTS)
                function = make_function(0)

    def ask_to_stop(self) -> None:
        """Ask the task under way to save what it has and end."""
        self._progress.ask_to_stop()

    def places(self) -> list[tuple[Any, tuple[int, ...]]]:
        """Return the task under way and its place."""
        return [] if self._task is None else [(self._task, self._progress.place)]


class ThreadExecutor:
    """Runs the function in `num_workers` threads, each with a function of its own."""

    def __init__(self, num_workers: int, limits: Limits) -> None:
        self._num_workers = num_workers
        self._busy: dict[Future[bool], tuple[int, Any, Progress]] = {}
        self._is_stopping = False

    def run(
        self, make_function: MakeFunction, next_task: Callable[[], Any | None]
    ) -> Iterator[Event]:
        """Yield what happens, see `Executor.run`."""
        events: _Queue = queue.SimpleQueue()
        functions: dict[int, TaskFunction] = {}
        idle = list(reversed(range(self._num_workers)))
        with ThreadPoolExecutor(self._num_workers, "posemill-worker") as pool:
            try:
                while True:
                    while idle and (task := next_task()) is not None:
                        worker, progress = idle.pop(), self._new_progress()
                        if worker not in functions:
                            functions[worker] = make_function(worker)
                        future = pool.submit(_run_one, functions[worker], task, progress, events)
                        self._busy[future] = (worker, task, progress)
                        # An end must wake the reader, also the end by an exception.
                        future.add_done_callback(events.put)
                    if not self._busy:
                        return
                    yield from self._wait(events, functions, idle)
            finally:
                self.ask_to_stop()

    def _wait(
        self, events: _Queue, functions: dict[int, TaskFunction], idle: list[int]
    ) -> Iterator[Event]:
        try:
            message = events.get(timeout=_TICK_SECONDS)
        except queue.Empty:
            yield Tick()
            return
        if isinstance(message, tuple):
            yield Output(*message)
            return
        worker, task, _ = self._busy.pop(message)
        idle.append(worker)
        if message.result():
            del functions[worker]
        yield Finished(task)

    def _new_progress(self) -> Progress:
        progress = Progress([0] * NUM_SLOTS)
        if self._is_stopping:
            progress.ask_to_stop()
        return progress

    def ask_to_stop(self) -> None:
        """Ask tasks under way to save what they have and end."""
        self._is_stopping = True
        for _, _, progress in list(self._busy.values()):
            progress.ask_to_stop()

    def places(self) -> list[tuple[Any, tuple[int, ...]]]:
        """Return the task and the place of every busy thread."""
        return [(task, progress.place) for _, task, progress in self._busy.values()]


def _run_one(function: TaskFunction, task: Any, progress: Progress, events: _Queue) -> bool:
    for value in function(task, progress):
        if value is not None:
            events.put((task, value))
    return progress.wants_recycling
