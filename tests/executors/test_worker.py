"""What happens inside of a worker process."""

from __future__ import annotations

import pytest

from posemill.executors import NUM_SLOTS, Finished, Limits, Output, Tick, worker
from posemill.executors.processes import ProcessExecutor


def run_all(executor, functions, names):
    tasks = iter([(name, number) for number, name in enumerate(names)])
    events = executor.run(functions.make_function, lambda: next(tasks, None))
    return [event for event in events if not isinstance(event, Tick)]


@pytest.mark.parametrize("name", ["interrupt", "terminate", "hang up"])
def test_a_signal_to_the_whole_group_is_the_parents_affair(name, functions):
    events = run_all(ProcessExecutor(1, Limits()), functions, [name])
    assert events == [Output((name, 0), "still here"), Finished((name, 0))]


def test_all_that_workers_print_is_added_to_their_log(functions, tmp_path):
    for number in (1, 2):
        run_all(ProcessExecutor(1, Limits(log_folder=tmp_path)), functions, ["print"])
        log = (tmp_path / "worker-0.log").read_text()
        assert log == "to the log\nand this\n" * number


def test_none_reaches_nobody(functions):
    events = run_all(ProcessExecutor(1, Limits()), functions, ["plain"])
    assert [event.value for event in events[:-1]] == [("first", 0), ("second", 0)]


def test_a_worker_takes_task_after_task_until_it_wants_to_be_replaced(functions):
    names = ["pid", "pid", "recycle", "pid"]
    events = run_all(ProcessExecutor(1, Limits()), functions, names)
    pids = [event.value for event in events if isinstance(event, Output) and event.task[0] == "pid"]
    assert pids[0] == pids[1] != pids[2]


class FakePipe:
    """Tasks that wait, and what was sent; behind the last task the parent is gone."""

    def __init__(self, *tasks):
        self.tasks, self.sent = list(tasks), []

    def recv(self):
        if not self.tasks:
            raise EOFError
        return self.tasks.pop(0)

    def send(self, value):
        self.sent.append(value)


@pytest.fixture
def inside(monkeypatch):
    """Runs `work` here, as in a process of its own; returns what it sent and what it set up."""
    called = []
    monkeypatch.setattr(worker, "die_with_parent", lambda: called.append("die_with_parent"))
    monkeypatch.setattr(worker, "_log_to", called.append)
    monkeypatch.setattr(worker.signal, "signal", lambda *how: called.append(how))

    def run(function, *tasks, log_path=None):
        pipe = FakePipe(*tasks)

        def make(index):
            called.append(index)
            return function

        worker.work(pipe, [0] * NUM_SLOTS, make, worker_index=4, log_path=log_path)
        return pipe.sent, called

    return run


def test_what_a_function_yields_is_sent_between_ready_and_finished(inside):
    def work(task, progress):
        yield task
        yield None
        yield -task

    sent, called = inside(work, 1, 2, log_path="x.log")
    assert sent == [
        (worker.READY, None),
        (worker.MESSAGE, 1), (worker.MESSAGE, -1), (worker.FINISHED, False),
        (worker.MESSAGE, 2), (worker.MESSAGE, -2), (worker.FINISHED, False),
    ]  # fmt: skip
    assert called[-3:] == ["x.log", "die_with_parent", 4]


def test_a_worker_that_wants_to_be_replaced_takes_no_other_task(inside):
    def work(task, progress):
        progress.recycle()
        yield task

    sent, called = inside(work, 1, 2)
    assert sent == [(worker.READY, None), (worker.MESSAGE, 1), (worker.FINISHED, True)]
    assert called[-2:] == ["die_with_parent", 4]
