"""One task after the other, in the calling thread. A crash of the function is a crash of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from posemill.executors import (
    NUM_SLOTS,
    Event,
    Finished,
    Limits,
    MakeFunction,
    Output,
    Progress,
    Tick,
)


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
