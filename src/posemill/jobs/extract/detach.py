"""A run in the background that outlives the shell it was started from."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from posemill.errors import RunError
from posemill.files import open_plain
from posemill.language import SETTING
from posemill.machine.processes import python_command
from posemill.messages import Message
from posemill.runs.home import holder_of
from posemill.runs.manifest import LOGS_NAME, MANIFEST_NAME, check_folder

_START_SECONDS = 300.0


def start_detached(arguments: Sequence[str], folder: Path) -> int:
    """Start `posemill` with these arguments in a session of its own; return its pid.

    Returns when the new process works on the run. If it ends before, what it said is a RunError.
    """
    check_folder(folder)
    (folder / LOGS_NAME).mkdir(parents=True, exist_ok=True)
    path = folder / LOGS_NAME / "detached.log"
    descriptor = open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with os.fdopen(descriptor, "ab") as output:
        start = output.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            python_command("posemill", *arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, SETTING: "en"},  # what it says is a log
        )
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        holder, code = holder_of(folder), process.poll()
        is_ours = holder is not None and holder.pid == process.pid
        if (is_ours and (folder / MANIFEST_NAME).exists()) or code in (0, 1):  # it was quick
            break
        if code is not None:
            with path.open("rb") as output:
                output.seek(start)
                text = output.read().decode("utf-8", "replace").strip()
            reason = text.rpartition("posemill: ")[2]  # the error, without what came before
            raise RunError(
                "it did not start: {reason}",
                reason=reason or Message("exit code {code}", code=code),
            )
        time.sleep(0.05)
    # Not our child to wait for any more.
    process.returncode = process.returncode or 0
    return process.pid
