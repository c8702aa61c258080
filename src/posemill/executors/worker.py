"""The inside of a worker process: receive a task, run the function, send what it yields."""

from __future__ import annotations

import faulthandler
import os
from collections.abc import MutableSequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from posemill.executors import MakeFunction, Progress
from posemill.files import open_plain
from posemill.machine.processes import die_with_parent, ignore_stop_signals, name_process

READY, MESSAGE, FINISHED = "ready", "message", "finished"


def work(
    pipe: Connection,
    slots: MutableSequence[int],
    make_function: MakeFunction,
    *,
    worker_index: int,
    log_path: str | None,
    title: str = "",
) -> None:
    """Run tasks from the pipe until it ends, or until the function wants a new worker."""
    ignore_stop_signals()
    if log_path is not None:
        _log_to(log_path)
    die_with_parent()
    if title:
        name_process(title)
    function, progress = make_function(worker_index), Progress(slots)
    with suppress(BrokenPipeError, ConnectionResetError, EOFError):  # the parent is gone
        pipe.send((READY, None))
        while not progress.wants_recycling:
            task = pipe.recv()
            for value in function(task, progress):
                if value is not None:
                    pipe.send((MESSAGE, value))
            pipe.send((FINISHED, progress.wants_recycling))


def _log_to(path: str) -> None:
    """Send all this process prints, its libraries' and a crash's last words too, to a file."""
    descriptor = open_plain(Path(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    faulthandler.enable()
