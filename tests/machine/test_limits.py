"""Cores and memory of a process in a container, by trees of control groups as they are found."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import psutil
import pytest

import posemill
from posemill.machine.limits import Limit, core_limit, count_cores, free_memory, memory_limit

V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1 = """31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs rw,mode=755
32 31 0:29 {root} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 {root} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"""
MB = 1 << 20


@pytest.fixture
def build(tmp_path, monkeypatch):
    """A machine of 8 cores and 64 GB with these files below /sys/fs/cgroup; returns its root."""
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    memory = psutil.virtual_memory()._replace(total=64 << 30, available=60 << 30)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)

    def make(memberships, mounts, files):
        contents = {"proc/self/cgroup": memberships, "proc/self/mountinfo": mounts}
        contents |= {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
        for name, text in contents.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text + "\n")
        return tmp_path

    return make


QUOTA = {"cpu,cpuacct/cpu.cfs_quota_us": "250000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}
MOST = 64 << 10  # megabytes that the machine has


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("max 100000", 8),
        ("200000 100000", 2),
        ("150000 100000", 2),  # a part of a core is a core that is idle at times
        ("10000 100000", 1),
        ("50000 50000", 1),
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
    root = build("0::/job", V2, {"job/cpu.max": "150000 100000", "job/memory.max": str(512 * MB)})
    assert core_limit(root).reason == f"{root}/sys/fs/cgroup/job/cpu.max allows the time of 1.5"
    assert memory_limit(root).reason == f"{root}/sys/fs/cgroup/job/memory.max allows no more"
    root = build("1:cpu,cpuacct:/", V1.format(root="/"), QUOTA)
    assert "cpu.cfs_quota_us allows the time of 2.5" in core_limit(root).reason


@pytest.mark.parametrize(
    ("memberships", "mounts", "files", "cores", "megabytes"),
    [
        # The tightest limit on the way up counts, not that of another's group.
        ("0::/slurm/job7/step0", V2,
         {"slurm/job7/step0/cpu.max": "max 100000", "slurm/job7/step0/memory.max": str(4096 * MB),
          "slurm/job7/cpu.max": "300000 100000", "slurm/job7/memory.max": str(2048 * MB),
          "slurm/cpu.max": "600000 100000", "slurm/memory.max": "max",
          "slurm/job8/cpu.max": "100000 100000"}, 3, 2048),
        # Memory that is slowed down counts as not there.
        ("0::/", V2, {"memory.max": "max", "memory.high": "max"}, 8, MOST),
        ("0::/", V2, {"memory.max": str(900 * MB), "memory.high": "max"}, 8, 900),
        ("0::/", V2, {"memory.max": "max", "memory.high": str(700 * MB)}, 8, 700),
        ("0::/", V2, {"memory.max": str(900 * MB), "memory.high": str(700 * MB)}, 8, 700),
        # Version 1 as a container sees it: the path is the host's, its part of that is mounted.
        ("4:memory:/docker/ab12\n1:cpu,cpuacct:/docker/ab12\n0::/system.slice",
         V1.format(root="/docker/ab12"),
         {**QUOTA, "memory/memory.limit_in_bytes": str(3000 * MB)}, 3, 3000),
        # Version 1 without a limit, as it says so.
        ("4:memory:/a\n1:cpu,cpuacct:/a", V1.format(root="/"),
         {"cpu,cpuacct/a/cpu.cfs_quota_us": "-1", "cpu,cpuacct/a/cpu.cfs_period_us": "100000",
          "memory/a/memory.limit_in_bytes": "9223372036854771712"}, 8, MOST),
        # Both versions side by side: ours is b in version 2.
        ("4:memory:/a\n0::/b",
         V1.format(root="/") + "\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
         {"memory/a/memory.limit_in_bytes": str(900 * MB), "unified/b/memory.max": str(800 * MB),
          "unified/a/memory.max": str(100 * MB)}, 8, 800),
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
    files = {
        "memory/memory.limit_in_bytes": str(900 * MB),
        "memory/inner/memory.limit_in_bytes": str(300 * MB),
    }
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


@pytest.mark.parametrize("is_v2", [True, False])
def test_free_memory_leaves_out_what_is_used_but_not_the_cache(build, is_v2):
    if is_v2:
        files = {
            "a/memory.max": str(1000 * MB),
            "a/memory.current": str(700 * MB),
            "a/memory.stat": f"anon 5\ninactive_file {200 * MB}\nactive_file 7",
            "memory.high": str(5000 * MB),
            "memory.current": str(4900 * MB),
            "memory.stat": "inactive_file 0",
        }
        root = build("0::/a", V2, files)
        assert free_memory(root) == 100 * MB
        (root / "sys/fs/cgroup/memory.current").write_text("0\n")
    else:
        files = {
            "memory/a/memory.limit_in_bytes": str(1000 * MB),
            "memory/a/memory.usage_in_bytes": str(700 * MB),
            "memory/a/memory.stat": f"inactive_file 3\ntotal_inactive_file {200 * MB}",
        }
        root = build("4:memory:/a", V1.format(root="/"), files)
    assert free_memory(root) == 500 * MB


def test_free_memory_is_never_less_than_nothing_nor_more_than_the_limit(build):
    files = {
        "memory.max": str(10 * MB),
        "memory.current": str(30 * MB),
        "memory.stat": f"inactive_file {5 * MB}",
    }
    root = build("0::/", V2, files)
    assert free_memory(root) == 0
    (root / "sys/fs/cgroup/memory.stat").write_text(f"inactive_file {50 * MB}\n")
    assert free_memory(root) == 10 * MB
    (root / "sys/fs/cgroup/memory.max").unlink()
    assert free_memory(root) == 60 << 30, "without a limit the machine's"


def test_affinity_counts_for_real():
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("this system cannot tie a process to cores")
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert count_cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.fixture
def real_group():
    """New control groups of this machine, limited to half a core and 300 MB: folders, files."""
    name = f"posemill-test-{uuid.uuid4().hex[:8]}"
    wanted = {
        "cpu/cpu.cfs_period_us": "100000", "cpu/cpu.cfs_quota_us": "50000",
        "memory/memory.limit_in_bytes": str(300 * MB),
    }  # fmt: skip
    top = Path("/sys/fs/cgroup")
    is_v2 = (top / "cgroup.controllers").exists()
    if is_v2:
        wanted = {"cpu.max": "50000 100000", "memory.max": str(300 * MB)}
    folders = [top / name] if is_v2 else [top / "cpu" / name, top / "memory" / name]
    made = []
    try:
        try:
            for folder in folders:
                folder.mkdir()
                made.append(folder)
            for path, text in wanted.items():
                kind, _, file = path.rpartition("/")
                (top / kind / name / file).write_text(text)
        except OSError as error:
            pytest.skip(f"this machine lets us make no control group: {error}")
        yield folders, wanted
    finally:
        for folder in made:
            folder.rmdir()


def test_a_process_in_a_real_container_sees_its_limits(real_group):
    folders, _ = real_group
    code = (
        "import sys; sys.stdin.readline()\n"
        "from posemill.machine.limits import core_limit, memory_limit, free_memory\n"
        "print(core_limit(), memory_limit(), free_memory(), sep='\\n')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(posemill.__file__).parents[1])},
    ) as process:  # fmt: skip
        try:
            for folder in folders:
                (folder / "cgroup.procs").write_text(f"{process.pid}\n")
        except OSError as error:
            process.kill()
            pytest.skip(f"this machine lets us put no process into a control group: {error}")
        said, _ = process.communicate("go\n", timeout=60)
    cores, memory, free = said.splitlines()
    if (os.cpu_count() or 1) > 1:
        assert cores.startswith("Limit(amount=1, ")
        assert "allows the time of 0.5" in cores
    assert memory.startswith(f"Limit(amount={300 * MB}, ")
    assert 0 < int(free) <= 300 * MB
