"""The simulation of many workers, at a size that takes a moment."""

import argparse

import pytest

import posemill
from benchmarks import scale


@pytest.fixture
def options(tmp_path, monkeypatch):
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "cache"))  # it sets others: put back
    return argparse.Namespace(
        workers=10, frames=6000, clip_frames=115, speed=30.0, task_frames=128,
        place=(tmp_path / "run").as_uri(),
    )  # fmt: skip


def test_the_simulation_ends_with_every_frame_and_says_what_it_took(options, tmp_path):
    found = scale.measure(options, tmp_path)
    run = posemill.open_run(options.place)
    assert run.is_finished
    assert sum(each.frames_out for each in run.counts) == 6000
    assert 0 < found["coordinator_ms"].value < 50
    assert 0 < found["idle_at_the_end"].value < 50
    assert found["ledger_mb"].value > 0
    assert found["records_mb"].note.endswith("kB")
    seconds = ("begin_seconds", "resume_seconds", "rebuild_seconds", "again_seconds")
    assert all(found[name].value > 0 for name in seconds)


def test_of_64_workers_on_two_machines_half_go_away_and_the_run_ends_complete(options, tmp_path):
    assert scale.lose_a_machine(options, tmp_path).value == 0
    run = posemill.open_run((tmp_path / "bucket" / "two-machines").as_uri())
    assert run.is_finished
    assert not run.failures()
    # What was under way on the machine that went away was done again, and counts once.
    assert sum(count.frames_out for count in run.counts) == 6000
    assert len(run.clip_ids()) == len(scale.make_clips(6000, 115))


def test_long_clips_are_committed_in_pieces_and_go_on_behind_them(options, tmp_path):
    options.clip_frames = 3000
    clips = scale.make_clips(6000, 3000)
    scale.half_run(options, clips, tmp_path / "first", 3000)
    second, _ = scale.half_run(options, clips, tmp_path / "second", 10**9)
    assert second.num_frames < 6000  # what was committed was not done again
    run = posemill.open_run(options.place)
    assert sum(each.frames_out for each in run.counts) == 6000
