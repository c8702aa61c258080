"""Tasks in spawned processes, watched over: one that dies, hangs or grows too large is replaced.

Every worker has a pipe of its own, so the death of one cannot leave a lock or half a message in
the way of the others, and is noticed at once: the pipe ends.
"""

from __future__ import annotations

import faulthandler
import math
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, cast

import psutil

from posemill.executors import (
    WORKER_NAME,
    Died,
    Event,
    Executor,
    Finished,
    Limits,
    MakeFunction,
    Output,
    Progress,
    Worker,
)
from posemill.files import open_plain
from posemill.machine.processes import (
    STOP_SIGNALS,
    count_oom_kills,
    die_with_parent,
    environment,
    ignore_stop_signals,
    name_process,
    stop_signals_blocked,
)
from posemill.machine.trials import describe_exit
from posemill.messages import Message

_TICK_SECONDS = 0.2
_CHECK_SECONDS = 0.5
_START_SECONDS = 300.0  # imports from a cold network disk
_END_SECONDS = 5.0
READY, MESSAGE, FINISHED = "ready", "message", "finished"  # what a worker says, with a value
_CONTEXT = multiprocessing.get_context("spawn")
_SIGKILL, _SIGILL = getattr(signal, "SIGKILL", 9), getattr(signal, "SIGILL", 4)
_OUTSIDE_SIGNALS = (*STOP_SIGNALS, getattr(signal, "SIGQUIT", 3), _SIGKILL)


def work(
    pipe: Connection,
    progress: Progress,
    make_function: MakeFunction,
    *,
    worker_index: int,
    log_folder: Path | None,
) -> None:
    """Run tasks from the pipe until it ends, or until the function wants a new worker."""
    ignore_stop_signals()
    if log_folder is not None:  # all it prints, its libraries' and a crash's last words too
        path = log_folder / f"worker-{worker_index}.log"
        descriptor = open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.close(descriptor)
        faulthandler.enable()
    die_with_parent()
    name_process(f"posemill-{worker_index}")
    function = make_function(worker_index)
    with suppress(BrokenPipeError, ConnectionResetError, EOFError):  # the parent is gone
        pipe.send((READY, None))
        while not progress.wants_recycling:
            task = pipe.recv()
            for value in function(task, progress):
                if value is not None:
                    pipe.send((MESSAGE, value))
            pipe.send((FINISHED, progress.wants_recycling))


class _Worker(Worker):
    def __init__(self, index: int, make_function: MakeFunction, limits: Limits) -> None:
        self.index = index
        self.progress = _CONTEXT.RawValue(Progress)
        self.is_ready = self.is_leaving = False
        self.reason = ""  # why it was killed
        self.pipe: Connection
        self.pipe, far_end = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(
            target=work,
            args=(far_end, self.progress, make_function),
            kwargs={"worker_index": index, "log_folder": limits.log_folder},
            name=f"{WORKER_NAME}-{index}",
            daemon=True,
        )
        variables = environment(limits.environment)
        with variables, stop_signals_blocked(), _without_script(make_function):
            self.process.start()
        far_end.close()  # ours is now the only other end: the worker's death ends the pipe
        self._counter, self.seen_at = 0, time.monotonic()  # of its progress, and when it changed
        self._num_oom_kills = count_oom_kills()

    @property
    def is_idle(self) -> bool:
        return self.is_ready and self.task is None and not self.is_leaving

    def give(self, task: Any) -> None:
        self.task, self.seen_at = task, time.monotonic()
        # A worker that died while idle is found by its pipe's end, with this task on its account.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.pipe.send(task)

    def fault(self, limits: Limits) -> str:
        """Return why the worker has to be killed, or nothing."""
        now = time.monotonic()
        if self._counter != self.progress.counter:
            self._counter, self.seen_at = self.progress.counter, now
        if self.is_ready and self.task is None:
            return ""
        allowed = max(limits.timeout_seconds, self.progress.seconds)
        allowed = allowed if self.is_ready else max(allowed, _START_SECONDS)
        if now - self.seen_at > allowed:
            return Message("no progress for {seconds:g} s", seconds=allowed)
        used, limit = 0, limits.memory_bytes
        with suppress(psutil.Error):  # gone: the end of its pipe says so
            used = psutil.Process(self.process.pid).memory_info().rss if limit else 0
        if used <= limit:
            return ""
        template = "used {used} MB of memory, the limit is {limit} MB"
        return Message(template, used=used >> 20, limit=limit >> 20)

    def kill(self, reason: str) -> None:
        self.reason = reason
        self.process.kill()

    def died(self, *, has_given: bool) -> Died:
        """Return its death, after the end of the process, which has begun."""
        deadline = time.monotonic() + _END_SECONDS
        # Not `join`: it goes by a pipe too, and waits for ever for a worker that closed them all.
        while (code := self.process.exitcode) is None and time.monotonic() < deadline:
            time.sleep(0.005)
        if code is None and not self.reason:
            self.kill(Message("closed its pipe and did not end"))
        reason, is_from_outside = self.reason, False
        if not self.reason and code is not None:
            reason, is_from_outside = describe_exit(code), -code in _OUTSIDE_SIGNALS
            if code == -_SIGKILL and count_oom_kills() > self._num_oom_kills:  # it, perhaps
                reason = Message("{reason} (the system was out of memory)", reason=reason)
                is_from_outside = False
        is_refused = not has_given and code == -_SIGILL
        return Died(self.task, self.place, reason, self.index, is_from_outside, is_refused)

    def close(self) -> None:
        self.pipe.close()
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join(_END_SECONDS)
        if self.process.exitcode is not None:
            self.process.close()


@contextmanager
def _without_script(make_function: MakeFunction) -> Iterator[None]:
    """Start processes that do not import the user's script again, if nothing of it is needed.

    One without `if __name__ == "__main__"` would start the whole job once more.
    """
    script = vars(sys.modules["__main__"])
    is_needed = getattr(make_function, "__module__", None) == "__main__"
    path = None if is_needed else script.pop("__file__", None)
    try:
        yield
    finally:
        if path is not None:
            script["__file__"] = path


class ProcessExecutor(Executor):
    """Runs the function in `num_workers` spawned processes, numbered from `first_index` on."""

    _workers: dict[int, _Worker]
    _has_given = False
    _next_check, _checked_at = 0.0, math.inf

    def _start(self, index: int, make_function: MakeFunction) -> _Worker:
        return _Worker(index, make_function, self._limits)

    def _listen(self) -> Iterator[Event]:
        pipes = {cast(Any, worker.pipe): worker for worker in self._workers.values()}
        ready = wait(list(pipes), _TICK_SECONDS)
        for pipe in ready:
            yield from self._receive(pipes[pipe])
        if not ready:
            yield None
        if time.monotonic() >= self._next_check:
            self._next_check = time.monotonic() + _CHECK_SECONDS
            self._check()

    def _receive(self, worker: _Worker) -> Iterator[Event]:
        try:
            kind, value = worker.pipe.recv()
        except (EOFError, OSError):
            del self._workers[worker.index]
            died = worker.died(has_given=self._has_given)
            worker.close()
            if worker.task is not None or not worker.is_ready:  # others leave by themselves
                yield died
            return
        if kind == READY:
            worker.is_ready = True
        elif kind == MESSAGE:
            self._has_given = True
            yield Output(worker.task, value)
        elif kind == FINISHED:
            task, worker.task = worker.task, None
            worker.is_leaving = value
            yield Finished(task)

    def _check(self) -> None:
        # Who reads the events may have been busy, as with a commit to a store that is slow. What
        # the workers said meanwhile was not read, and is no silence.
        now = time.monotonic()
        unwatched, self._checked_at = now - self._checked_at - _CHECK_SECONDS, now
        for worker in self._workers.values():
            if unwatched > _CHECK_SECONDS:
                worker.seen_at += unwatched
            if not worker.reason and (fault := worker.fault(self._limits)):
                worker.kill(fault)

    def _close(self) -> None:
        for worker in self._workers.values():
            if worker.task is not None or not worker.is_ready:
                worker.process.kill()
            else:
                worker.pipe.close()  # an idle worker leaves by itself when its pipe ends
        deadline = time.monotonic() + 3
        for worker in self._workers.values():
            worker.process.join(max(0.0, deadline - time.monotonic()))
            worker.close()
