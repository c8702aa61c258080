"""Cores and memory that this process may use: not those of the machine, where it has fewer.

A scheduler or `taskset` ties a process to some cores, and a container may have a quota of their
time and a limit of memory. Whoever asks the machine starts a worker for every core of the host.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from posemill.machine import cgroups
from posemill.messages import Message


@dataclass(frozen=True)
class Limit:
    """How much may be used, and what sets it.

    Args:
        amount: Cores or bytes.
        reason: Empty where it is all that the machine has.
    """

    amount: int
    reason: str = ""


def core_limit(root: Path = Path("/")) -> Limit:
    """Return how many cores this process may use, at least one, and why not more.

    Args:
        root: Where `proc` and `sys` are; another one for tests.
    """
    limit = Limit(os.cpu_count() or 1)
    if hasattr(os, "sched_getaffinity"):
        num_cores = len(os.sched_getaffinity(0))
        if num_cores < limit.amount:
            limit = Limit(num_cores, Message("tied to these (taskset, a scheduler or a cpuset)"))
    quota = cgroups.cpu_limit(root)
    if quota is not None and (num_cores := max(1, math.ceil(quota.amount))) < limit.amount:
        limit = Limit(
            num_cores,
            Message("{path} allows the time of {amount:g}", path=quota.path, amount=quota.amount),
        )
    return limit


def count_cores() -> int:
    """Return how many cores this process may use, at least one."""
    return core_limit().amount


def memory_limit(root: Path = Path("/")) -> Limit:
    """Return how many bytes of memory this process may use, and why not more."""
    import psutil

    limit = Limit(psutil.virtual_memory().total)
    group = cgroups.memory_limit(root)
    if group is not None and group.amount < limit.amount:
        limit = Limit(int(group.amount), Message("{path} allows no more", path=group.path))
    return limit


def free_memory(root: Path = Path("/")) -> int:
    """Return the bytes of memory that this process can still get."""
    import psutil

    free = int(psutil.virtual_memory().available)
    left = cgroups.free_memory(root)
    return free if left is None else min(free, left)
