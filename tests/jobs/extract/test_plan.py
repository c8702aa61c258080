"""Units, tasks and workers: what is cut, what is grouped, in which order; how many work on it."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posemill.config import ExtractConfig
from posemill.jobs.extract import plan
from posemill.jobs.extract.plan import (
    UNKNOWN_COST,
    group_units,
    mode_of,
    plan_units,
    plan_workers,
    unused_settings,
)
from posemill.machine.limits import Limit
from posemill.messages import Flags, render
from posemill.records import Clip


def config(**changes):
    return ExtractConfig(Path("source"), Path("run"), **changes)


def spans(units):
    return [(unit.clip_no, unit.start_frame, unit.stop_frame, unit.cost) for unit in units]


def test_a_tracked_clip_is_one_chain_however_long():
    clips = [Clip("a", "a", "frames", num_frames=5000), Clip("b", "b", "video")]
    units = list(plan_units(clips, config(task_frames=100)))
    assert spans(units) == [(1, 0, None, 5000), (2, 0, None, UNKNOWN_COST)]
    assert all(unit.is_chain for unit in units)
    assert [unit.is_video for unit in units] == [False, True]


def test_pictures_that_stand_alone_are_cut_into_ranges():
    def lengths(num_frames, **settings):
        clips = [Clip("a", "a", "pictures", num_frames=num_frames)]
        units = list(plan_units(clips, config(**settings)))
        assert [unit.start_frame for unit in units[1:]] == [unit.stop_frame for unit in units[:-1]]
        assert units[-1].stop_frame is None
        return [unit.cost for unit in units]

    assert lengths(20) == [8, 8, 4]
    assert lengths(8) == [8]
    assert lengths(12_800) == [100] * 128
    assert lengths(12_800, task_frames=50) == [50] * 256
    assert lengths(1_000_000)[:-1] == [512] * 1953


@pytest.mark.parametrize(("num_pictures", "most"), [(24, 16), (72, 40), (96, 48), (200, 104)])
def test_a_folder_of_few_pictures_has_work_for_two_workers(num_pictures, most):
    clips = [Clip("a", "a", "pictures", num_frames=num_pictures)]
    costs = [(no, unit.cost) for no, unit in enumerate(plan_units(clips, config()), start=1)]
    groups = group_units(costs, task_frames=512, num_workers=2)
    loads = [0, 0]
    for group in groups:  # whoever is free takes the next
        loads[loads.index(min(loads))] += sum(costs[no - 1][1] for no in group)
    assert max(loads) == most
    small = [(unit, 40) for unit in range(1, 101)]
    assert len(group_units(small, task_frames=10_000, num_workers=2)) >= 16


def test_a_video_is_cut_only_where_it_is_asked_for_and_it_can_be_opened(tmp_path, write_video):
    write_video(tmp_path / "a.mp4", 100)
    paths = (tmp_path / "a.mp4", tmp_path / "gone.mp4")
    clips = [Clip("a", str(path), "video", num_frames=100) for path in paths]
    clips.append(dataclasses.replace(clips[0], num_frames=None))  # its packets cannot be counted
    assert len(list(plan_units(clips, config(mode="image", task_frames=10)))) == 3
    cut = plan_units(clips, config(split_long_seconds=2.0, fps=10))
    assert spans(cut) == [
        *((1, start, start + 20, 20) for start in range(0, 80, 20)),
        *((1, 80, None, 20), (2, 0, None, 100), (3, 0, None, UNKNOWN_COST)),
    ]


@pytest.mark.parametrize(
    ("kind", "mode", "expected"),
    [("frames", "auto", "video"), ("video", "auto", "video"), ("pictures", "auto", "image"),
     ("pictures", "video", "video"), ("frames", "image", "image")],
)  # fmt: skip
def test_the_mode_of_a_clip(kind, mode, expected):
    assert mode_of(Clip("a", "a", kind), mode) == expected


@given(
    st.lists(st.integers(0, 5000), max_size=80), st.integers(1, 1000), st.integers(1, 64)
)  # fmt: skip
def test_groups_hold_every_unit_once_the_longest_first(costs, task_frames, num_workers):
    numbered = list(enumerate(costs, start=1))
    groups = group_units(numbered, task_frames=task_frames, num_workers=num_workers)
    assert sorted(unit for group in groups for unit in group) == [unit for unit, _ in numbered]
    sizes = [sum(costs[unit - 1] for unit in group) for group in groups]
    assert sizes == sorted(sizes, reverse=True)
    for group, size in zip(groups, sizes, strict=True):
        assert len(group) == 1 or size <= max(task_frames, 32)
        assert group == list(range(group[0], group[-1] + 1)), "neighbours stay together"


def test_settings_that_were_given_and_have_no_effect_are_named():
    config = ExtractConfig("in", "out", num_workers_per_gpu=3, split_long_seconds=5.0,
                           executor="threads", timeout_seconds=9.0)  # fmt: skip
    pictures = [Clip("a", "a", "frames", num_frames=5)]
    notes = unused_settings(config, pictures)
    assert [render(note, flags=Flags()) for note in notes] == [
        "--num-workers-per-gpu 3 has no effect: --num-gpus is 0; --workers counts workers on the "
        "CPU",
        "--timeout-seconds 9.0 has no effect: executor threads works in this process",
        "--split-long 5.0 has no effect: there are no videos",
    ]
    for executor in ("serial", "threads"):
        given = {"timeout_seconds": 9.0, "memory_limit_mb": 9000, "temp_dir": "/tmp/x"}
        if executor == "serial":
            given["decoder"] = "opencv"
        said = unused_settings(ExtractConfig("in", "out", executor=executor, **given), pictures)
        assert len(said) == len(given)
        assert f"has no effect: executor {executor} works in this process" in said[1]
    used = config.replace(executor="processes", num_gpus=1)
    assert unused_settings(used, [Clip("b", "b", "video")]) == []


GB = 1 << 30


@pytest.fixture
def machine(monkeypatch):
    """Pretend that this process may use so many cores and so much memory."""

    def pretend(cores, memory_bytes, reason=""):
        monkeypatch.setattr(plan, "count_cores", lambda: cores)
        monkeypatch.setattr(plan, "memory_limit", lambda: Limit(memory_bytes, reason))

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
    workers = plan_workers(config_for(tmp_path, executor="processes", workers=None))
    assert (workers.num_workers, workers.memory_bytes) == expected
    assert workers.describe() == said


def test_what_was_asked_for_is_not_reduced_and_gpus_count_theirs(machine, config_for, tmp_path):
    machine(2, 2 * GB)
    config = config_for(tmp_path, executor="processes", workers=7)
    assert plan_workers(config).memory_bytes == GB // 2
    workers = plan_workers(config.replace(memory_limit_mb=100))
    assert (workers.num_workers, workers.memory_bytes, workers.note) == (7, 100 << 20, "")
    gpus = plan_workers(config.replace(workers=None, num_gpus=2, num_workers_per_gpu=3))
    assert (gpus.num_workers, gpus.devices) == (6, ("cuda:0", "cuda:1"))
    for executor, number, said in (("threads", 3, "3 threads of one process"),
                                   ("serial", 1, "1 process (serial)")):  # fmt: skip
        workers = plan_workers(config_for(tmp_path, executor=executor, workers=3))
        assert (workers.num_workers, workers.memory_bytes) == (number, 0)
        assert workers.describe() == f"{said} x 1 thread on cpu"
