"""Worker processes: who is killed, who is not, what is said about it, and who is left behind."""

import gc
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from posemill.executors import Died, Finished, Limits, Output
from posemill.executors import processes as module
from posemill.executors.processes import ProcessExecutor, _Worker


def start(make_function, names, limits=None, num_workers=1):
    """Begin one task per name; return the executor and its events."""
    tasks = iter([(name, number) for number, name in enumerate(names)])
    executor = ProcessExecutor(num_workers, limits or Limits())
    return executor, executor.run(make_function, lambda: next(tasks, None))


def worker_pids():
    """Return the process ids of all workers."""
    return [child.pid for child in multiprocessing.active_children()]


def run_all(functions, names, limits=None):
    """Run one task per name in one worker; return all that happened."""
    _, events = start(functions.make_function, names, limits)
    return [event for event in events if event is not None]


DEATHS = {
    "segfault": "killed by SIGSEGV",
    "kill": "killed by SIGKILL",
    "trap": "illegal instruction (SIGILL)",
    "exit": "ended with exit code 5",
    "raise": "ended with exit code 1",
}


def test_a_worker_that_dies_is_noticed_and_replaced(functions, tmp_path):
    events = run_all(functions, [*DEATHS, "plain"], Limits(log_folder=tmp_path))
    assert [event for event in events if isinstance(event, Died)] == [
        Died((name, number), (number, 7, 0, 0), reason, 0, name == "kill", name == "trap")
        for number, (name, reason) in enumerate(DEATHS.items())
    ]
    assert [event.task for event in events if isinstance(event, Finished)] == [("plain", 5)]
    log = (tmp_path / "worker-0.log").read_text()
    assert "Segmentation fault" in log
    assert "KeyError: 'a bug'" in log


@pytest.mark.parametrize(
    ("name", "limits", "reason"),
    [
        ("hang", Limits(timeout_seconds=1), "no progress for 1 s"),
        ("grow", Limits(memory_bytes=300 << 20), "MB of memory, the limit is 300 MB"),
        ("close pipes", Limits(), "closed its pipe and did not end"),
    ],
)
def test_a_worker_that_hangs_grows_or_closes_its_pipe_is_killed(
    name, limits, reason, functions, monkeypatch
):
    monkeypatch.setattr(module, "_END_SECONDS", 0.3)
    started = time.monotonic()
    died, *_, finished = run_all(functions, [name, "plain"], limits)
    assert (died.task, died.place, died.is_from_outside) == ((name, 0), (0, 7, 0, 0), False)
    assert reason in died.reason
    assert finished == Finished(("plain", 1))
    assert time.monotonic() - started < 45  # it would hang for 60


@pytest.mark.parametrize(
    ("name", "reason"),
    [("die_at_start", "ended with exit code 3"), ("start_slowly", "no progress for 0.2 s")],
)
def test_workers_that_cannot_start_are_reported_each_time(name, reason, functions, monkeypatch):
    monkeypatch.setattr(module, "_START_SECONDS", 0.1)
    limits = Limits(timeout_seconds=0.2 if name == "start_slowly" else 120)
    _, events = start(getattr(functions, name), ["plain"], limits)
    died = list(itertools.islice((each for each in events if isinstance(each, Died)), 2))
    events.close()
    assert died == [Died(None, (0, 0, 0, 0), reason, 0)] * 2


def test_closing_the_stream_of_events_ends_the_workers(functions):
    _, events = start(functions.make_function, ["hang", "pid"], num_workers=2)
    next(event for event in events if isinstance(event, Output))
    pids = worker_pids()
    assert len(pids) == 2
    events.close()
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_variables_are_set_in_the_workers_and_only_there(functions):
    limits = Limits(environment={"POSEMILL_TEST_WORD": "x"})
    assert run_all(functions, ["environment"], limits)[0].value == "x"
    assert "POSEMILL_TEST_WORD" not in os.environ


@pytest.mark.parametrize("kind", ["hang", "idle", "hold the lock"])
def test_workers_end_when_the_coordinator_is_killed(kind, tmp_path, start_process):
    script = tmp_path / "coordinator.py"
    script.write_text(
        "import multiprocessing, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import task_functions as functions\n"
        "from posemill.executors import *\n"
        "if __name__ == '__main__':\n"
        "    executor = find_executor('processes')(2, Limits())\n"
        "    name = 'hang' if sys.argv[1] == 'idle' else sys.argv[1]\n"
        "    tasks = iter([(name, 0)] * (1 if sys.argv[1] == 'idle' else 2))\n"
        "    for event in executor.run(functions.make_function, lambda: next(tasks, None)):\n"
        "        busy = len(executor.places())\n"
        "        if busy == (1 if sys.argv[1] == 'idle' else 2):\n"
        "            children = multiprocessing.active_children()\n"
        "            print(*[child.pid for child in children], flush=True)\n"
    )
    process = start_process([sys.executable, str(script), kind], stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in process.stdout.readline().split()]
    assert pids
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 5
    while any(psutil.pid_exists(pid) for pid in pids):
        assert time.monotonic() < deadline, "they live on"
        time.sleep(0.01)


@pytest.mark.parametrize("name", ["steps", "slow step"])
def test_a_worker_that_makes_progress_or_said_how_long_it_takes_is_not_killed(name, functions):
    assert run_all(functions, [name], Limits(timeout_seconds=1))[-1] == Finished((name, 0))


def test_a_worker_may_take_its_time_to_start_and_signals_meanwhile_change_nothing(functions, capfd):
    _, running = start(functions.start_slowly, ["plain"], Limits(timeout_seconds=1))
    events, deadline = [], time.monotonic() + 0.5
    for event in running:
        events += [event]
        if time.monotonic() < deadline:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(worker_pids()[0], number)
    assert not [event for event in events if isinstance(event, Died)]
    assert events[-1] == Finished(("plain", 0))
    assert capfd.readouterr() == ("", "")


def test_an_idle_worker_is_not_killed_for_want_of_progress(functions):
    # The second worker has nothing to do while the first works for longer than the limit.
    names, pids = ["pid", "steps", "pid", "steps"], set()
    _, events = start(functions.make_function, names, Limits(timeout_seconds=1), 2)
    shown = set()  # by top
    for event in events:
        assert not isinstance(event, Died)
        pids |= set(worker_pids())
        shown |= {psutil.Process(pid).name() for pid in worker_pids()}
    assert len(pids) <= 2
    assert "posemill-0" in shown or sys.platform != "linux"


def test_there_are_no_more_workers_than_asked_for_and_each_adds_to_its_log(functions, tmp_path):
    for number in (1, 2):
        limits, pids = Limits(log_folder=tmp_path), set()
        _, events = start(functions.make_function, ["print"] * 6, limits, 2)
        for _ in events:
            pids |= set(worker_pids())
        assert len(pids) == 2
        assert worker_pids() == []
        logs = {path.name: path.read_text() for path in tmp_path.iterdir()}
        assert logs.keys() <= {"worker-0.log", "worker-1.log"}
        assert "".join(logs.values()) == "to the log\nand this\n" * 6 * number


def test_a_recycled_worker_is_another_process_and_no_death(functions):
    events = run_all(functions, ["pid", "recycle", "pid"])
    first, last = (event.value for event in (events[0], events[-2]))
    assert first != last
    assert not psutil.pid_exists(first)
    assert not [event for event in events if isinstance(event, Died)]


def test_a_worker_that_starts_after_the_request_to_stop_knows_of_it(functions):
    executor, events = start(functions.make_function, ["until stopped"])
    executor.ask_to_stop()
    assert [event.value for event in events if isinstance(event, Output)] == ["began", "saved"]


SCRIPT = """
import sys
from posemill.executors import Finished, Limits, Output, find_executor


class Doubling:
    def __call__(self, index):
        return self.run

    def run(self, task, progress):
        yield 2 * task


if __name__ == "__main__":
    tasks = iter([4])
    executor = find_executor("processes")(1, Limits())
    events = list(executor.run(Doubling(), lambda: next(tasks, None)))
    print([event.value for event in events if isinstance(event, Output)])
"""


def test_a_function_of_the_callers_script_is_found_there(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "[8]\n", done.stderr


def test_replaced_workers_leave_no_pipe_open(functions):
    before = psutil.Process().num_fds()
    run_all(functions, ["recycle"] * 5)
    gc.collect()
    assert psutil.Process().num_fds() <= before + 2


@pytest.mark.parametrize(
    ("code", "oom_kills", "reason", "is_from_outside"),
    [
        (-signal.SIGSEGV, 1, "killed by SIGSEGV", False),
        (-signal.SIGTERM, 0, "killed by SIGTERM", True),
        (-signal.SIGINT, 0, "killed by SIGINT", True),
        (-signal.SIGHUP, 0, "killed by SIGHUP", True),
        (-signal.SIGQUIT, 0, "killed by SIGQUIT", True),
        (-signal.SIGKILL, 0, "killed by SIGKILL", True),
        (-signal.SIGKILL, 1, "killed by SIGKILL (the system was out of memory)", False),
    ],
)
def test_a_death_has_its_reason_and_whose_doing_it_was(
    code, oom_kills, reason, is_from_outside, monkeypatch
):
    worker = _Worker.__new__(_Worker)
    process = SimpleNamespace(exitcode=code, kill=lambda: None)
    progress = SimpleNamespace(place=(1, 2, 3, 4))
    known = {"reason": "", "_num_oom_kills": 5, "task": "x", "index": 7}
    vars(worker).update(process=process, progress=progress, **known)
    monkeypatch.setattr(module, "count_oom_kills", lambda: 5 + oom_kills)
    died = worker.died(has_given=False)
    assert died == Died("x", (1, 2, 3, 4), reason, 7, is_from_outside)
    worker.kill("too large")
    died = worker.died(has_given=False)
    assert (died.reason, died.is_from_outside) == ("too large", False)


def test_a_reader_that_was_busy_for_long_is_no_silence_of_the_workers(functions):
    # Long enough that a worker of a busy machine is not taken for silent.
    kinds = []
    for event in start(functions.make_function, ["plain"] * 2, Limits(timeout_seconds=3), 2)[1]:
        kinds.append(type(event))
        if isinstance(event, Output) and kinds.count(Output) == 1:
            time.sleep(3.6)  # as a commit to a store that does not answer
    assert Died not in kinds
    assert kinds.count(Finished) == 2


def test_a_signal_to_the_whole_group_is_the_parents_affair(functions):
    events = run_all(functions, ["interrupt", "terminate", "hang up"])
    assert [event.value for event in events if isinstance(event, Output)] == ["still here"] * 3
    assert sum(isinstance(event, Finished) for event in events) == 3
