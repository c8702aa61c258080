"""Stop, continue, try again: only where the server was started with `--allow-actions`.

Each is asked twice: the first request does nothing but hand out a word, good for this action on
this run for a minute, without which the second does nothing either.
"""

from __future__ import annotations

import secrets
import shlex
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from posemill.commands.runs import stop
from posemill.errors import ConfigError, RunError
from posemill.jobs.extract.status import start_detached
from posemill.machine.processes import python_command
from posemill.messages import Message
from posemill.runs.manifest import Manifest
from posemill.training.runs.status import read_train_status, resume_command
from posemill.web.describing import continue_arguments
from posemill.web.library import Entry

ACTIONS = {
    "stop": ("extraction", "training", "sweep"),
    "continue": ("extraction", "training"),
    "retry": ("extraction",),
}
_GOOD_FOR_SECONDS = 60.0
_START_SECONDS = 5.0


class Actions:
    """Hands out words and acts on them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Of each word the run, the action, and until when it is good.
        self._words: dict[str, tuple[str, str, float]] = {}

    def ask(self, entry: Entry, action: str, word: str) -> dict[str, Any]:
        """Return a word to confirm an action with, or what came of one that was confirmed."""
        if entry.kind not in ACTIONS.get(action, ()):
            template = "no action {action!r} for a run of kind {kind}"
            raise ConfigError(template, action=action[:40], kind=entry.kind)
        with self._lock:
            now = time.monotonic()
            if not word:
                self._words = {old: known for old, known in self._words.items() if known[2] > now}
                word = secrets.token_urlsafe(16)
                self._words[word] = (entry.key, action, now + _GOOD_FOR_SECONDS)
                return {"confirm": word}
            key, asked, good_until = self._words.pop(word, ("", "", 0.0))
        if (key, asked) != (entry.key, action) or good_until < now:
            raise RunError("this was not confirmed, or too late; ask again")
        return {"done": act(entry, action)}


def act(entry: Entry, action: str) -> str:
    """Do it; return what was done."""
    if action == "stop":
        pid = stop(entry.folder)
        if pid is None:
            return Message("nobody works on it")
        return Message("pid {pid} stopped", pid=pid)
    if entry.kind == "training":
        pid = _resume_training(entry.folder)
    elif arguments := continue_arguments(entry.folder, Manifest.read(entry.folder)):
        more = ["--retry-failed"] if action == "retry" else []
        pid = start_detached([*arguments, *more], entry.folder)
    else:
        raise RunError("only what posemill extract made can be continued from here")
    return Message("pid {pid} goes on with it", pid=pid)


def _resume_training(folder: Path) -> int:
    """Start the command that continues a training, in a session of its own; return its pid."""
    if read_train_status(folder).state == "running":
        raise RunError("somebody trains it already")
    words = shlex.split(resume_command(folder))
    if words[:2] != ["posemill", "train"]:
        raise RunError("it was trained by a script of your own: run that again with resume=True")
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            python_command("posemill", *words[1:]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        try:
            process.wait(_START_SECONDS)
        except subprocess.TimeoutExpired:
            process.returncode = 0  # not our child to wait for any more
            return process.pid
        errors.seek(0)
        lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    if process.returncode:
        raise RunError("it did not start: {lines}", lines=[process.returncode, *lines][-1])
    return process.pid
