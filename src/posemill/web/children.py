"""A process beside the server, for work on files that may crash, hang or grow."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any

from posemill.errors import RunError
from posemill.machine.processes import die_with_parent, environment, thread_variables
from posemill.web.answers import READ_ERRORS, reason_of

_CLOSED = "the server is stopping"


class ChildProcess:
    """Runs functions one after the other, in one process that steps back by `niceness`."""

    def __init__(self, name: str, *, niceness: int = 0) -> None:
        self._niceness = niceness
        # A child ends with the thread that started it: one thread, which stays, starts them all.
        self._thread = ThreadPoolExecutor(1, name)
        self._pool: ProcessPoolExecutor | None = None
        self._pid: int | None = None
        self._is_closed = False

    def submit(
        self, function: Callable[..., Any], *arguments: Any, seconds: float | None = None
    ) -> Future[Any]:
        """Return the result of a function, to be waited for, so many seconds at most.

        The future has a RunError if the function failed, took too long, or the process died.
        """
        try:
            return self._thread.submit(self._run, function, arguments, seconds)
        except RuntimeError as error:
            raise RunError(_CLOSED) from error

    def ask(self, function: Callable[..., Any], *arguments: Any, seconds: float) -> Any:
        """Return the result of a function; see `submit`."""
        try:
            return self.submit(function, *arguments, seconds=seconds).result()
        except CancelledError as error:
            raise RunError(_CLOSED) from error

    def close(self) -> None:
        """End the process. Whoever waits for it gets an error."""
        self._is_closed = True
        self._kill()
        self._thread.shutdown(cancel_futures=True)
        self._end()

    def _run(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], seconds: float | None
    ) -> Any:
        try:
            pool = self._pool or self._start()
            return pool.submit(_answer, function, arguments).result(seconds)
        except TimeoutError as error:
            self._kill()
            self._end()
            raise RunError("it took longer than {seconds:.0f} s", seconds=seconds) from error
        except BrokenProcessPool as error:
            self._end()
            reason = _CLOSED if self._is_closed else "the process that reads files died of this one"
            raise RunError(reason) from error
        except (OSError, RuntimeError) as error:
            self._end()
            template = "the process that reads files did not start: {error}"
            raise RunError(template, error=error) from error

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        with environment(thread_variables(1)):
            self._pool = ProcessPoolExecutor(1, context, _begin, (self._niceness,))
            self._pid = self._pool.submit(os.getpid).result()
        if self._is_closed:  # while it started: `close` knew no process to kill
            raise RunError(_CLOSED)
        return self._pool

    def _kill(self) -> None:
        with suppress(OSError):
            if (pid := self._pid) is not None:
                os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))

    def _end(self) -> None:
        pool, self._pool, self._pid = self._pool, None, None
        if pool is not None:
            pool.shutdown()


def _begin(niceness: int) -> None:
    die_with_parent()
    with suppress(OSError, AttributeError):  # Windows has no such call
        os.nice(niceness)


def _answer(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Return the result of a function; what it raises becomes an error that can travel."""
    try:
        return function(*arguments)
    except MemoryError as error:
        raise RunError("not enough memory") from error
    except READ_ERRORS as error:
        raise RunError(reason_of(error)) from error
