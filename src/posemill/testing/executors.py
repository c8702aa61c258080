"""What every executor must do."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from posemill.executors import (
    Event,
    Finished,
    Limits,
    Output,
    Progress,
    TaskFunction,
    find_executor,
)


def run_task(task: Any, progress: Progress) -> Iterator[Any]:
    """Yield two values, or do what the task's name says."""
    name, number = task
    progress.at(number, 7)
    if name == "recycle":
        progress.wants_recycling = True
    if name == "until stopped":
        yield "began"
        while not progress.is_stopping:
            time.sleep(0.01)
            yield None
        yield "saved"
    else:
        yield ("first", number)
        yield None
        yield ("second", number)


def make_function(worker_index: int) -> TaskFunction:
    """Return the function of a worker; worker processes import it by its name."""
    return run_task


class ExecutorContract:
    """Subclass it as `TestX` with the executor's name."""

    name: str = ""

    def run_all(self, names: list[str], num_workers: int = 2) -> list[Event]:
        """Run one task per name; return all that happened."""
        tasks = iter([(name, number) for number, name in enumerate(names)])
        executor = find_executor(self.name)(num_workers, Limits())
        events = executor.run(make_function, lambda: next(tasks, None))
        return [event for event in events if event is not None]

    def test_every_task_gives_its_values_in_order_and_then_ends(self) -> None:
        events = self.run_all(["plain"] * 20)
        assert len(events) == 60
        for number in range(20):
            mine = [event for event in events if getattr(event, "task", 0) == ("plain", number)]
            values = [event.value for event in mine if isinstance(event, Output)]
            assert values == [("first", number), ("second", number)]
            assert isinstance(mine[2], Finished)

    def test_no_tasks_end_at_once(self) -> None:
        assert self.run_all([]) == []

    def test_tasks_that_come_after_an_event_are_run_too(self) -> None:
        tasks = [("plain", 0)]
        done: list[int] = []
        executor = find_executor(self.name)(2, Limits())
        for event in executor.run(make_function, lambda: tasks.pop() if tasks else None):
            if isinstance(event, Finished):
                done.append(event.task[1])
                if len(done) < 4:
                    tasks.append(("plain", len(done)))
        assert done == [0, 1, 2, 3]

    def test_tasks_under_way_save_what_they_have_when_asked_to_stop(self) -> None:
        executor = find_executor(self.name)(1, Limits())
        tasks = iter([("until stopped", 0)])
        seen = []
        for event in executor.run(make_function, lambda: next(tasks, None)):
            if isinstance(event, Output):
                seen.append(event.value)
                assert executor.places() == [(("until stopped", 0), (0, 7, 0, 0))]
                executor.ask_to_stop()
        assert seen == ["began", "saved"]
        assert executor.places() == []

    def test_a_worker_that_wants_it_is_made_anew(self) -> None:
        events = self.run_all(["recycle", "plain", "plain"], num_workers=1)
        assert Counter(type(event) for event in events) == {Output: 6, Finished: 3}
