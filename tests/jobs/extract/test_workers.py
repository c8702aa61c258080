"""How many workers a run gets, of what kind, with how much memory each."""

from __future__ import annotations

import pytest

from posemill.jobs.extract import workers
from posemill.jobs.extract.workers import plan_workers
from posemill.machine.limits import Limit

GB = 1 << 30


@pytest.fixture
def machine(monkeypatch):
    """Pretend that this process may use so many cores and so much memory."""

    def pretend(cores, memory_bytes, reason=""):
        monkeypatch.setattr(workers, "count_cores", lambda: cores)
        monkeypatch.setattr(workers, "memory_limit", lambda: Limit(memory_bytes, reason))

    return pretend


@pytest.mark.parametrize(
    ("cores", "memory", "reason", "expected", "said"),
    [
        (4, 10 * GB, "", (4, 2 * GB), "4 processes x 1 thread on cpu, at most 2048 MB each"),
        (64, 4 * GB, "/sys/fs/cgroup/memory.max allows no more", (6, 4 * GB * 4 // 5 // 6),
         "6 processes x 1 thread on cpu, at most 546 MB each (not 64, one a core, for 4096 MB of "
         "memory: /sys/fs/cgroup/memory.max allows no more)"),
        (8, GB // 4, "", (1, GB // 2), "1 process x 1 thread on cpu, at most 512 MB each (not 8, "
         "one a core, for 256 MB of memory)"),  # what an engine needs
    ],
)  # fmt: skip
def test_a_worker_for_every_core_shares_four_fifths_of_the_memory(
    machine, config_for, tmp_path, cores, memory, reason, expected, said
):
    machine(cores, memory, reason)
    plan = plan_workers(config_for(tmp_path, executor="processes", workers=None))
    assert (plan.num_workers, plan.memory_bytes) == expected
    assert plan.describe() == said


def test_what_was_asked_for_is_not_reduced(machine, config_for, tmp_path):
    machine(2, 2 * GB)
    plan = plan_workers(config_for(tmp_path, executor="processes", workers=7, memory_limit_mb=100))
    assert (plan.num_workers, plan.memory_bytes, plan.note) == (7, 100 << 20, "")
    plan = plan_workers(config_for(tmp_path, executor="processes", workers=7))
    assert plan.memory_bytes == GB // 2


def test_threads_and_the_serial_executor_have_no_limit_of_memory(machine, config_for, tmp_path):
    machine(4, 10 * GB)
    plan = plan_workers(config_for(tmp_path, executor="threads", workers=3))
    assert (plan.num_workers, plan.memory_bytes) == (3, 0)
    assert plan.describe() == "3 threads of one process x 1 thread on cpu"
    plan = plan_workers(config_for(tmp_path))
    assert plan.num_workers == 1
    assert plan.describe() == "1 process (serial) x 1 thread on cpu"


def test_workers_of_gpus_are_counted_by_gpu(machine, config_for, tmp_path):
    machine(4, 80 * GB)
    config = config_for(
        tmp_path, executor="processes", workers=None, num_gpus=2, num_workers_per_gpu=3
    )
    plan = plan_workers(config)
    assert plan.num_workers == 6
    assert plan.devices == ("cuda:0", "cuda:1")
