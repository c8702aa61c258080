"""Tasks in this process, by threads or one after the other: functions, places, ends."""

import threading
import time
from functools import partial

import pytest

from posemill.errors import ConfigError
from posemill.executors import Finished, Limits, Output, find_executor, known_executors
from posemill.executors.threads import SerialExecutor, ThreadExecutor
from posemill.testing import ExecutorContract


class TestSerial(ExecutorContract):
    name = "serial"


def test_executors_have_names_and_others_are_refused():
    assert known_executors() == ["serial", "threads", "processes", "ray"]
    with pytest.raises(ConfigError, match="unknown executor 'cloud'; known: serial, threads"):
        find_executor("cloud")(1, Limits())


class Functions:
    """Makes functions and notes for which worker."""

    def __init__(self, function):
        self.function, self.made = function, []

    def __call__(self, worker_index):
        self.made.append(worker_index)
        return self.function


@pytest.mark.parametrize("kind", [ThreadExecutor, SerialExecutor])
def test_a_bug_in_the_function_reaches_the_reader(kind):
    def fail(task, progress):
        yield task
        raise KeyError("a bug")

    tasks = iter([1])
    with pytest.raises(KeyError, match="a bug"):
        list(kind(1, Limits()).run(lambda _: fail, lambda: next(tasks, None)))


@pytest.mark.parametrize("kind", [ThreadExecutor, SerialExecutor])
def test_a_function_is_made_once_for_a_worker_and_anew_after_it_was_recycled(kind):
    def work(task, progress):
        if task == 0:
            progress.wants_recycling = True
        yield None

    for tasks, made in ([1, 2, 3, 4], [0]), ([1, 0, 2, 3], [0, 0]):
        make, tasks = Functions(work), iter(tasks)
        list(kind(1, Limits()).run(make, partial(next, tasks, None)))
        assert make.made == made


def test_threads_work_side_by_side_and_have_names():
    both = threading.Barrier(2, timeout=30)

    def meet(task, progress):
        both.wait()
        yield threading.current_thread().name

    make, tasks = Functions(meet), iter(range(2))
    events = list(ThreadExecutor(2, Limits()).run(make, lambda: next(tasks, None)))
    names = {event.value for event in events if isinstance(event, Output)}
    assert len(names) == 2
    assert all(name.startswith("posemill-worker") for name in names)
    assert sorted(make.made) == [0, 1]


def test_ticks_come_while_a_thread_is_busy():
    is_over = threading.Event()

    def wait(task, progress):
        assert is_over.wait(30)
        yield None

    tasks, num_ticks = iter([1]), 0
    for event in ThreadExecutor(1, Limits()).run(lambda _: wait, lambda: next(tasks, None)):
        num_ticks += event is None
        if num_ticks == 2:
            is_over.set()
    assert num_ticks >= 2


@pytest.mark.parametrize("when", ["before", "left"])
def test_threads_learn_of_the_request_to_stop_and_of_a_reader_who_left(when):
    def wait_for_the_request(task, progress):
        while not progress.is_stopping:
            time.sleep(0.005)
            yield None
        yield "saved"

    executor, tasks = ThreadExecutor(1, Limits()), iter([1])
    if when == "before":
        executor.ask_to_stop()
    events = executor.run(lambda _: wait_for_the_request, lambda: next(tasks, None))
    if when == "before":
        assert list(events)[-2:] == [Output(1, "saved"), Finished(1)]
    else:
        assert next(events) is None
        events.close()  # returns only when the thread has ended
        assert not [each for each in threading.enumerate() if "posemill-worker" in each.name]


def test_one_after_the_other_ticks_for_none_and_says_where_it_is():
    def work(task, progress):
        progress.at(task, 7)
        yield "done"
        yield None

    executor, tasks = SerialExecutor(1, Limits()), iter([5])
    events = executor.run(lambda _: work, lambda: next(tasks, None))
    seen = [(event, executor.places()) for event in events]
    busy = [(5, (5, 7, 0, 0))]
    assert seen == [(Output(5, "done"), busy), (None, busy), (Finished(5), [])]


def test_tasks_learn_that_they_should_stop_also_in_a_new_worker():
    def work(task, progress):
        if task == "last":
            progress.wants_recycling = True
        yield progress.is_stopping

    executor, make, stopping = SerialExecutor(1, Limits()), Functions(work), []
    tasks = iter(["first", "second", "last", "fresh"])
    for event in executor.run(make, lambda: next(tasks, None)):
        if isinstance(event, Output):
            stopping.append((event.value, len(make.made)))
        if event == Finished("first"):
            executor.ask_to_stop()
    assert stopping == [(False, 1), (True, 1), (True, 1), (True, 2)]
