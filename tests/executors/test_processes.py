"""Watching over worker processes: who is killed, who is not, and what is said about it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import posemill
from posemill.executors import Died, Finished, Limits, Message, Tick
from posemill.executors import processes as module
from posemill.executors.processes import ProcessExecutor


def run_all(executor, functions, names, make_function=None):
    tasks = iter([(name, number) for number, name in enumerate(names)])
    events = executor.run(make_function or functions.make_function, lambda: next(tasks, None))
    return [event for event in events if not isinstance(event, Tick)]


@pytest.mark.parametrize("name", ["steps", "slow step"])
def test_a_worker_that_makes_progress_or_said_how_long_it_takes_is_not_killed(name, functions):
    limits = Limits(timeout_seconds=1)
    assert run_all(ProcessExecutor(1, limits), functions, [name])[-1] == Finished((name, 0))


def test_a_worker_may_take_its_time_to_start(functions):
    executor = ProcessExecutor(1, Limits(timeout_seconds=1))
    events = run_all(executor, functions, ["plain"], functions.start_slowly)
    assert [type(event) for event in events] == [Message, Message, Finished]


def test_a_worker_that_never_starts_is_killed_after_the_time_for_starts(functions, monkeypatch):
    monkeypatch.setattr(module, "_START_SECONDS", 0.1)
    executor = ProcessExecutor(1, Limits(timeout_seconds=0.2))
    tasks = iter([("plain", 0)])
    events = executor.run(functions.start_slowly, lambda: next(tasks, None))
    died = next(event for event in events if isinstance(event, Died))
    events.close()
    assert died == Died(None, (0, 0, 0, 0), "no progress for 0.2 s", 0)


def test_an_idle_worker_is_not_killed_for_want_of_progress(functions):
    # The second worker has nothing to do while the first works for longer than the limit.
    executor = ProcessExecutor(2, Limits(timeout_seconds=1))
    tasks, pids = iter([("pid", 0), ("steps", 1), ("pid", 2), ("steps", 3)]), set()
    for event in executor.run(functions.make_function, lambda: next(tasks, None)):
        assert not isinstance(event, Died)
        pids |= set(executor.pids())
    assert len(pids) <= 2


def test_memory_below_the_limit_is_no_fault(functions):
    events = run_all(ProcessExecutor(1, Limits(memory_bytes=1 << 40)), functions, ["steps"])
    assert events == [Finished(("steps", 0))]


def test_a_worker_that_closes_its_pipe_and_goes_on_is_ended(functions, monkeypatch):
    monkeypatch.setattr(module, "_END_SECONDS", 0.3)
    events = run_all(ProcessExecutor(1, Limits()), functions, ["close pipes", "plain"])
    assert events[0] == Died(("close pipes", 0), (0, 7, 0, 0), "closed its pipe and did not end", 0)
    assert events[-1] == Finished(("plain", 1))


def test_there_are_no_more_workers_than_asked_for_and_each_has_its_number(functions, tmp_path):
    executor = ProcessExecutor(2, Limits(log_folder=tmp_path))
    events = run_all(executor, functions, ["pid"] * 12)
    assert len({event.value for event in events if isinstance(event, Message)}) <= 2
    logs = {path.name for path in tmp_path.iterdir()}
    assert logs <= {"worker-0.log", "worker-1.log"}
    assert executor.pids() == []


def test_a_recycled_worker_is_another_process_and_no_death(functions):
    events = run_all(ProcessExecutor(1, Limits()), functions, ["pid", "recycle", "pid"])
    first, last = (event.value for event in (events[0], events[-2]))
    assert first != last
    assert not psutil.pid_exists(first)
    assert not [event for event in events if isinstance(event, Died)]


def test_a_worker_that_starts_after_the_request_to_stop_knows_of_it(functions):
    executor = ProcessExecutor(1, Limits())
    executor.ask_to_stop()
    events = run_all(executor, functions, ["until stopped"])
    assert [event.value for event in events[:-1]] == ["began", "saved"]


def test_the_script_of_the_caller_is_named_again_after_a_start(functions, monkeypatch):
    script = sys.modules["__main__"]
    monkeypatch.setattr(script, "__file__", "/the/script.py", raising=False)
    run_all(ProcessExecutor(1, Limits()), functions, ["plain"])
    assert script.__file__ == "/the/script.py"


def test_ticks_come_while_nothing_happens(functions):
    tasks = iter([("slow step", 0)])
    events = list(
        ProcessExecutor(1, Limits()).run(functions.make_function, lambda: next(tasks, None))
    )
    assert events.count(Tick()) >= 3


SCRIPT = """
import sys
from posemill.executors import Finished, Limits, Message, open_executor


class Doubling:
    def __call__(self, index):
        return self.run

    def run(self, task, progress):
        yield 2 * task


if __name__ == "__main__":
    tasks = iter([4])
    executor = open_executor("processes", 1, Limits())
    events = list(executor.run(Doubling(), lambda: next(tasks, None)))
    print([event.value for event in events if isinstance(event, Message)])
"""


def test_a_function_of_the_callers_script_is_found_there(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    sources = str(Path(posemill.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": sources}, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout == "[8]\n", done.stderr


def test_replaced_workers_leave_no_pipe_open(functions):
    before = psutil.Process().num_fds()
    run_all(ProcessExecutor(1, Limits()), functions, ["recycle"] * 5)
    gc.collect()
    assert psutil.Process().num_fds() <= before + 2
