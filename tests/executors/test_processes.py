"""Watching over worker processes: who is killed, who is not, and what is said about it."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

import posemill
from posemill.executors import NUM_SLOTS, Died, Finished, Limits, Output, Progress, Tick
from posemill.executors import processes as module
from posemill.executors.processes import ProcessExecutor, _Worker

MB = 1 << 20


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
    assert [type(event) for event in events] == [Output, Output, Finished]


def test_a_worker_that_is_signalled_while_it_starts_goes_on_and_prints_nothing(functions, capfd):
    executor, tasks = ProcessExecutor(1, Limits()), iter([("plain", 0)])
    events, deadline = [], time.monotonic() + 0.5
    for event in executor.run(functions.start_slowly, lambda: next(tasks, None)):
        events += [event]
        if time.monotonic() < deadline:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(executor.pids()[0], number)
    assert not [event for event in events if isinstance(event, Died)]
    assert events[-1] == Finished(("plain", 0))
    assert capfd.readouterr() == ("", "")


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


def test_a_worker_that_closes_its_pipe_and_goes_on_is_ended(functions, monkeypatch):
    monkeypatch.setattr(module, "_END_SECONDS", 0.3)
    events = run_all(ProcessExecutor(1, Limits()), functions, ["close pipes", "plain"])
    assert events[0] == Died(("close pipes", 0), (0, 7, 0, 0), "closed its pipe and did not end", 0)
    assert events[-1] == Finished(("plain", 1))


def test_there_are_no_more_workers_than_asked_for_and_each_has_its_number(functions, tmp_path):
    executor = ProcessExecutor(2, Limits(log_folder=tmp_path))
    events = run_all(executor, functions, ["pid"] * 12)
    assert len({event.value for event in events if isinstance(event, Output)}) <= 2
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


SCRIPT = """
import sys
from posemill.executors import Finished, Limits, Output, open_executor


class Doubling:
    def __call__(self, index):
        return self.run

    def run(self, task, progress):
        yield 2 * task


if __name__ == "__main__":
    tasks = iter([4])
    executor = open_executor("processes", 1, Limits())
    events = list(executor.run(Doubling(), lambda: next(tasks, None)))
    print([event.value for event in events if isinstance(event, Output)])
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


class FakeProcess:
    """A process that has ended with a code, or has not."""

    pid = 7

    def __init__(self, exitcode):
        self.exitcode, self.calls = exitcode, []

    def kill(self):
        self.calls.append("kill")


def make_worker(exitcode=None, **changes):
    worker = _Worker.__new__(_Worker)
    usual = {
        "index": 3, "task": "t", "is_ready": True, "is_leaving": False, "reason": "",
        "progress": Progress([0] * NUM_SLOTS), "process": FakeProcess(exitcode),
        "_seen": (0, 100.0), "_num_oom_kills": 5, "pipe": SimpleNamespace(close=lambda: None),
    }  # fmt: skip
    vars(worker).update(usual | changes)
    return worker


@pytest.fixture
def now(monkeypatch):
    """The clock, which stands still unless it is told, and who was killed for memory."""
    state = SimpleNamespace(seconds=100.0, oom_kills=5)
    clock = SimpleNamespace(monotonic=lambda: state.seconds, sleep=lambda s: advance(s))

    def advance(seconds):
        state.seconds += seconds

    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "count_oom_kills", lambda: state.oom_kills)
    return state


@pytest.mark.parametrize(
    ("seconds", "changes", "own_seconds", "fault"),
    [
        (10.0, {}, 0, ""),
        (10.1, {}, 0, "no progress for 10 s"),
        (30.0, {}, 30, ""),
        (30.1, {}, 30, "no progress for 30 s"),
        (10.1, {"task": None}, 0, ""),  # idle
        (300.0, {"task": None, "is_ready": False}, 0, ""),  # it starts
        (300.1, {"task": None, "is_ready": False}, 0, "no progress for 300 s"),
        (400.0, {"is_ready": False}, 400, ""),
    ],
)
def test_a_worker_has_its_time(seconds, changes, own_seconds, fault, now):
    worker = make_worker(**changes)
    worker.progress._slots[2] = own_seconds
    now.seconds += seconds
    assert worker.fault(Limits(timeout_seconds=10)) == fault


def test_progress_starts_the_time_anew(now):
    worker = make_worker()
    now.seconds += 9
    worker.progress.at(1)
    assert worker.fault(Limits(timeout_seconds=10)) == ""
    now.seconds += 10
    assert worker.fault(Limits(timeout_seconds=10)) == ""
    now.seconds += 0.1
    assert worker.fault(Limits(timeout_seconds=10)) == "no progress for 10 s"


@pytest.mark.parametrize(
    ("used", "allowed", "fault"),
    [
        (100 * MB, 100 * MB, ""),
        (100 * MB + 1, 100 * MB, "used 100 MB of memory, the limit is 100 MB"),
        (900 * MB, 0, ""),
    ],
)
def test_a_worker_has_its_memory(used, allowed, fault, now, monkeypatch):
    asked = []

    def process(pid):
        asked.append(pid)
        return SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=used))

    monkeypatch.setattr(module.psutil, "Process", process)
    assert make_worker().fault(Limits(memory_bytes=allowed)) == fault
    assert asked == ([7] if allowed else [])


@pytest.mark.parametrize(
    ("code", "oom_kills", "reason", "is_from_outside"),
    [
        (0, 5, "ended with exit code 0", False),
        (3, 5, "ended with exit code 3", False),
        (-signal.SIGSEGV, 5, "killed by SIGSEGV", False),
        (-signal.SIGSEGV, 6, "killed by SIGSEGV", False),
        (-signal.SIGTERM, 5, "killed by SIGTERM", True),
        (-signal.SIGINT, 5, "killed by SIGINT", True),
        (-signal.SIGHUP, 5, "killed by SIGHUP", True),
        (-signal.SIGQUIT, 5, "killed by SIGQUIT", True),
        (-signal.SIGKILL, 5, "killed by SIGKILL", True),
        (-signal.SIGKILL, 6, "killed by SIGKILL (the system was out of memory)", False),
        (-99, 5, "ended with exit code -99", False),
    ],
)
def test_a_death_has_its_reason_and_whose_doing_it_was(
    code, oom_kills, reason, is_from_outside, now
):
    worker = make_worker(code)
    now.oom_kills = oom_kills
    assert worker.exit_reason() == reason
    assert worker.is_ended_from_outside() == is_from_outside


def test_what_we_killed_is_not_from_outside(now):
    worker = make_worker(-signal.SIGKILL)
    worker.kill("too large")
    assert worker.process.calls == ["kill"]
    assert (worker.exit_reason(), worker.is_ended_from_outside()) == ("too large", False)


@pytest.mark.skipif(sys.platform != "linux", reason="titles are set on Linux")
def test_ps_shows_which_worker_a_process_is(functions):
    executor = ProcessExecutor(1, Limits(title="posemill extract runs/first"))
    tasks, lines, names = iter([("steps", 0)]), set(), set()
    for _ in executor.run(functions.make_function, lambda: next(tasks, None)):
        for pid in executor.pids():
            process = psutil.Process(pid)
            lines.add(" ".join(process.cmdline()).strip())
            names.add(Path(f"/proc/{pid}/comm").read_text().strip())
    assert "posemill extract runs/first worker 0" in lines
    assert "posemill extrac" in names


def test_a_reader_that_was_busy_for_long_is_no_silence_of_the_workers(functions):
    # Long enough that a worker of a busy machine is not taken for silent.
    executor = ProcessExecutor(2, Limits(timeout_seconds=3))
    tasks = iter([("plain", 0), ("plain", 1)])
    kinds = []
    for event in executor.run(functions.make_function, lambda: next(tasks, None)):
        kinds.append(type(event))
        if isinstance(event, Output) and kinds.count(Output) == 1:
            time.sleep(3.6)  # as a commit to a store that does not answer
    assert Died not in kinds
    assert kinds.count(Finished) == 2
