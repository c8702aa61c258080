"""What happens inside of a worker process."""

from __future__ import annotations

from posemill.executors import Finished, Limits, Message, Tick
from posemill.executors.processes import ProcessExecutor


def run_all(executor, functions, names):
    tasks = iter([(name, number) for number, name in enumerate(names)])
    events = executor.run(functions.make_function, lambda: next(tasks, None))
    return [event for event in events if not isinstance(event, Tick)]


def test_an_interrupt_of_the_whole_group_is_the_parents_affair(functions):
    events = run_all(ProcessExecutor(1, Limits()), functions, ["interrupt"])
    assert events == [Message(("interrupt", 0), "still here"), Finished(("interrupt", 0))]


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
    pids = [
        event.value for event in events if isinstance(event, Message) and event.task[0] == "pid"
    ]
    assert pids[0] == pids[1] != pids[2]
