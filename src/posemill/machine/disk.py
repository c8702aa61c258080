"""Disks that are full, or refuse for another reason."""

from __future__ import annotations

import errno

from posemill.messages import Message


def is_full(error: OSError) -> bool:
    """Return whether a write failed because the disk, or this user's part of it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def is_of_the_disk(error: OSError) -> bool:
    """Return whether the disk is to blame: no room, broken, or not to be written to."""
    return is_full(error) or error.errno in (errno.EFBIG, errno.EIO, errno.EROFS)


def disk_message(
    error: OSError,
    where: str,
    *,
    saved: str = Message("everything committed so far is safe"),
    again: str = Message("run the same command again"),
) -> str:
    """Return what to tell about a write that failed: what happened, what is saved, how to go on."""
    template = "cannot write to {where}: {error}; {saved}: {again} when it can be written"
    if is_full(error) or error.errno == errno.EFBIG:  # no file may be so large
        template = "no room left to write to {where} ({reason}); {saved}: make room and {again}"
    return Message(
        template, where=where, reason=error.strerror, error=error, saved=saved, again=again
    )
