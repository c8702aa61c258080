"""Tasks in this process: one after the other, or in threads, for functions that release the
interpreter lock. Neither can be killed: `processes` alone survives a crash and ends a hang.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

from posemill.executors import (
    WORKER_NAME,
    Event,
    Executor,
    Finished,
    Limits,
    MakeFunction,
    Output,
    Progress,
    TaskFunction,
    Worker,
)

_TICK_SECONDS = 0.2
NOWHERE = (-1, -1, 0, 0)  # what a worker says that has not begun
SlotEvents = queue.SimpleQueue[tuple["Slot", Event | Exception]]


class _InlineWorker(Worker):
    def __init__(self, index: int, function: TaskFunction) -> None:
        self.index, self.function, self.progress = index, function, Progress()


class SerialExecutor(Executor):
    """The plainest executor: for debuggers, and for machines that allow nothing else."""

    _workers: dict[int, _InlineWorker]

    def _start(self, index: int, make_function: MakeFunction) -> _InlineWorker:
        return _InlineWorker(index, make_function(index))

    def _listen(self) -> Iterator[Event]:
        for worker in [worker for worker in self._workers.values() if not worker.is_idle]:
            for value in worker.function(worker.task, worker.progress):
                yield None if value is None else Output(worker.task, value)
            task, worker.task = worker.task, None
            yield Finished(task)
            if worker.progress.wants_recycling:
                del self._workers[worker.index]

    def _close(self) -> None:
        pass


class Slot(Worker):
    """A worker that is an executor of one, run by a thread of its own; it takes a task at a time.

    `events` gets the slot with all that happens, or with the error it ended by.
    """

    def __init__(
        self, executor: Executor, make_function: MakeFunction, events: SlotEvents, index: int
    ) -> None:
        self._executor, self._make_function, self._events = executor, make_function, events
        self._tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # A process ends with the thread that starts it, so one thread does all.
        name = f"{WORKER_NAME}-{index}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def place(self) -> tuple[int, ...]:
        """Where it is, as far as it said."""
        return next((place for _, place in self._executor.places()), NOWHERE)

    def give(self, task: Any) -> None:
        """Begin a task."""
        self.task = task
        self._tasks.put(task)

    def ask_to_stop(self) -> None:
        """Ask the task under way to save what it has."""
        self._executor.ask_to_stop()

    def close(self) -> None:
        """Wait until it has ended; it takes no task any more."""
        self._tasks.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            for event in self._executor.run(self._make_function, self._next_task):
                if event is not None:
                    self._events.put((self, event))
        except Exception as error:  # noqa: BLE001 whatever it is, it is raised by who reads the events
            self._events.put((self, error))

    def _next_task(self) -> Any | None:
        """Return the next task; waits for it where there is nothing else to wait for."""
        return None if self._executor.places() else self._tasks.get()


class ThreadExecutor(Executor):
    """Runs the function in `num_workers` threads, each with a function of its own."""

    _workers: dict[int, Slot]

    def __init__(self, num_workers: int, limits: Limits) -> None:
        super().__init__(num_workers, limits)
        self._events: SlotEvents = queue.SimpleQueue()

    def _start(self, index: int, make_function: MakeFunction) -> Slot:
        executor = SerialExecutor(1, self._limits, first_index=index)
        return Slot(executor, make_function, self._events, index)

    def _listen(self) -> Iterator[Event]:
        try:
            slot, event = self._events.get(timeout=_TICK_SECONDS)
        except queue.Empty:
            yield None
            return
        if isinstance(event, Exception):
            raise event
        if isinstance(event, Finished):
            slot.task = None
        yield event

    def _close(self) -> None:
        self.ask_to_stop()
        for slot in self._workers.values():
            slot.close()
