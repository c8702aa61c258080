"""Locks on files, which the system drops when their holder dies, however it dies."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_NO_LOCKS_HERE = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)

if sys.platform == "win32":  # pragma: no cover
    import msvcrt
else:
    import fcntl


def try_lock(descriptor: int, *, is_shared: bool = False, is_own: bool = False) -> bool:
    """Return whether the lock of an open file is ours now; does not wait.

    Closing the file frees it. One that `is_shared` several may hold at once, and nobody who wants
    it alone. One that `is_own` is not kept alive by forked processes that have the file open too,
    and all open files of this process share it. `OSError` where nothing can lock.
    """
    try:
        if sys.platform == "win32":  # pragma: no cover
            # Far behind the text, which others must be able to read.
            os.lseek(descriptor, 1 << 20, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
            (fcntl.lockf if is_own else fcntl.flock)(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except PermissionError:
        if is_own or sys.platform == "win32":  # POSIX lets a system say it so
            return False
        raise
    return True


@contextmanager
def exclusive_lock(path: Path, *, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock file `path` (made if absent) for the block; freed even if the process dies.

    A file system without locks counts as ours. `on_wait` is called once when another process has
    the lock. The file stays: removing it would let two processes hold two files.
    """
    with path.open("a+b") as handle:
        try:
            if not try_lock(handle.fileno()):
                on_wait()
                while not try_lock(handle.fileno()):
                    time.sleep(0.1)
        except OSError as error:
            if error.errno not in _NO_LOCKS_HERE:
                raise
        yield  # closing the file frees the lock
