"""One task after the other: its events, its place, its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from posemill.executors import Event, Finished, Limits, Output, Progress, Tick
from posemill.executors.threads import SerialExecutor


def run(executor: SerialExecutor, function: Any, *tasks: Any) -> Iterator[Event]:
    waiting = iter(tasks)
    return executor.run(lambda index: function, lambda: next(waiting, None))


def test_it_says_where_it_is_and_ticks_for_none() -> None:
    def work(task: int, progress: Progress) -> Iterator[Any]:
        progress.at(task, 7)
        yield "done"
        yield None

    executor, seen = SerialExecutor(1, Limits()), []
    assert executor.places() == []
    for event in run(executor, work, 5, 6):
        seen.append((event, executor.places()))
    five, six = [(5, (5, 7, 0, 0))], [(6, (6, 7, 0, 0))]
    assert seen == [
        (Output(5, "done"), five), (Tick(), five), (Finished(5), []),
        (Output(6, "done"), six), (Tick(), six), (Finished(6), []),
    ]  # fmt: skip


def test_a_task_learns_that_it_should_stop_until_it_is_recycled() -> None:
    def work(task: str, progress: Progress) -> Iterator[Any]:
        if task == "last":
            progress.recycle()
        yield progress.is_stopping

    executor, made = SerialExecutor(1, Limits()), []

    def make(index: int) -> Any:
        made.append(index)
        return work

    tasks = iter(["first", "second", "last", "fresh"])
    seen = []
    for event in executor.run(make, lambda: next(tasks, None)):
        if isinstance(event, Output):
            seen.append((event.value, list(made)))
        if event == Finished("first"):
            executor.ask_to_stop()
    assert seen == [(False, [0]), (True, [0]), (True, [0]), (False, [0, 0])]
