"""Functions for the executors' tests: worker processes import this module by its name."""

import ctypes
import os
import signal
import time

from posemill.testing.executors import run_task as run_contract_task


def _grow():
    block = bytearray(400 << 20)
    block[::4096] = b"x" * len(block[::4096])  # touched, so that it is resident
    time.sleep(600)


def _close_pipes():
    os.closerange(3, 256)
    time.sleep(600)


MISHAPS = {
    "segfault": lambda: ctypes.string_at(0),
    "trap": lambda: os.kill(os.getpid(), signal.SIGILL),
    "exit": lambda: os._exit(5),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "raise": lambda: {}["a bug"],
    "hang": lambda: time.sleep(600),
    "grow": _grow,
    # Unlike CDLL it keeps the interpreter's lock: no thread runs.
    "hold the lock": lambda: ctypes.PyDLL(None).sleep(120),
    "close pipes": _close_pipes,
}
ANSWERS = {
    "pid": os.getpid,
    "environment": lambda: os.environ.get("POSEMILL_TEST_WORD"),
    "interrupt": lambda: os.kill(os.getpid(), signal.SIGINT) or "still here",
    "terminate": lambda: os.kill(os.getpid(), signal.SIGTERM) or "still here",
    "hang up": lambda: os.kill(os.getpid(), signal.SIGHUP) or "still here",
    "print": lambda: os.write(1, b"to the log\n") + os.write(2, b"and this\n"),
}


def run_task(task, progress):
    """Yield two values, or do what the task's name says."""
    name, number = task
    progress.at(number, 7)
    if name in MISHAPS:
        MISHAPS[name]()
    if name in ANSWERS:
        yield ANSWERS[name]()
    elif name == "steps":  # longer than a second, each step shorter
        for step in range(8):
            progress.at(number, step)
            time.sleep(0.25)
    elif name == "slow step":
        progress.at(number, seconds=30)
        time.sleep(1.8)
    else:
        yield from run_contract_task(task, progress)


def make_function(worker_index):
    """Return the function of a worker."""
    return run_task


def start_slowly(worker_index):
    """A worker that needs longer to start than a step may take."""
    time.sleep(1.8)
    return run_task


def die_at_start(worker_index):
    """A worker that cannot even start."""
    os._exit(3)
