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
from pathlib import Path

from posemill.messages import Message

_ROOT = Path("/")


@dataclass(frozen=True)
class Limit:
    """How many cores or bytes may be used; `reason` is empty where the machine has no more."""

    amount: int
    reason: str = ""


def core_limit(root: Path = _ROOT) -> Limit:
    """Return how many cores this process may use, at least one; `proc` and `sys` are at `root`."""
    limit = Limit(os.cpu_count() or 1)
    if hasattr(os, "sched_getaffinity"):
        num_cores = len(os.sched_getaffinity(0))
        if num_cores < limit.amount:
            limit = Limit(num_cores, Message("tied to these (taskset, a scheduler or a cpuset)"))
    for group in _groups("cpu", root):
        name = "cpu.max" if group.is_v2 else "cpu.cfs_quota_us"
        quota, _, period = group.read(name).partition(" ")
        period = period or group.read("cpu.cfs_period_us")
        if not (quota.isdigit() and period.isdigit() and int(period)):
            continue
        amount = int(quota) / int(period)  # 0.5 is half of a core
        if (num_cores := max(1, math.ceil(amount))) < limit.amount:
            path = group.folder / name
            reason = Message("{path} allows the time of {amount:g}", path=path, amount=amount)
            limit = Limit(num_cores, reason)
    return limit


def count_cores() -> int:
    """Return how many cores this process may use, at least one."""
    return core_limit().amount


def memory_limit(root: Path = _ROOT) -> Limit:
    """Return how many bytes of memory this process may use."""
    import psutil

    limit = Limit(psutil.virtual_memory().total)
    for group in _groups("memory", root):
        for path, num_bytes in group.memory_limits():
            if num_bytes < limit.amount:
                limit = Limit(num_bytes, Message("{path} allows no more", path=path))
    return limit


def free_memory(root: Path = _ROOT) -> int:
    """Return the bytes of memory that this process can still get.

    What the page cache holds of files is not counted as used: the kernel gives it back.
    """
    import psutil

    free = int(psutil.virtual_memory().available)
    for group in _groups("memory", root):
        usage = group.read("memory.current" if group.is_v2 else "memory.usage_in_bytes")
        cached = "inactive_file" if group.is_v2 else "total_inactive_file"
        match = re.search(rf"^{cached} (\d+)$", group.read("memory.stat"), re.MULTILINE)
        used = int(usage if usage.isdigit() else 0) - int(match[1] if match else 0)
        for _, num_bytes in group.memory_limits():
            free = min(free, max(0, num_bytes - max(0, used)))
    return free


@dataclass(frozen=True)
class _Group:
    folder: Path
    is_v2: bool  # its files have other names

    def read(self, name: str) -> str:
        try:
            return (self.folder / name).read_text().strip()
        except OSError:
            return ""

    def memory_limits(self) -> Iterator[tuple[Path, int]]:
        # Above `memory.high` the kernel slows a group down until it is of no use.
        for name in ("memory.max", "memory.high") if self.is_v2 else ("memory.limit_in_bytes",):
            text = self.read(name)
            if text.isdigit():  # not `max`, -1 or no file
                yield self.folder / name, int(text)


def _groups(controller: str, root: Path) -> Iterator[_Group]:
    """Yield the groups of this process that a controller may work in, from its own upwards."""
    try:
        memberships = (root / "proc/self/cgroup").read_text().splitlines()
        mounts = (root / "proc/self/mountinfo").read_text().splitlines()
    except OSError:  # not Linux, or a /proc that tells nothing
        return
    for mount in mounts:
        fields, _, rest = mount.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        is_v2 = kind == "cgroup2"
        if not is_v2 and (kind != "cgroup" or controller not in options.split(",")):
            continue
        # Of the tree, the part that is mounted, and where.
        mount_root, mount_point = (
            # A blank is written `\040`.
            re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)
            for path in fields.split(" ")[3:5]
        )
        for line in memberships:
            _, controllers, path = line.split(":", 2)
            if controllers if is_v2 else controller not in controllers.split(","):
                continue
            top = root / mount_point.lstrip("/")
            # A container may see only its own part of the tree: what is mounted is then the
            # group itself, or one above it, whatever its path in the host's tree is.
            below = path.removeprefix(mount_root if mount_root != "/" else "").strip("/")
            is_below = mount_root == "/" or path.startswith(f"{mount_root}/")
            folder = top / below if is_below and ".." not in below.split("/") else top
            while True:
                yield _Group(folder, is_v2)
                if folder == top:
                    break
                folder = folder.parent
