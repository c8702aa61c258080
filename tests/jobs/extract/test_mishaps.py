"""Extraction when files, workers, devices or disks are bad: one row each, and the run goes on."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from posemill.config import ExtractConfig
from posemill.errors import ConfigError, DeviceError, RunError, SourceError
from posemill.jobs.extract.run import extract
from posemill.jobs.extract.status import read_status
from posemill.runs.reader import open_run

SIZES = {"train/a": 21, "train/b": 5, "dev/d": 9}
RED, GREEN, BLUE = (0, 0, 255), (0, 255, 0), (255, 0, 0)  # as OpenCV has them


BAD_FILES = {
    "empty.png": (b"", "empty file"),
    "junk.jpg": (b"this is no picture at all", "not an image"),
    "cut.png": (None, "truncated"),
    "link.png": ("nowhere.png", "broken link"),
    "loop.png": ("loop.png", "broken link"),
}


def test_bad_frames_become_rows_with_reasons_and_the_run_goes_on(make_tree, config_for):
    tree = make_tree({"train/clip": 4, "train/b": 2})
    folder = tree / "train" / "clip"
    whole = (folder / "0000.png").read_bytes()
    for name, (content, _) in BAD_FILES.items():
        if isinstance(content, str):
            (folder / name).symlink_to(content)
        else:
            (folder / name).write_bytes(whole[: len(whole) // 2] if content is None else content)
    (tree / "train" / "lost").symlink_to("lost")
    (folder / "0001.png").rename(folder / os.fsdecode(b"caf\xe9 '\".png"))
    summary = extract(config_for(tree))
    assert summary.exit_code == 1
    run = open_run(summary.folder)
    *failures, lost = run.failures()
    reasons = {Path(failure.path).name: failure.reason for failure in failures}
    assert reasons == {name: reason for name, (_, reason) in BAD_FILES.items()}
    assert (lost.clip_id, lost.frame_index, lost.reason) == ("lost", None, "broken link")
    counts = summary.counts[0]
    assert (counts.frames_known, counts.frames_out, counts.frames_failed) == (11, 6, 5)
    assert {clip.clip_id: len(clip) for clip in run.clips()} == {"b": 2, "clip": 4}
    assert any(path.endswith("/caf\\xe9 '\".png") for path in run["train", "clip"].image_paths)
    assert summary.reasons[0] == ("broken link", 3, 2)
    assert {row[1:] for row in summary.reasons[1:]} == {(1, 1)}


def test_bad_videos_lose_what_cannot_be_read_and_nothing_else(config_for, tmp_path, write_video):
    videos = tmp_path / "videos"
    write_video(videos / "good.mp4", 20)
    write_video(videos / "cut.avi", 300, size=(64, 48))
    data = (videos / "cut.avi").read_bytes()
    (videos / "cut.avi").write_bytes(data[: len(data) // 2])
    (videos / "empty.mp4").write_bytes(b"")
    (videos / "junk.mkv").write_bytes(b"junk" * 1000)
    summary = extract(config_for(videos))
    run = open_run(summary.folder)
    assert {each.clip_id.split(".")[0]: each.reason for each in run.failures()}.keys() >= {
        "empty", "junk"}  # fmt: skip
    lengths = {clip.clip_id.split(".")[0]: len(clip) for clip in run.clips()}
    assert lengths["good"] == 20
    assert 50 < lengths["cut"] < 300
    counts = summary.counts[0]
    assert counts.frames_known == counts.frames_out + counts.frames_failed
    assert counts.clips_done == counts.num_clips == 4
    assert counts.clips_failed == 2
    assert run.counts[0] == counts
    (videos / "junk.mkv").unlink()
    write_video(videos / "junk.mkv", 5)
    again = extract(config_for(videos, retry_failed=True))
    assert (again.counts[0].clips_failed, again.counts[0].clips_done) == (1, 4)


def test_a_video_cut_off_in_image_mode_loses_the_same_with_any_batch(
    config_for, same_runs, tmp_path, write_video
):
    write_video(tmp_path / "videos" / "cut.avi", 300, size=(64, 48))
    data = (tmp_path / "videos" / "cut.avi").read_bytes()
    (tmp_path / "videos" / "cut.avi").write_bytes(data[: len(data) // 2])
    extract(config_for(tmp_path / "videos", "single", mode="image"))
    extract(config_for(tmp_path / "videos", "batched", mode="image", batch_size=7))
    same_runs(tmp_path / "batched", tmp_path / "single")


def test_a_folder_that_cannot_be_made_is_said(make_tree, config_for, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError, match=r"cannot write to .*file/run: .*Not a directory"):
        extract(config_for(make_tree(SIZES), "file/run"))


CRASHES = {
    3: ("ff0000", RED, "segfault", "killed by SIGSEGV, 2 times, at this frame alone"),
    13: ("0000ff", BLUE, "explode", "MB of memory, the limit is 500 MB, 2 times, at"),
}
HANGS = {8: ("00ff00", GREEN, "hang", "no progress for 4 s, 2 times, at this frame alone")}


@pytest.mark.parametrize(
    ("mishaps", "limits"), [(CRASHES, {"memory_limit_mb": 400}), (HANGS, {"timeout_seconds": 4.0})]
)
def test_frames_that_take_workers_down_are_found_and_nothing_else_is_lost(
    mishaps, limits, make_tree, config_for, tmp_path, paint
):
    tree = make_tree(SIZES)
    for index, (_, colour, _, _) in mishaps.items():
        paint(tree / "train" / "a" / f"{index:04d}.png", colour)
    options = {"mishaps": {colour: kind for colour, _, kind, _ in mishaps.values()}}
    config = config_for(tree, executor="processes", engine_options=options, max_tries=2, **limits)
    summary = extract(config)
    failures = open_run(summary.folder).failures()
    assert [(each.clip_id, each.frame_index) for each in failures] == [("a", n) for n in mishaps]
    for failure, (_, _, _, words) in zip(failures, mishaps.values(), strict=True):
        assert failure.reason == "crashed the worker"
        assert words in failure.message
    assert (summary.exit_code, summary.num_frames) == (1, 35 - len(mishaps))
    # The others are as if these frames had been no pictures.
    for index in mishaps:
        (tree / "train" / "a" / f"{index:04d}.png").write_bytes(b"x")
    extract(config_for(tree, "unbroken"))
    for one, other in zip(
        open_run(summary.folder).clips(), open_run(tmp_path / "unbroken").clips(), strict=True
    ):
        np.testing.assert_array_equal(one.points, other.points)


def test_a_worker_that_leaks_makes_room_for_a_new_one(make_tree, config_for, tmp_path, paint):
    tree = make_tree({"a": 40})
    for index in range(8, 40, 8):
        paint(tree / "a" / f"{index:04d}.png", BLUE)
    options = {"mishaps": {"0000ff": "leak"}}
    summary = extract(
        config_for(tree, executor="processes", engine_options=options, memory_limit_mb=350)
    )
    assert summary.exit_code == 0
    assert "what is left of it goes on" in (tmp_path / "run/logs/coordinator.log").read_text()
    assert next(open_run(summary.folder).clips()).frame_indices.tolist() == list(range(40))


def test_what_no_worker_can_do_ends_the_run_with_its_reason(make_tree, config_for, tmp_path):
    tree = make_tree(SIZES)
    with pytest.raises(ConfigError, match=r"the engine alone needs \d+ MB, allowed are 1 MB"):
        extract(config_for(tree, memory_limit_mb=1))
    with pytest.raises(ConfigError, match="unknown engine 'x'"):
        extract(config_for(tree, "other", engine="x"))
    with pytest.raises((ConfigError, DeviceError), match=r"cuda:0|no NVIDIA GPU"):
        extract(ExtractConfig(tree, tmp_path / "gpu", engine="fake", num_gpus=1))
    with pytest.raises(ConfigError, match="unknown decoder 'vhs'; known: pyav"):
        extract(config_for(tree, decoder="vhs"))
    (tmp_path / "nothing").mkdir()
    with pytest.raises(SourceError, match="no clips in"):
        extract(config_for(tmp_path / "nothing", "third"))
    assert not (tmp_path / "third").exists()


LIMITED = """
import resource, sys
from pathlib import Path
from posemill.config import ExtractConfig
from posemill.jobs.extract.run import extract
limit = int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
extract(ExtractConfig(Path(sys.argv[1]), Path(sys.argv[2]), engine="fake", executor="serial",
                      task_frames=200))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of processes are of Unix")
def test_no_room_for_a_file_stops_with_a_message_and_continues_later(
    make_tree, config_for, same_runs, tmp_path
):
    tree = make_tree({"a": 30, "b": 130, "c": 12})
    said = {"10": "nothing was begun yet", "70000": "everything committed so far is safe"}
    for limit, saved in said.items():
        result = subprocess.run(
            [sys.executable, "-c", LIMITED, str(tree), str(tmp_path / "run"), limit],
            capture_output=True, text=True,
        )  # fmt: skip
        assert result.returncode == 1
        assert "RunError: no room left to write to" in result.stderr
        assert f"{saved}: make room and run the same command again" in result.stderr
    assert not list((tmp_path / "run" / "shards").glob(".*"))
    extract(config_for(tree, task_frames=200))
    extract(config_for(tree, "whole", task_frames=200))
    same_runs(tmp_path / "run", tmp_path / "whole")


def test_a_full_disk_stops_with_a_message_and_continues_later(make_tree, tmp_path, same_runs):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = shutil.which("mount") and os.geteuid() == 0 and not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True
    ).returncode  # fmt: skip
    if not mounted:
        pytest.skip("mounting a small disk needs root")
    try:
        tree = make_tree({"a": 300, "b": 20})
        ballast = disk / "ballast"
        ballast.write_bytes(b"x" * 600_000)
        config = ExtractConfig(tree, disk / "run", engine="fake", executor="serial", task_frames=64)
        # The shard or the ledger, whichever comes first to the end of the disk.
        full = r"no room left to write to .*(No space left|disk is full)"
        with pytest.raises(RunError, match=full):
            extract(config)
        with pytest.raises(RunError, match="no room left to write to"):
            extract(config)
        assert not read_status(disk / "run").reasons
        ballast.unlink()
        subprocess.run(["mount", "-o", "remount,size=40m", str(disk)], check=True)
        assert extract(config).exit_code == 0
        extract(ExtractConfig(tree, tmp_path / "whole", engine="fake", executor="serial"))
        same_runs(disk / "run", tmp_path / "whole")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_damaged_or_lost_ledger_is_one_sentence_that_promises_nothing(make_tree, config_for):
    config = config_for(make_tree(SIZES))
    path = extract(config).folder / "ledger.sqlite"
    data, shards = path.read_bytes(), sorted((config.out / "shards").iterdir())
    with closing(sqlite3.connect(path)) as database:
        for table in ("clips", "pieces"):
            database.execute(f"DROP TABLE {table}")
    with pytest.raises(RunError, match=r"ledger\.sqlite is damaged: no such table") as caught:
        extract(config)
    assert "safe" not in str(caught.value)
    path.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    with pytest.raises(RunError, match=r"ledger\.sqlite is damaged") as caught:
        extract(config)
    assert "safe" not in str(caught.value)
    path.unlink()
    with pytest.raises(RunError, match=r"shards and no ledger\.sqlite.*nothing was touched"):
        extract(config)
    assert sorted((config.out / "shards").iterdir()) == shards
    assert not path.exists()


@pytest.mark.parametrize(
    ("mishap", "reason"), [("error", "unexpected ArithmeticError"), ("stick", "crashed the worker")]
)
def test_a_frame_that_the_engine_fails_at_or_breaks_of_is_the_only_one_lost(
    make_tree, config_for, paint, mishap, reason
):
    tree = make_tree(SIZES)
    paint(tree / "train" / "a" / "0007.png", RED)
    summary = extract(config_for(tree, engine_options={"mishaps": {"ff0000": mishap}}))
    counts = {each.split: (each.frames_out, each.frames_failed) for each in summary.counts}
    assert counts == {"train": (25, 1), "dev": (9, 0)}
    (failure,) = open_run(summary.folder).failures()
    assert (failure.clip_id, failure.frame_index, failure.reason) == ("a", 7, reason)
    assert "ArithmeticError: the fake engine was told to fail" in failure.message


def test_an_engine_that_never_works_ends_the_run_and_writes_no_frame_off(
    make_tree, config_for, monkeypatch, tmp_path
):
    def fail(*_):
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr("posemill.estimators.fake.FakeEstimator.estimate", fail)
    with pytest.raises(RunError, match="out of memory"):
        extract(config_for(make_tree(SIZES)))
    assert read_status(tmp_path / "run").frames_done == 0


@pytest.mark.parametrize(
    "change",
    ["pieces SET row_offset = -5", "pieces SET row_offset = 'abc'", "pieces SET num_rows = 'abc'",
     "splits SET frames_out = 'abc'", "units SET next_frame = 'abc', is_done = 0"],
)  # fmt: skip
def test_a_ledger_that_says_what_no_run_can_is_called_damaged(make_tree, config_for, change):
    config = config_for(make_tree({"train/a": 3}))
    extract(config)
    with closing(sqlite3.connect(config.out / "ledger.sqlite")) as ledger, ledger:
        ledger.execute(f"UPDATE {change}")
        ledger.execute("DELETE FROM meta WHERE key = 'finished_at'")
    read = (lambda: list(open_run(config.out))) if "pieces" in change else (lambda: extract(config))
    with pytest.raises(RunError, match="ledger is damaged"):
        read()


def test_another_reason_for_every_frame_is_counted_as_others(make_tree, config_for):
    config = config_for(make_tree({"train/a": 3}))
    extract(config)
    with closing(sqlite3.connect(config.out / "ledger.sqlite")) as ledger, ledger:
        ledger.executemany(
            "INSERT INTO failures (clip_no, frame_index, num_frames, path, reason, message) "
            "VALUES (1, ?, 2, 'p', ?, 'm')",
            [(number, f"reason {number:05d}") for number in range(30_000)],
        )
    reasons = read_status(config.out).reasons
    assert len(reasons) == 51
    assert reasons[0] == ("reason 00000", 1, 2)
    assert reasons[-1] == ("29,950 other reasons", 29_950, 59_900)
