"""What every executor must do, and what only processes can: survive their workers."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from posemill.errors import ConfigError
from posemill.executors import (
    Died,
    Finished,
    Limits,
    Output,
    Progress,
    Tick,
    known_executors,
    open_executor,
)


def run_all(executor, functions, names):
    """Run one task per name; return all events but ticks."""
    tasks = iter([(name, number) for number, name in enumerate(names)])
    events = executor.run(functions.make_function, lambda: next(tasks, None))
    return [event for event in events if not isinstance(event, Tick)]


def wait_until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


@pytest.mark.parametrize("name", ["serial", "threads"])
def test_a_bug_in_the_function_reaches_the_reader(name, functions):
    with pytest.raises(KeyError, match="a bug"):
        run_all(open_executor(name, 2, Limits()), functions, ["plain", "raise"])


DEATHS = {
    "segfault": "killed by SIGSEGV",
    "kill": "killed by SIGKILL",
    "trap": "illegal instruction (SIGILL)",
    "exit": "ended with exit code 5",
    "raise": "ended with exit code 1",
}


def test_a_worker_that_dies_is_noticed_and_replaced(functions, tmp_path):
    executor = open_executor("processes", 1, Limits(log_folder=tmp_path))
    events = run_all(executor, functions, [*DEATHS, "plain"])
    assert [event for event in events if isinstance(event, Died)] == [
        Died((name, number), (number, 7, 0, 0), reason, 0, name == "kill", name == "trap")
        for number, (name, reason) in enumerate(DEATHS.items())
    ]
    assert [event.task for event in events if isinstance(event, Finished)] == [("plain", 5)]
    log = (tmp_path / "worker-0.log").read_text()
    assert "Segmentation fault" in log
    assert "KeyError: 'a bug'" in log


def test_a_worker_that_hangs_is_killed_after_the_timeout(functions):
    started = time.monotonic()
    events = run_all(
        open_executor("processes", 1, Limits(timeout_seconds=1)), functions, ["hang", "plain"]
    )
    assert Died(("hang", 0), (0, 7, 0, 0), "no progress for 1 s", 0) in events
    assert Finished(("plain", 1)) in events
    assert time.monotonic() - started < 45  # it would hang for 60


def test_a_worker_that_grows_past_the_limit_is_killed(functions):
    events = run_all(
        open_executor("processes", 1, Limits(memory_bytes=300 << 20)), functions, ["grow", "plain"]
    )
    assert isinstance(events[0], Died)
    assert "MB of memory, the limit is 300 MB" in events[0].reason
    assert Finished(("plain", 1)) in events


def test_workers_that_cannot_start_are_reported_each_time(functions):
    tasks = iter([("plain", 0)])
    executor = open_executor("processes", 1, Limits())
    events = executor.run(functions.die_at_start, lambda: next(tasks, None))
    died = list(itertools.islice((each for each in events if isinstance(each, Died)), 2))
    events.close()
    assert died == [Died(None, (0, 0, 0, 0), "ended with exit code 3", 0)] * 2


def test_closing_the_stream_of_events_ends_the_workers(functions):
    executor = open_executor("processes", 2, Limits())
    tasks = iter([("hang", 0), ("pid", 1)])
    events = executor.run(functions.make_function, lambda: next(tasks, None))
    pids = {event.value for event in _until_first_message(events)} | set(executor.pids())
    assert len(pids) == 2
    events.close()
    assert not any(psutil.pid_exists(pid) for pid in pids)


def _until_first_message(events):
    for event in events:
        if isinstance(event, Output):
            return [event]
    return []


def test_variables_are_set_in_the_workers_and_only_there(functions):
    executor = open_executor("processes", 1, Limits(environment={"POSEMILL_TEST_WORD": "x"}))
    events = run_all(executor, functions, ["environment"])
    assert events[0].value == "x"
    assert "POSEMILL_TEST_WORD" not in os.environ


@pytest.mark.parametrize("kind", ["hang", "idle", "hold the lock"])
def test_workers_end_when_the_coordinator_is_killed(kind, tmp_path, start_process):
    script = tmp_path / "coordinator.py"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import task_functions as functions\n"
        "from posemill.executors import *\n"
        "if __name__ == '__main__':\n"
        "    executor = open_executor('processes', 2, Limits())\n"
        "    name = 'hang' if sys.argv[1] == 'idle' else sys.argv[1]\n"
        "    tasks = iter([(name, 0)] * (1 if sys.argv[1] == 'idle' else 2))\n"
        "    for event in executor.run(functions.make_function, lambda: next(tasks, None)):\n"
        "        busy = len(executor.places())\n"
        "        if busy == (1 if sys.argv[1] == 'idle' else 2):\n"
        "            print(*executor.pids(), flush=True)\n"
    )
    process = start_process([sys.executable, str(script), kind], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pids = [int(pid) for pid in process.stdout.readline().split()]
    assert pids
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids), 5)


def test_an_unknown_executor_is_refused():
    with pytest.raises(ConfigError, match="unknown executor 'cloud'; known: serial, threads"):
        open_executor("cloud", 1, Limits())


def test_the_names_of_executors_are_those_of_the_table():
    assert known_executors() == ["serial", "threads", "processes", "ray"]


def test_progress_keeps_the_last_place():
    progress = Progress([0] * 8)
    progress.at(3, 4, seconds=9)
    assert (progress.place, progress.counter, progress.seconds) == ((3, 4, 0, 0), 1, 9)
