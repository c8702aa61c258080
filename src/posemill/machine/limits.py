"""Cores and memory that this process may use: not those of the machine, where it has fewer.

By affinity (`taskset`, a scheduler), and by the control groups of Linux, version 1 and 2. A group's
limit holds for all groups below it, so the smallest on the way up to the root counts.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath

from posemill.messages import Message

_ROOT = Path("/")


@dataclass(frozen=True)
class Limit:
    """How many cores or bytes may be used; `reason` is empty where the machine has no more."""

    amount: int
    reason: str = ""


def core_limit(root: Path = _ROOT) -> Limit:
    """Return how many cores this process may use, at least one; `proc` and `sys` are at `root`."""
    limits = [Limit(os.cpu_count() or 1)]
    if hasattr(os, "sched_getaffinity"):
        reason = Message("tied to these (taskset, a scheduler or a cpuset)")
        limits.append(Limit(len(os.sched_getaffinity(0)), reason))
    for group in _groups("cpu", root):
        path = group / "cpu.max"
        if not (text := _read(path)):  # version 1
            path = group / "cpu.cfs_quota_us"
            text = f"{_read(path)} {_read(group / 'cpu.cfs_period_us')}"
        quota, _, period = text.partition(" ")
        if not (quota.isdigit() and period.isdigit() and int(period)):
            continue
        amount = int(quota) / int(period)  # 0.5 is half of a core
        reason = Message("{path} allows the time of {amount:g}", path=path, amount=amount)
        limits.append(Limit(max(1, math.ceil(amount)), reason))
    return min(limits, key=lambda limit: limit.amount)


def count_cores() -> int:
    """Return how many cores this process may use, at least one."""
    return core_limit().amount


def memory_limit(root: Path = _ROOT) -> Limit:
    """Return how many bytes of memory this process may use."""
    import psutil

    limits = [Limit(psutil.virtual_memory().total)]
    for path, num_bytes in chain.from_iterable(map(_memory_limits, _groups("memory", root))):
        limits.append(Limit(num_bytes, Message("{path} allows no more", path=path)))
    return min(limits, key=lambda limit: limit.amount)


def free_memory(root: Path = _ROOT) -> int:
    """Return the bytes of memory that this process can still get.

    What the page cache holds of files is not counted as used: the kernel gives it back.
    """
    import psutil

    free = int(psutil.virtual_memory().available)
    for group in _groups("memory", root):
        usage = _read(group / "memory.current") or _read(group / "memory.usage_in_bytes")
        # Version 1 says first what this group alone has, then what all below it have, too.
        cached = re.findall(r"^(?:total_)?inactive_file (\d+)$", _read(group / "memory.stat"), re.M)
        used = int(usage if usage.isdigit() else 0) - int(cached[-1] if cached else 0)
        for _, num_bytes in _memory_limits(group):
            free = min(free, max(0, num_bytes - max(0, used)))
    return free


def _memory_limits(group: Path) -> Iterator[tuple[Path, int]]:
    # Above `memory.high` the kernel slows a group down until it is of no use.
    for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
        text = _read(group / name)
        if text.isdigit():  # not `max`, -1 or no file
            yield group / name, int(text)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _groups(controller: str, root: Path) -> Iterator[Path]:
    """Yield the folders of the groups of this process that a controller may work in, upwards."""
    memberships = [line.split(":", 2) for line in _read(root / "proc/self/cgroup").splitlines()]
    for mount in _read(root / "proc/self/mountinfo").splitlines():
        fields, _, rest = mount.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        name = "" if kind == "cgroup2" else controller  # version 1 has a tree for each
        if kind not in ("cgroup", "cgroup2") or (name and name not in options.split(",")):
            continue
        # Of the tree, the part that is mounted, and where.
        mount_root, mount_point = (
            # A blank is written `\040`.
            re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)
            for path in fields.split(" ")[3:5]
        )
        top = root / mount_point.lstrip("/")
        for _, names, path in memberships:
            if name not in names.split(","):
                continue
            group = PurePosixPath(path)
            # A container may see only its own part of the tree: what is mounted is then the
            # group itself, or one above it, whatever its path in the host's tree is.
            is_below = group.is_relative_to(mount_root) and ".." not in group.parts
            below = group.relative_to(mount_root) if is_below else PurePosixPath()
            yield from (top / path for path in (below, *below.parents))
