"""What happens inside of a worker process."""

from __future__ import annotations

from posemill.executors import Finished, Limits, Output, Tick
from posemill.executors.processes import ProcessExecutor


def run_all(executor, functions, names):
    tasks = iter([(name, number) for number, name in enumerate(names)])
    events = executor.run(functions.make_function, lambda: next(tasks, None))
    return [event for event in events if not isinstance(event, Tick)]


def test_a_signal_to_the_whole_group_is_the_parents_affair(functions):
    names = ["interrupt", "terminate", "hang up"]
    events = run_all(ProcessExecutor(1, Limits()), functions, names)
    assert [event.value for event in events if isinstance(event, Output)] == ["still here"] * 3
    assert sum(isinstance(event, Finished) for event in events) == 3


def test_all_that_workers_print_is_added_to_their_log(functions, tmp_path):
    for number in (1, 2):
        run_all(ProcessExecutor(1, Limits(log_folder=tmp_path)), functions, ["print"])
        log = (tmp_path / "worker-0.log").read_text()
        assert log == "to the log\nand this\n" * number
