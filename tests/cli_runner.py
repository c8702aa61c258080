"""Runs a command line in this process, with what it prints and its exit code."""

from __future__ import annotations

import contextlib
import io
import os
from dataclasses import dataclass
from unittest import mock

from posemill.commands.line import run_line


class _Stream(io.TextIOWrapper):
    """A stream whose text is also written to a second one, in the order of both."""

    def __init__(self, both, *, is_terminal):
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)
        self._both, self._is_terminal = both, is_terminal

    def isatty(self):
        return self._is_terminal

    def write(self, text):
        self._both.write(text)
        return super().write(text)

    def text(self):
        self.flush()
        content = self.buffer.getvalue()
        return content.decode()


@dataclass(frozen=True)
class Result:
    """What a line printed, and how it ended."""

    exit_code: int
    stdout: str
    stderr: str
    output: str
    exception: BaseException | None = None


class CliRunner:
    """Calls `run_line` as a shell would."""

    def invoke(self, run, args, *, env=None, catch_exceptions=True, color=False):
        """Run a line; an exception is kept, and its code is 1."""
        both = io.StringIO()
        out, err = (_Stream(both, is_terminal=color) for _ in range(2))
        exception = None
        with (
            mock.patch.dict(os.environ, env) if env else contextlib.nullcontext(),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                code = run(list(args))
            except SystemExit as error:
                code = error.code
            except KeyboardInterrupt as error:
                code, exception = 130, error
            except Exception as error:
                if not catch_exceptions:
                    raise
                code, exception = 1, error
        return Result(int(code or 0), out.text(), err.text(), both.getvalue(), exception)


def call(*words, catches=True):
    return CliRunner().invoke(run_line, [str(word) for word in words], catch_exceptions=catches)


def said_by(*words):
    """Return what a line that does all it should prints on stdout; its error is raised."""
    result = call(*words, catches=False)
    assert result.exit_code == 0, result.output
    return result.stdout
