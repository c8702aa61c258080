"""Memory that glibc keeps for the next step of a training instead of giving it to the system.

Activations of video are blocks of megabytes, freed and asked for again in every step. Given back
to the system, each page of them comes anew, cleared: a fifth of the time of a step on a CPU.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # of malloc.h


def keep_freed_memory() -> bool:
    """Keep what is freed from now on, and return whether that is possible: with glibc only."""
    return _set_options({_MMAP_MAX: 0, _TRIM_THRESHOLD: (1 << 31) - 1, _TOP_PAD: 1 << 26})


@contextmanager
def freed_memory_returned() -> Iterator[None]:
    """Give what the block kept to the system at its end, and keep no more than is usual."""
    try:
        yield
    finally:
        # A trim threshold of 64 MB is the most that glibc goes up to by itself.
        if _set_options({_MMAP_MAX: 65536, _TRIM_THRESHOLD: 1 << 26, _TOP_PAD: 1 << 17}):
            ctypes.CDLL(None).malloc_trim(0)


def _set_options(options: dict[int, int]) -> bool:
    # Whoever set some by the environment is left alone.
    if os.name != "posix" or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(name, value) for name, value in options.items())
