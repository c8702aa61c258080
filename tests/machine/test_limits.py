"""Cores and memory of a process in a container, by trees of control groups as they are found."""

import os
import subprocess
import sys
import uuid
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from posemill.machine.limits import Limit, core_limit, count_cores, free_memory, memory_limit

V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1 = """31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs rw,mode=755
32 31 0:29 {root} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 {root} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"""
MB = 1 << 20


@pytest.fixture
def build(tmp_path, monkeypatch):
    """A machine of 8 cores and 64 GB with these files, text or megabytes, below /sys/fs/cgroup."""
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    memory = psutil.virtual_memory()._replace(total=64 << 30, available=60 << 30)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)

    def make(memberships, mounts, files):
        contents = {"proc/self/cgroup": memberships, "proc/self/mountinfo": mounts}
        contents |= {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
        for name, text in contents.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            number = text * MB if isinstance(text, int) else text
            (tmp_path / name).write_text(f"{number}\n")
        return tmp_path

    return make


QUOTA = {"cpu,cpuacct/cpu.cfs_quota_us": "250000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}
MOST = 64 << 10  # megabytes that the machine has


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("max 100000", 8),
        ("75000 50000", 2),  # a part of a core is a core that is idle at times
        ("10000 100000", 1),
        ("1600000 100000", 8),  # more than there are
        ("", 8),
        ("100000 0", 8),
        ("100000", 8),
        ("-1 100000", 8),
    ],
)
def test_the_quota_of_a_container_in_version_2(build, text, cores):
    limit = core_limit(build("0::/", V2, {"cpu.max": text}))
    assert limit.amount == cores
    assert bool(limit.reason) == (cores < 8)


def test_the_reason_names_the_file_and_what_it_allows(build):
    root = build("0::/job", V2, {"job/cpu.max": "150000 100000", "job/memory.max": 512})
    assert core_limit(root).reason == f"{root}/sys/fs/cgroup/job/cpu.max allows the time of 1.5"
    assert memory_limit(root).reason == f"{root}/sys/fs/cgroup/job/memory.max allows no more"
    root = build("1:cpu,cpuacct:/", V1.format(root="/"), QUOTA)
    assert "cpu.cfs_quota_us allows the time of 2.5" in core_limit(root).reason


@pytest.mark.parametrize(
    ("memberships", "mounts", "files", "cores", "megabytes"),
    [
        # The tightest limit on the way up counts, not that of another's group.
        ("0::/slurm/job7/step0", V2,
         {"slurm/job7/step0/cpu.max": "max 100000", "slurm/job7/step0/memory.max": 4096,
          "slurm/job7/cpu.max": "300000 100000", "slurm/job7/memory.max": 2048,
          "slurm/cpu.max": "600000 100000", "slurm/memory.max": "max",
          "slurm/job8/cpu.max": "100000 100000"}, 3, 2048),
        # Memory that is slowed down counts as not there.
        ("0::/", V2, {"memory.max": "max", "memory.high": "max"}, 8, MOST),
        ("0::/", V2, {"memory.max": 900, "memory.high": "max"}, 8, 900),
        ("0::/", V2, {"memory.max": "max", "memory.high": 700}, 8, 700),
        ("0::/", V2, {"memory.max": 900, "memory.high": 700}, 8, 700),
        # Version 1 as a container sees it: the path is the host's, its part of that is mounted.
        ("4:memory:/docker/ab12\n1:cpu,cpuacct:/docker/ab12\n0::/system.slice",
         V1.format(root="/docker/ab12"),
         {**QUOTA, "memory/memory.limit_in_bytes": 3000}, 3, 3000),
        # Version 1 without a limit, as it says so.
        ("4:memory:/a\n1:cpu,cpuacct:/a", V1.format(root="/"),
         {"cpu,cpuacct/a/cpu.cfs_quota_us": "-1", "cpu,cpuacct/a/cpu.cfs_period_us": "100000",
          "memory/a/memory.limit_in_bytes": "9223372036854771712"}, 8, MOST),
        # Both versions side by side: ours is b in version 2.
        ("4:memory:/a\n0::/b",
         V1.format(root="/") + "\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
         {"memory/a/memory.limit_in_bytes": 900, "unified/b/memory.max": 800,
          "unified/a/memory.max": 100}, 8, 800),
        # A blank in the name of a mount point, a colon in that of a group.
        ("0::/", r"30 23 0:26 / /sys/fs/cgroup/my\040groups rw - cgroup2 cgroup2 rw",
         {"my groups/cpu.max": "100000 100000"}, 1, MOST),
        ("0::/a:b", V2, {"a:b/cpu.max": "100000 100000"}, 1, MOST),
        # Controllers whose names only begin alike.
        ("3:cpuacct:/", V1.format(root="/"), QUOTA, 8, MOST),
        ("3:cpu:/", V1.format(root="/").replace("rw,cpu,", "rw,cpuset,"), QUOTA, 8, MOST),
        ("3:cpu:/", V1.format(root="/"), QUOTA, 3, MOST),
        ("3:cpu:/", V1.format(root="/"), {"cpu,cpuacct/cpu.cfs_quota_us": "250000"}, 8, MOST),
    ],
)  # fmt: skip
def test_limits_are_those_of_the_groups_of_this_process(
    build, memberships, mounts, files, cores, megabytes
):
    root = build(memberships, mounts, files)
    assert (core_limit(root).amount, memory_limit(root).amount) == (cores, megabytes * MB)
    assert bool(memory_limit(root).reason) == (megabytes < MOST)


@pytest.mark.parametrize(
    ("path", "megabytes"),
    # Below the mounted one; one that only begins alike; a path that leads out of the namespace.
    [("/docker/ab/inner", 300), ("/docker/abc/inner", 900), ("/docker/ab/../inner", 900)],
)
def test_a_group_below_the_mounted_one_and_one_outside_of_it(build, path, megabytes):
    name = "memory.limit_in_bytes"
    files = {f"memory/{name}": 900, f"memory/inner/{name}": 300}
    root = build(f"4:memory:{path}", V1.format(root="/docker/ab"), files)
    assert memory_limit(root).amount == megabytes * MB


def test_a_system_that_tells_nothing_has_no_limits(build, tmp_path):
    assert (core_limit(tmp_path), memory_limit(tmp_path)) == (Limit(8), Limit(64 << 30))
    assert free_memory(tmp_path) == 60 << 30


def test_fewer_cores_by_affinity_than_by_quota(build, monkeypatch):
    root = build("0::/", V2, {"cpu.max": "400000 100000"})
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 5, 6}, raising=False)
    limit = core_limit(root)
    assert limit.amount == 3
    assert limit.reason == "tied to these (taskset, a scheduler or a cpuset)"


TIGHT = {"memory.max": 10, "memory.current": 30, "memory.stat": f"inactive_file {5 * MB}"}
TWO = {"a/memory.max": 1000, "a/memory.current": 700,
       "a/memory.stat": f"anon 5\ninactive_file {200 * MB}\nactive_file 7",
       "memory.high": 5000, "memory.current": 4900, "memory.stat": "inactive_file 0"}  # fmt: skip


@pytest.mark.parametrize(
    ("memberships", "mounts", "files", "megabytes"),
    [
        # What is used but not the cache, in the group that has least left.
        ("0::/a", V2, TWO, 100),
        ("0::/a", V2, {**TWO, "memory.current": 0}, 500),
        ("4:memory:/a", V1.format(root="/"),
         {"memory/a/memory.limit_in_bytes": 1000, "memory/a/memory.usage_in_bytes": 700,
          "memory/a/memory.stat": f"inactive_file 3\ntotal_inactive_file {200 * MB}"}, 500),
        # Never less than nothing, nor more than the limit; without one the machine's.
        ("0::/", V2, TIGHT, 0),
        ("0::/", V2, {**TIGHT, "memory.stat": f"inactive_file {50 * MB}"}, 10),
        ("0::/", V2, {**TIGHT, "memory.max": ""}, 60 << 10),
    ],
)  # fmt: skip
def test_free_memory_is_what_the_groups_leave(build, memberships, mounts, files, megabytes):
    assert free_memory(build(memberships, mounts, files)) == megabytes * MB


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux ties processes to cores")
def test_affinity_counts_for_real():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert count_cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)


JOIN = 'for group; do echo $$ > "$group/cgroup.procs" || exit 9; done; exec "$PYTHON" -c "$CODE"'
CODE = """
from posemill.machine.limits import core_limit, free_memory, memory_limit
print(core_limit(), memory_limit(), free_memory(), sep="\\n")
"""


def test_a_process_in_a_real_container_sees_its_limits():
    """In new control groups of this machine, limited to half a core and 300 MB."""
    top, name = Path("/sys/fs/cgroup"), f"posemill-test-{uuid.uuid4().hex[:8]}"
    limits = {
        f"cpu/{name}/cpu.cfs_period_us": "100000",
        f"cpu/{name}/cpu.cfs_quota_us": "50000",
        f"memory/{name}/memory.limit_in_bytes": str(300 * MB),
    }
    if (top / "cgroup.controllers").exists():
        limits = {f"{name}/cpu.max": "50000 100000", f"{name}/memory.max": str(300 * MB)}
    groups = sorted({(top / path).parent for path in limits})
    with ExitStack() as stack:
        try:
            for group in groups:
                group.mkdir()
                stack.callback(group.rmdir)
            for path, text in limits.items():
                (top / path).write_text(text)
        except OSError as error:
            pytest.skip(f"this machine lets us make no control group: {error}")
        variables = {**os.environ, "PYTHON": sys.executable, "CODE": CODE}
        command = ["sh", "-c", JOIN, "sh", *map(str, groups)]
        done = subprocess.run(command, env=variables, capture_output=True, text=True)
    if done.returncode == 9:
        pytest.skip(f"this machine lets us put no process into a control group: {done.stderr}")
    cores, memory, free = done.stdout.splitlines()
    assert cores.startswith("Limit(amount=1, ")
    assert "allows the time of 0.5" in cores or os.cpu_count() == 1
    assert memory.startswith(f"Limit(amount={300 * MB}, ")
    assert 0 < int(free) <= 300 * MB
