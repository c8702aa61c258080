"""One coordinator per run: a lock the kernel drops when its holder dies, however it dies."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from posemill.errors import RunError
from posemill.files import parse_json
from posemill.machine.live_files import now_text
from posemill.machine.locks import try_lock
from posemill.places.lease import Holder
from posemill.runs.manifest import LOCK_NAME

_LOCK_TRIES = 10


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a run for the block. A dead holder's lock is free by itself."""
    path = folder / LOCK_NAME
    with path.open("a+", encoding="utf-8") as file:  # closing it frees the lock
        try:
            for _ in range(_LOCK_TRIES):  # `status` and the like have it for an instant to ask
                if try_lock(file.fileno()):
                    break
                time.sleep(0.01)
            else:
                raise RunError(
                    "{folder} is being worked on by {holder}; look with: posemill status "
                    "{folder!q}; end it with: posemill stop {folder!q}",
                    folder=folder,
                    holder=_read_holder(path).describe(),
                )
        except OSError as error:
            raise RunError(
                "{folder}: its file system cannot lock files ({reason}); put the run on another "
                "disk",
                folder=folder,
                reason=error.strerror,
            ) from error
        file.truncate(0)
        holder = Holder(os.getpid(), socket.gethostname(), now_text())
        file.write(f"{json.dumps(asdict(holder))}\n")
        file.flush()
        yield


def holder_of(folder: Path) -> Holder | None:
    """Return who works on a run now, None if nobody does.

    What the file says counts only while somebody holds its lock: the dead leave their text.
    """
    path = folder / LOCK_NAME
    try:
        # To ask takes no more than reading: the run may be another user's, or an archive.
        with path.open("rb") as file:
            # Shared: refused while the run is worked on, and two who ask do not see each other.
            is_free = try_lock(file.fileno(), is_shared=True)
            return None if is_free else _read_holder(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(
            "{path}: cannot tell whether somebody works on the run ({reason}); ask as the user and "
            "on the machine that started extract",
            path=path,
            reason=error.strerror or error,
        ) from error


def _read_holder(path: Path) -> Holder:
    """Return what the holder wrote; it does so right after it has the lock."""
    for _ in range(50):
        try:
            return Holder(**parse_json(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            time.sleep(0.01)
    return Holder(0, "an unknown host", "an unknown time")
