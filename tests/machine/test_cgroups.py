"""Control groups, file by file: which count, which are passed over, and what is left of them."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from posemill.machine.cgroups import GroupLimit, cpu_limit, free_memory, memory_limit

V2 = "30 23 0:26 / /groups rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1 = "32 31 0:29 {root} /groups rw - cgroup cgroup rw,{controllers}"


@pytest.fixture
def build(tmp_path):
    """Returns a function: the root of a machine with these files below /groups."""

    def make(membership: str, mounts: str, files: dict[str, str]) -> Path:
        contents = {"proc/self/cgroup": membership, "proc/self/mountinfo": mounts}
        contents |= {f"groups/{name}": text for name, text in files.items()}
        for name, text in contents.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(f"{text}\n")
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("text", "cores"),
    [("150000 100000", 1.5), ("max 100000", None), ("100000 0", None), ("100000", None),
     ("100000 x", None), ("-1 100000", None), ("0 100000", 0.0)],
)  # fmt: skip
def test_a_quota_is_a_share_of_its_period(build, text, cores):
    root = build("0::/", V2, {"cpu.max": text})
    expected = None if cores is None else GroupLimit(cores, root / "groups/cpu.max")
    assert cpu_limit(root) == expected


def test_a_quota_of_version_1_is_in_two_files(build):
    files = {"cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "200000"}
    root = build("3:cpu,cpuacct:/", V1.format(root="/", controllers="cpu,cpuacct"), files)
    assert cpu_limit(root) == GroupLimit(0.25, root / "groups/cpu.cfs_quota_us")
    (root / "groups/cpu.cfs_period_us").unlink()
    assert cpu_limit(root) is None


def test_names_of_controllers_that_only_begin_alike_do_not_count(build):
    files = {"cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "200000"}
    assert cpu_limit(build("3:cpuacct:/", V1.format(root="/", controllers="cpu"), files)) is None
    assert cpu_limit(build("3:cpu:/", V1.format(root="/", controllers="cpuset"), files)) is None
    assert cpu_limit(build("3:cpu:/", V1.format(root="/", controllers="cpu"), files)) is not None


def test_the_smallest_from_the_group_up_to_the_mount_counts(build):
    files = {"memory.max": "900", "a/memory.max": "500", "a/b/memory.max": "700",
             "a/b/memory.high": "600"}  # fmt: skip
    root = build("0::/a/b", V2, files)
    assert memory_limit(root) == GroupLimit(500, root / "groups/a/memory.max")
    (root / "groups/a/memory.max").write_text("max\n")
    assert memory_limit(root) == GroupLimit(600, root / "groups/a/b/memory.high")
    (root / "memory.max").write_text("1\n")  # above the mount
    assert memory_limit(root).amount == 600


@pytest.mark.parametrize(
    ("path", "amount"),
    [("/host/box", 900), ("/host/box/inner", 300), ("/host/boxes/inner", 900),
     ("/host/box/../inner", 900), ("/elsewhere/inner", 900)],
)  # fmt: skip
def test_a_container_sees_its_own_part(build, path, amount):
    mounts = V1.format(root="/host/box", controllers="memory")
    files = {"memory.limit_in_bytes": "900", "inner/memory.limit_in_bytes": "300",
             "es/inner/memory.limit_in_bytes": "100",
             "elsewhere/inner/memory.limit_in_bytes": "50"}  # fmt: skip
    assert memory_limit(build(f"4:memory:{path}", mounts, files)).amount == amount


def test_a_blank_in_a_path_is_written_in_octal(build):
    root = build("0::/", V2.replace("/groups", r"/groups/a\040b"), {"a b/memory.max": "7"})
    assert memory_limit(root).amount == 7


@pytest.mark.parametrize(
    ("used", "stat", "left"),
    [("700", "inactive_file 200", 500), ("700", "anon 1\ninactive_file 200\nx 5", 500),
     ("700", "total_inactive_file 200", 300), ("700", "", 300), ("1001", "", 0), ("999", "", 1),
     ("100", "inactive_file 200", 1000), ("max", "", 1000)],
)  # fmt: skip
def test_the_cache_of_files_is_not_used_memory(build, used, stat, left):
    files = {"memory.max": "1000", "memory.current": used, "memory.stat": stat}
    assert free_memory(build("0::/", V2, files)) == left


def test_the_least_that_is_left_counts(build):
    files = {"a/memory.max": "1000", "a/memory.high": "900", "a/memory.current": "100",
             "memory.max": "5000", "memory.current": "4500"}  # fmt: skip
    root = build("0::/a", V2, files)
    assert free_memory(root) == 500
    (root / "groups/memory.current").write_text("0\n")
    assert free_memory(root) == 800


def test_version_1_counts_the_cache_of_all_groups_below(build):
    files = {"memory.limit_in_bytes": "1000", "memory.usage_in_bytes": "700",
             "memory.stat": "inactive_file 3\ntotal_inactive_file 200"}  # fmt: skip
    mounts = V1.format(root="/", controllers="memory")
    assert free_memory(build("4:memory:/", mounts, files)) == 500


def test_without_limits_or_proc_there_is_nothing_to_say(build, tmp_path):
    for ask in (cpu_limit, memory_limit, free_memory):
        assert ask(tmp_path / "nowhere") is None
        assert ask(build("0::/", V2, {"memory.current": "5"})) is None


def test_a_limit_of_a_group_stays_as_it_is() -> None:
    limit = GroupLimit(0.5, Path("cpu.max"))
    with pytest.raises(FrozenInstanceError):
        limit.amount = 1.0  # type: ignore[misc]
