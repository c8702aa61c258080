"""Child processes: they end with their parent, and compute with the threads they are given."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

from posemill.errors import RunError
from posemill.messages import Message

Handle = TypeVar("Handle")
_PR_SET_PDEATHSIG = 1
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
    "ARROW_NUM_THREADS",
)

# Ctrl-C, `timeout` and schedulers signal the whole group: the parent decides what it means.
STOP_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


def die_with_parent() -> None:
    """End this process when the one that started it ends, however that ends.

    On Linux the kernel does it, also while a library holds the interpreter lock for ever: when the
    thread ends that started us. Where the kernel cannot, a thread does, and standard error says so.
    """
    if sys.platform == "linux":
        library = ctypes.CDLL(None, use_errno=True)
        # All five: some sandboxes refuse a call whose unused arguments are not 0.
        arguments = [ctypes.c_ulong(value) for value in (signal.SIGKILL, 0, 0, 0)]
        if library.prctl(_PR_SET_PDEATHSIG, *arguments) != 0:
            sys.stderr.write(
                "posemill: the system will not end this process with its parent (prctl: "
                f"{os.strerror(ctypes.get_errno())}); if the parent is killed while a library "
                f"hangs here, end process {os.getpid()} yourself\n"
            )
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def leave_after_parent() -> None:
        wait([parent.sentinel])
        os._exit(1)

    if not parent.is_alive():  # it died before the kernel was asked
        os._exit(1)
    threading.Thread(target=leave_after_parent, daemon=True).start()


def name_process(name: str) -> None:
    """Let `top`, `ps -e` and `pgrep` show a name for this process; Linux keeps 15 characters."""
    with suppress(OSError):  # another system
        Path("/proc/self/comm").write_text(name)


def count_oom_kills(path: Path = Path("/proc/vmstat")) -> int:
    """Return how many processes the kernel has killed for memory since it started; 0 if unknown."""
    with suppress(OSError):
        match = re.search(r"^oom_kill (\d+)$", path.read_text(), re.MULTILINE)
        return int(match[1]) if match else 0
    return 0


def thread_variables(num_threads: int) -> dict[str, str]:
    """Return environment variables that cap the threads of the libraries of a new process."""
    count = str(max(1, num_threads))
    # Threads that spin while they wait would take the cores from other processes and libraries.
    return {**dict.fromkeys(_THREAD_VARIABLES, count), "OMP_WAIT_POLICY": "passive"}


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module in a new Python, as `python -m` does, but safely.

    `python -m` imports from the current folder first: a stranger's `pip.py` there would run.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def end_holder(
    pid: int,
    host: object,
    lock: Path,
    is_held: Callable[[], object],
    *,
    holder: Message,
    timeout_seconds: float,
) -> int | None:
    """End a process (by SIGTERM) that holds a lock file, wait until it does not; return its pid.

    None if it ended by itself in this moment. A signal goes only to a process that is seen to have
    the file open while it is held; one that runs elsewhere, is another user's or does not end in
    time is a `RunError`. `holder` says who holds what.
    """
    import psutil

    if host != socket.gethostname():
        raise RunError("{holder}: run posemill stop there", holder=holder)
    has_lock = False
    try:
        process = psutil.Process(pid)
        if has_lock := str(lock.resolve()) in (file.path for file in process.open_files()):
            process.send_signal(signal.SIGTERM)  # looks whether the pid is still that process
    except psutil.NoSuchProcess:
        pass
    except psutil.AccessDenied as error:
        raise RunError(
            "{holder}, a process of another user; nothing was stopped: ask them, or run posemill "
            "stop as that user",
            holder=holder,
        ) from error
    if not has_lock and is_held():
        raise RunError(
            "{holder}, which is not to be found here; nothing was stopped: try again, or stop it "
            "in the container it runs in",
            holder=holder,
        )
    deadline = time.monotonic() + timeout_seconds
    while is_held():
        if time.monotonic() > deadline:
            raise RunError(
                "pid {pid} did not end within {timeout_seconds:g} s; killing it is safe too: "
                "kill -9 {pid}",
                pid=pid,
                timeout_seconds=timeout_seconds,
            )
        time.sleep(0.05)
    return pid if has_lock else None


@contextmanager
def stop_signals_blocked() -> Iterator[None]:
    """Start processes inside the block that a Ctrl-C cannot end before `ignore_stop_signals`.

    To be used inside `environment`: it may start a process itself.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # starting it would unblock the signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_stop_signals() -> None:
    """Leave it to the parent what Ctrl-C means, also one that came while this process began."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables for processes started inside the block, which import nothing from this folder.

    A stranger's `multiprocessing.py` there would run in each of them.
    """
    variables = {**variables, "PYTHONSAFEPATH": "1"}
    before = {name: os.environ[name] for name in variables if name in os.environ}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(before)


def under_torchrun() -> bool:
    """Return True where torchrun (or a launcher that speaks like it) started this process."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def is_first_process() -> bool:
    """Return True in the one process that writes files and prints."""
    return not under_torchrun() or os.environ["RANK"] == "0"


def leave_at_once() -> NoReturn:
    """End this process well, without Python's and torch's clean-up.

    A thread of gloo that asks for the interpreter while that ends now and then aborts the process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class PerProcess(Generic[Handle]):
    """An open file or the like, which travels to another process without what is open.

    After a fork the position in a file is shared, and a handle of another process must not be used.
    `open_handle` is called once in each process that asks, and picklable.
    """

    def __init__(self, open_handle: Callable[[], Handle]) -> None:
        self._open_handle = open_handle
        self._opened: tuple[int, Handle] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._open_handle,)

    def get(self) -> Handle:
        """Return the handle of this process."""
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = os.getpid(), self._open_handle()
        return self._opened[1]
