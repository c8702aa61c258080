"""What the container of this process may use: the control groups of Linux, version 1 and 2.

A group's limit holds for all groups below it, so the smallest on the way up to the root counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class GroupLimit:
    """A limit, and the file that sets it.

    Args:
        amount: Cores (0.5 is half of one), or bytes.
        path: The file, for the user to look at.
    """

    amount: float
    path: Path


@dataclass(frozen=True)
class _Group:
    """One folder of a control group; `is_v2` says how its files are named."""

    folder: Path
    is_v2: bool

    def read(self, name: str) -> str:
        """Return the text of a file, nothing where there is none or it may not be read."""
        try:
            return (self.folder / name).read_text().strip()
        except OSError:
            return ""

    def number(self, name: str) -> int | None:
        """Return the number in a file, None for `max`, -1 and no file."""
        text = self.read(name)
        return int(text) if text.isdigit() else None


def cpu_limit(root: Path = Path("/")) -> GroupLimit | None:
    """Return how many cores' worth of time the container gets, None if there is no quota.

    Args:
        root: Where `proc` and the mounted control groups are; another one for tests.
    """
    limits = []
    for group in _groups("cpu", root):
        if group.is_v2:
            name = "cpu.max"
            quota, _, period = group.read(name).partition(" ")
        else:
            name = "cpu.cfs_quota_us"
            quota, period = group.read(name), group.read("cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(period):
            limits.append(GroupLimit(int(quota) / int(period), group.folder / name))
    return _smallest(limits)


def memory_limit(root: Path = Path("/")) -> GroupLimit | None:
    """Return the bytes the container may use, None if it may use all.

    `memory.high` counts as well: above it the kernel slows a group down until it is of no use.
    """
    limits = []
    for group in _groups("memory", root):
        for name in ("memory.max", "memory.high") if group.is_v2 else ("memory.limit_in_bytes",):
            if (limit := group.number(name)) is not None:
                limits.append(GroupLimit(limit, group.folder / name))
    return _smallest(limits)


def free_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes left of the tightest limit, None if there is none.

    What the page cache holds of files is not counted as used: the kernel gives it back.
    """
    left = []
    for group in _groups("memory", root):
        usage = "memory.current" if group.is_v2 else "memory.usage_in_bytes"
        cached = "inactive_file" if group.is_v2 else "total_inactive_file"
        found = re.search(rf"^{cached} (\d+)$", group.read("memory.stat"), re.MULTILINE)
        used = (group.number(usage) or 0) - (int(found[1]) if found else 0)
        for name in ("memory.max", "memory.high") if group.is_v2 else ("memory.limit_in_bytes",):
            if (limit := group.number(name)) is not None:
                left.append(max(0, limit - max(0, used)))
    return min(left, default=None)


def _smallest(limits: list[GroupLimit]) -> GroupLimit | None:
    return min(limits, key=lambda limit: limit.amount, default=None)


def _groups(controller: str, root: Path) -> Iterator[_Group]:
    """Yield the groups of this process that a controller may work in, from its own upwards."""
    try:
        memberships = (root / "proc/self/cgroup").read_text().splitlines()
        mounts = (root / "proc/self/mountinfo").read_text().splitlines()
    except OSError:  # not Linux, or a /proc that tells nothing
        return
    for is_v2, mount_root, mount_point in _mounts(mounts, controller):
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


def _mounts(lines: list[str], controller: str) -> Iterator[tuple[bool, str, str]]:
    """Yield whether it is version 2, the mounted part of the tree, and where it is mounted."""
    for line in lines:
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        is_v2 = kind == "cgroup2"
        if is_v2 or (kind == "cgroup" and controller in options.split(",")):
            mount_root, mount_point = fields.split(" ")[3:5]
            yield is_v2, unescape_mount(mount_root), unescape_mount(mount_point)


def unescape_mount(path: str) -> str:
    r"""Return a path of the kernel's lists of mounts, where a blank is written `\040`."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)
