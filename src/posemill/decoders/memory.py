"""Keeping the memory of freed frames within a worker process."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def keep_freed_memory(num_bytes: int = 256 << 20) -> bool:
    """Tell the C library to keep up to so many bytes that were freed; return whether it does.

    glibc gives the memory of large arrays back at once and asks for it again with the next frame:
    the kernel then clears every page anew, which at 1280 x 720 costs as much CPU time as a third
    of the decoding. It is a setting of the whole process, so only a worker that belongs to
    posemill may use it. Elsewhere than on glibc nothing happens.

    Args:
        num_bytes: About what a process may hold without using it.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    # Arrays below this come out of the part that is kept; 32 MB is the most that glibc takes.
    return bool(mallopt(_M_MMAP_THRESHOLD, 32 << 20) and mallopt(_M_TRIM_THRESHOLD, num_bytes))
