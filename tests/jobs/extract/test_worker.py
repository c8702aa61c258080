"""Workers: which device each one has, and what it says when it cannot have it."""

import dataclasses
import re
import struct
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pyarrow.parquet as pq
import pytest

from posemill.config import ExtractConfig
from posemill.errors import DeviceError
from posemill.estimators.fake import FakeEstimator, FakeState
from posemill.executors import Died, Progress
from posemill.jobs.extract import worker
from posemill.jobs.extract.job import Fatal, Phase, Task
from posemill.jobs.extract.plan import WorkerPlan
from posemill.jobs.extract.run import Extraction
from posemill.jobs.extract.worker import Worker
from posemill.records import Clip
from posemill.runs.queries import Unit
from posemill.sources.reading import SLOW_STEP_SECONDS

CONFIG = ExtractConfig(Path("source"), Path("run"), engine="fake", skeleton="holistic-543")


def test_workers_take_the_devices_in_turn_with_one_thread_each(monkeypatch):
    opened = []

    def refuse(name, **options):
        opened.append(options)
        raise DeviceError(f"{options['device']} is not there")

    monkeypatch.setattr("posemill.jobs.extract.keypoints.open_estimator", refuse)
    monkeypatch.setattr(ExtractConfig, "all_engine_options", lambda _: {"x": 1})
    job, plan = Extraction(CONFIG), WorkerPlan(4, "processes", ("cuda:0", "cuda:1"), 0)
    said = [next(iter(Worker(job, plan, "id", index)(Task(()), Progress()))) for index in range(4)]
    devices = ["cuda:0", "cuda:1"] * 2
    assert opened == [{"device": device, "threads": 1, "x": 1} for device in devices]
    assert said[1] == Fatal("DeviceError", "cuda:1 is not there")


@pytest.fixture
def work(make_tree, tmp_path):
    """Runs a task in this process: units of clip `a` (12 frames), all that came of it."""
    (tmp_path / "run" / "shards").mkdir(parents=True)
    tree = make_tree({"train/a": 12, "train/b": 3})
    red = np.full((12, 16, 3), (0, 0, 255), np.uint8)  # as OpenCV has it
    assert cv2.imwrite(str(tree / "train" / "a" / "0005.png"), red)

    def run(*units, mishaps=None, memory_bytes=0, progress=None, piece_frames=100, **task):
        options = {"mishaps": mishaps} if mishaps else {}
        config = CONFIG.replace(out=tmp_path / "run", engine_options=options, batch_size=4,
                                task_frames=piece_frames)  # fmt: skip
        plan = WorkerPlan(1, "processes", ("cpu",), memory_bytes)
        made = [unit(tree, number, **each) for number, each in enumerate(units, 1)]
        function = Worker(Extraction(config), plan, "id", 0)
        events = function(Task(tuple(made), "t", **task), progress or Progress())
        return [event for event in events if event is not None]

    return run


def unit(tree, number, *, name="a", stop=12, start=0, is_chain=False, length=None, **more):
    clip = Clip(name, str(tree / "train" / name), "frames", "train", length)
    more = {"next_frame": start, "state": None, **more}
    return Unit(number, number + 10, start, stop, is_chain=is_chain, clip=clip, **more)


def summary(commits):
    """Rows of the shard, and `(unit, next frame, is done, rows, frames lost)` of each unit."""
    return [
        (
            commit.shard and sum(piece.num_rows for piece in commit.shard.pieces),
            [(each.unit_no, each.next_frame, each.is_done, each.num_rows,
              [lost.frame_index for lost in each.lost]) for each in commit.units],
        )
        for commit in commits
    ]  # fmt: skip


@pytest.mark.parametrize(("piece_frames", "tries"), [(8, 0), (71, 1), (512, 2)])
def test_a_commit_comes_after_as_many_rows_and_at_the_end(work, tmp_path, piece_frames, tries):
    commits = work({}, piece_frames=piece_frames, tries=tries)
    assert summary(commits) == [(8, [(1, 8, False, 8, [])]), (4, [(1, 12, True, 4, [])])]
    names = [commit.shard.name for commit in commits]
    assert names == ["t-0000.parquet", "t-0001.parquet"]
    assert sorted(path.name for path in (tmp_path / "run" / "shards").iterdir()) == names
    assert [piece.clip_no for commit in commits for piece in commit.shard.pieces] == [11, 11]
    assert [commit.units[0].state for commit in commits] == [None, None]


def test_units_of_one_task_share_a_shard_and_keep_their_order(work):
    commits = work({"start": 2, "stop": 5}, {"name": "b", "stop": 3})
    assert summary(commits) == [(6, [(1, 5, True, 3, []), (2, 3, True, 3, [])])]
    pieces = [(each.clip_no, each.unit_no, each.first_frame, each.row_offset, each.num_rows)
              for each in commits[0].shard.pieces]  # fmt: skip
    assert pieces == [(11, 1, 2, 0, 3), (12, 2, 0, 3, 3)]


def test_tracked_units_go_side_by_side_hand_on_their_state_and_mix_with_no_others(
    work, monkeypatch
):
    commits = work({"is_chain": True}, {"name": "b", "stop": 3, "is_chain": True}, piece_frames=4)
    assert summary(commits)[:2] == [
        (4, [(1, 2, False, 2, []), (2, 2, False, 2, [])]),
        (4, [(1, 5, False, 3, []), (2, 3, True, 1, [])]),
    ]
    number = struct.unpack("<qd", commits[0].units[0].state)[0]
    assert number == 2  # frames the tracker has seen
    assert commits[-1].units[-1].state is None  # nobody goes on with it
    (again,) = work({"is_chain": True, "start": 2, "state": commits[0].units[0].state, "stop": 5})
    assert summary([again]) == [(3, [(1, 5, True, 3, [])])]
    calls, really = [], FakeEstimator.estimate

    def estimate(engine, frames, states=None):
        calls.append((len(frames), states and len(states)))
        return really(engine, frames, states)

    monkeypatch.setattr(FakeEstimator, "estimate", estimate)
    commits = work({"is_chain": True}, {"name": "b", "stop": 3}, {"name": "b", "stop": 3})
    assert calls == [(1, 1)] * 12 + [(3, None)] * 2
    assert [(each.unit_no, each.num_rows) for each in commits[0].units] == [(1, 12), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("changes", "rows", "lost"),
    [
        ({"given_up": ((3, Phase.ESTIMATING, "boom"),)}, 11, [(3, "boom")]),
        ({"given_up": ((10, -1, "dead"),)}, 10, [(10, "dead"), (11, "dead")]),
        ({"given_up": ((11, Phase.DECODING, "boom"), (11, -1, "dead"))}, 11, [(11, "boom")]),
    ],
)
def test_frames_that_took_workers_down_are_left_out_with_the_reason(work, changes, rows, lost):
    (commit,) = work(changes)
    (progress,) = commit.units
    assert sum(piece.num_rows for piece in commit.shard.pieces) == rows
    assert [(each.frame_index, each.message) for each in progress.lost] == lost
    assert {each.reason for each in progress.lost} == {"crashed the worker"}
    assert all(each.path.endswith(f"{each.frame_index:04d}.png") for each in progress.lost)


@pytest.mark.parametrize("is_chain", [False, True])
def test_a_frame_the_engine_fails_at_is_the_only_one_that_is_lost(work, is_chain):
    (commit,) = work({"is_chain": is_chain}, mishaps={"ff0000": "error"})
    assert summary([commit]) == [(11, [(1, 12, True, 11, [5])])]
    assert "the fake engine was told to fail" in commit.units[0].lost[0].message


@pytest.mark.parametrize("is_chain", [False, True])
def test_an_engine_that_fails_where_it_did_not_before_is_replaced_and_no_frame_is_lost(
    work, is_chain
):
    progress = Progress()
    stuck = {"ff0000": "stick"}  # at frame 5
    *commits, broken = work(
        {"is_chain": is_chain}, mishaps=stuck, piece_frames=4, progress=progress
    )
    assert summary(commits) == [(4, [(1, 4, False, 4, [])])]
    assert (broken.worker_index, broken.place) == (
        0,
        (0, 5 if is_chain else 4, Phase.ESTIMATING, 0),
    )
    assert "where it had not: ArithmeticError: the fake engine was told to fail" in broken.reason
    assert progress.wants_recycling


def test_an_engine_that_never_worked_blames_no_frame(work, monkeypatch):
    def fail(*_):
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(FakeEstimator, "estimate", fail)
    for tries in (0, 1):
        (broken,) = work({}, tries=tries)
        assert isinstance(broken, Died)
        assert broken.place == (-1, -1, Phase.STARTING, 0)


@pytest.fixture
def forgetful(monkeypatch):
    """The fake engine as one that cannot write its states."""
    info = dataclasses.replace(FakeEstimator.info, saves_states=False)
    monkeypatch.setattr(FakeEstimator, "info", info)
    monkeypatch.setattr(FakeState, "to_bytes", lambda state: b"")
    monkeypatch.setattr(FakeState, "copy", lambda state: pytest.fail("it cannot be copied"))


def test_a_clip_whose_state_cannot_be_saved_goes_on_as_if_nothing_had_been(
    work, forgetful, tmp_path
):
    shards = tmp_path / "run" / "shards"
    mishaps = {"ff0000": "error"}  # at frame 5
    whole = work({"is_chain": True}, {"name": "b", "stop": 3, "is_chain": True}, mishaps=mishaps)
    assert summary(whole) == [(14, [(1, 12, True, 11, [5]), (2, 3, True, 3, [])])]
    expected = pq.read_table(shards / "t-0000.parquet").to_pylist()[6:11]
    commits = work({"is_chain": True}, mishaps=mishaps, piece_frames=4)
    assert summary(commits)[0] == (4, [(1, 4, False, 4, [])])
    assert [commit.units[0].state for commit in commits] == [b"", b"", None]
    # Frames 0 to 6 are read again, and frame 5 is not lost a second time.
    (again,) = work({"is_chain": True, "next_frame": 7, "state": b""}, mishaps=mishaps)
    assert summary([again]) == [(5, [(1, 12, True, 5, [])])]
    assert pq.read_table(shards / "t-0000.parquet").to_pylist() == expected


def test_what_ends_on_the_way_back_to_where_it_was_does_not_lose_the_place(work, forgetful):
    progress, back = Progress(), {"is_chain": True, "next_frame": 7, "state": b""}
    progress.is_stopping = True
    (commit,) = work(back, progress=progress)
    assert summary([commit]) == [(None, [(1, 7, False, 0, [])])]
    (commit,) = work({**back, "name": "x", "length": 12})  # its folder is gone
    (unit,) = commit.units
    assert (unit.next_frame, unit.is_done, unit.num_rows) == (12, True, 0)
    assert [(lost.frame_index, lost.num_frames) for lost in unit.lost] == [(None, 5)]


def test_a_tracker_that_failed_begins_anew_and_the_others_go_on(work):
    mishaps = {"ff0000": "error"}
    commits = work({"is_chain": True, "stop": 8}, mishaps=mishaps, piece_frames=7)
    assert summary(commits)[0][1][0][:2] == (1, 8)
    stopped = work({"is_chain": True, "start": 4, "stop": 12}, mishaps=mishaps, piece_frames=3)
    number = struct.unpack("<qd", stopped[0].units[0].state)[0]
    assert (stopped[0].units[0].next_frame, number) == (8, 2)  # 6 and 7, behind the bad frame


@pytest.mark.parametrize(
    ("suspect", "commits"),
    [
        (5, [(5, [(1, 5, False, 5, [])]), (1, [(1, 6, False, 1, [])])]),
        (0, [(1, [(1, 1, False, 1, [])])]),
        (11, [(11, [(1, 11, False, 11, [])]), (1, [(1, 12, False, 1, [])])]),
    ],
)
def test_the_frame_a_crash_was_at_is_tried_by_itself_and_then_the_task_ends(work, suspect, commits):
    assert summary(work({}, suspect_frame=suspect)) == commits


def test_a_careful_worker_says_where_it_is_for_every_frame(work):
    places = []

    class Noted(Progress):
        def at(self, *place, seconds=0):
            places.append((place, seconds))
            super().at(*place, seconds=seconds)

    for tries, seen in ((1, [(0, 0, 2, 0), (0, 1, 2, 1), (0, 2, 2, 2)]),
                        (0, [(0, 0, 2, 0)])):  # fmt: skip
        places.clear()
        work({"stop": 3}, tries=tries, progress=Noted())
        assert [place for place, _ in places if place[2] == Phase.ESTIMATING] == seen
        assert places[0] == ((-1, -1, Phase.STARTING, 0), SLOW_STEP_SECONDS)
        assert places[-2:] == [
            ((-1, -1, Phase.WRITING, 3), SLOW_STEP_SECONDS),
            ((-1, -1, Phase.WRITING, 0), 0),
        ]


def test_a_worker_that_should_stop_or_has_grown_saves_what_it_has(work, monkeypatch):
    progress = Progress()
    progress.is_stopping = True
    assert summary(work({}, progress=progress)) == [(4, [(1, 4, False, 4, [])])]
    sizes = iter([100, 101, 102, 102])
    process = SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=next(sizes)))
    monkeypatch.setattr(worker.psutil, "Process", lambda: process)
    progress = Progress()
    commits = work({}, memory_bytes=101, progress=progress)
    assert summary(commits) == [(8, [(1, 8, False, 8, [])])]
    assert progress.wants_recycling


def test_too_little_memory_and_a_disk_that_cannot_be_written_end_the_work(work, tmp_path):
    (fatal,) = work({}, memory_bytes=1 << 20)
    assert fatal.kind == "ConfigError"
    assert re.fullmatch(r"memory limit: the engine alone needs \d{2,4} MB, allowed are 1 MB; give "
                        r"more with memory_limit_mb", fatal.message)  # fmt: skip
    (tmp_path / "run" / "shards").rmdir()
    (tmp_path / "run" / "shards").write_text("")
    (fatal,) = work({})
    assert fatal.kind == "RunError"
    assert str(tmp_path / "run" / "shards") in fatal.message


def test_a_unit_without_any_frame_left_is_done_without_a_shard(work):
    assert summary(work({"start": 3, "stop": 3})) == [(None, [(1, 3, True, 0, [])])]
    given_up = tuple((frame, Phase.ESTIMATING, "x") for frame in range(3))
    assert summary(work({"given_up": given_up, "name": "b", "stop": 3})) == [
        (None, [(1, 3, True, 0, [0, 1, 2])])
    ]


def test_a_unit_whose_state_cannot_be_loaded_is_lost_with_its_reason(work):
    broken = {"is_chain": True, "next_frame": 4, "state": b"of another engine", "length": 12}
    (commit,) = work(broken, {"name": "b", "is_chain": True, "stop": 3})
    first, second = commit.units
    assert [(lost.num_frames, lost.reason) for lost in first.lost] == [(8, "unexpected error")]
    assert (first.next_frame, first.is_done, first.num_rows) == (12, True, 0)
    assert (second.is_done, second.num_rows, second.lost) == (True, 3, ())
