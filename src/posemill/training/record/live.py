"""Who trains in a folder, and objects as files; nothing here needs torch."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from posemill.errors import RunError
from posemill.files import atomic_path, open_plain, parse_json
from posemill.machine.live_files import now_text, read_live, write_live
from posemill.machine.locks import try_lock
from posemill.machine.processes import end_holder
from posemill.messages import Message

LOG_NAME, LOCK_NAME = "log.txt", ".lock"
SWEEP_NAME = "sweep.json"  # the record of a sweep, in its folder
_MOST_BYTES = 1 << 26  # of an object: a longer one is cut, so no JSON
# What this process holds. Asking the lock of one of these would drop it: it is the process's own.
_held: set[Path] = set()


def is_lock(folder: Path) -> bool:
    """Return whether a folder has the lock that `hold` leaves: an empty file."""
    path = folder / LOCK_NAME
    return path.is_file() and not path.is_symlink() and not path.stat().st_size


@contextmanager
def hold(folder: Path, *, what: str) -> Iterator[None]:
    """Keep others out of a folder for the block; a dead holder's lock is free."""
    in_use = RunError(
        "{folder} is being trained by another process; look with: posemill status {folder!q}; "
        "wait for it, end it, or choose another {--out}",
        folder=folder,
    )
    if folder.resolve() in _held:
        raise in_use
    flags = os.O_RDWR | os.O_CREAT
    with os.fdopen(open_plain(folder / LOCK_NAME, flags), "r+b") as handle:
        try:
            # Its own: a lock of the file itself would be kept alive by forked loaders.
            is_ours = try_lock(handle.fileno(), is_own=True)
        except OSError as error:
            raise RunError(
                "{folder}: its file system cannot lock files ({reason}); put the {what} on "
                "another disk",
                folder=folder,
                reason=error.strerror,
                what=what,
            ) from error
        if not is_ours:
            raise in_use
        _held.add(folder.resolve())
        try:
            note = {"pid": os.getpid(), "host": socket.gethostname(), "started_at": now_text()}
            write_live(folder, {**read_live(folder), **note})
            yield
        finally:
            _held.discard(folder.resolve())


def is_held(folder: Path) -> bool | None:
    """Return whether somebody trains in a folder now; None where nobody can say."""
    if folder.resolve() in _held:
        return True
    try:
        with os.fdopen(open_plain(folder / LOCK_NAME), "rb") as handle:
            return not try_lock(handle.fileno(), is_shared=True, is_own=True)
    except FileNotFoundError:
        return False
    except OSError:
        return None


def stop_training(folder: Path, *, timeout_seconds: float = 30.0) -> int | None:
    """End a training or a sweep, wait until it has ended; return its pid, None if none was.

    What the last checkpoint holds is kept.
    """
    if is_held(folder) is False:
        return None
    live = read_live(folder)
    pid, host = live.get("pid"), live.get("host")
    return end_holder(
        pid if isinstance(pid, int) and pid > 0 else 0,
        host,
        folder / LOCK_NAME,
        lambda: is_held(folder) is not False,
        holder=Message(
            "{folder} is trained by pid {pid} on {host}", folder=folder, pid=pid, host=host
        ),
        timeout_seconds=timeout_seconds,
    )


def write_object(path: Path, value: Mapping[str, Any]) -> None:
    """Write an object as a JSON file, all of it or nothing."""
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", "utf-8")


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file that may be a stranger's, nothing where there is none."""
    try:
        with os.fdopen(open_plain(path), "rb") as handle:
            found = parse_json(handle.read(_MOST_BYTES))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise RunError("{path} cannot be read: {error}", path=path, error=error) from error
    if not isinstance(found, dict):
        raise RunError("{path}: expected an object", path=path)
    return found
