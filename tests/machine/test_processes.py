"""Processes that end with their parent, even where they cannot do anything themselves."""

import ctypes
import os
import pickle
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

import posemill
from posemill.machine import processes
from posemill.machine.processes import (
    PerProcess,
    count_oom_kills,
    environment,
    is_first_process,
    python_command,
    thread_variables,
    under_torchrun,
)

# A child that waits in C with the interpreter lock held (PyDLL, unlike CDLL, keeps it), or in
# Python; its parent says which process it is and then sleeps.
SCRIPT = """
import ctypes, multiprocessing, os, sys, time
from posemill.machine.processes import die_with_parent

def child(kind, pipe):
    if kind == "elsewhere":
        sys.platform = "other"  # the kernel is not asked
    die_with_parent()
    sleep = ctypes.PyDLL(None).sleep if kind == "locked" else time.sleep
    pipe.send(os.getpid())
    sleep(120)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    context.Process(target=child, args=(sys.argv[1], there), daemon=True).start()
    print(here.recv(), flush=True)
    time.sleep(120)
"""


@pytest.mark.parametrize("kind", ["locked", "free", "elsewhere"])
def test_a_child_ends_with_its_parent_even_if_it_holds_the_interpreter_lock(
    kind, tmp_path, start_process
):
    if kind == "locked" and sys.platform != "linux":
        pytest.skip("only the kernel of Linux can end a process that holds its own lock")
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py"), kind]
    parent = start_process(command, stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 60  # it would sleep for 120
    with suppress(psutil.NoSuchProcess):
        while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline, "it lives on"
            time.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is of Linux")
def test_a_system_that_will_not_end_a_process_with_its_parent_is_named(monkeypatch, capfd):
    asked = []

    class Library:
        def __init__(self, *_, **__): ...

        def prctl(self, *arguments):
            asked.append([getattr(each, "value", each) for each in arguments])
            ctypes.set_errno(1)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", Library)
    processes.die_with_parent()
    assert asked == [[1, signal.SIGKILL, 0, 0, 0]]
    assert (
        "the system will not end this process with its parent (prctl: Operation not permitted)"
        f"; if the parent is killed while a library hangs here, end process {os.getpid()} yourself"
    ) in capfd.readouterr().err


def test_threads_of_a_new_process_are_capped_and_sleep_while_they_wait():
    variables = thread_variables(3)
    assert variables["OMP_WAIT_POLICY"] == "passive"
    names = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
             "OPENCV_FOR_THREADS_NUM", "ARROW_NUM_THREADS"}  # fmt: skip
    assert {name for name, value in variables.items() if value == "3"} == names
    assert thread_variables(0)["OMP_NUM_THREADS"] == "1"


def test_variables_are_set_inside_the_block_and_put_back_after_it(monkeypatch):
    monkeypatch.setenv("POSEMILL_OLD", "before")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    before, inside = dict(os.environ), {"POSEMILL_OLD": "inside", "POSEMILL_NEW": "inside"}
    with suppress(KeyError), environment(inside):
        assert dict(os.environ) == before | inside | {"PYTHONSAFEPATH": "1"}
        raise KeyError("a bug")
    assert dict(os.environ) == before


def test_kills_for_memory_are_counted_by_the_kernel(tmp_path):
    table = tmp_path / "vmstat"
    table.write_text("nr_free_pages 12\noom_kill 3\nswap_ra 0\n")
    assert count_oom_kills(table) == 3
    table.write_text("nr_free_pages 12\n")
    assert count_oom_kills(table) == 0
    assert count_oom_kills(tmp_path / "nowhere") == 0


HOSTILE = "import pathlib; pathlib.Path(__file__).with_suffix('.ran').touch()\n"
NAMES = ("pip", "posemill", "multiprocessing", "runpy", "typer", "json", "threading", "numpy")


@pytest.fixture
def hostile_folder(tmp_path, monkeypatch):
    """The current folder, with files called like modules that everybody imports."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(HOSTILE)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(Path(posemill.__file__).parent.parent))  # absolute
    return folder


def test_a_new_python_runs_nothing_from_the_current_folder(hostile_folder):
    command = python_command("posemill", "--version")
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == f"posemill {posemill.__version__}\n"
    assert not list(hostile_folder.glob("*.ran"))


def test_spawned_workers_run_nothing_from_the_current_folder(hostile_folder):
    code = (
        "import sys; sys.path[:] = [path for path in sys.path if path]\n"
        "from posemill.executors import Limits, find_executor\n"
        "from functools import partial\n"
        "tasks = iter([1])\n"
        "executor = find_executor('processes')(1, Limits())\n"
        "events = list(executor.run(partial(partial, zip), lambda: next(tasks, None)))\n"
        "print(events[-1])\n"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert not list(hostile_folder.glob("*.ran"))


@pytest.mark.parametrize("missing", ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"])
def test_all_four_variables_make_torchrun(monkeypatch, missing):
    for name in ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "RANK"):
        monkeypatch.setenv(name, "0")
    assert (under_torchrun(), is_first_process()) == (True, True)
    monkeypatch.setenv("RANK", "1")
    assert (under_torchrun(), is_first_process()) == (True, False)
    monkeypatch.delenv(missing)  # a rank without the rest is somebody else's
    assert (under_torchrun(), is_first_process()) == (False, True)


def test_a_process_leaves_at_once_with_all_it_printed():
    code = (
        "import atexit, sys\n"
        "from posemill.machine.processes import leave_at_once\n"
        "atexit.register(print, 'clean-up')\n"
        "sys.stdout.write('out'); sys.stderr.write('err')\n"
        "leave_at_once()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("out", "err")


def test_a_handle_is_opened_once_in_a_process_and_anew_in_another(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("text")
    handle = PerProcess(partial(open, tmp_path / "file"))  # files cannot be pickled
    with handle.get() as first:
        assert handle.get() is first
        with pickle.loads(pickle.dumps(handle)).get() as another:
            assert another is not first
            assert another.read() == "text"
        assert handle.get() is first, "the pickled one keeps its own"
        monkeypatch.setattr(os, "getpid", lambda: 1)
        with handle.get() as forked:
            assert forked is not first
