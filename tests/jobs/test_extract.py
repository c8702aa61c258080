"""`extract` from end to end with the fake engine: what comes out, what goes wrong, what then."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from posemill.config import ExtractConfig
from posemill.errors import ConfigError, DeviceError, RunError, SourceError
from posemill.estimators.fake import FakeEstimator
from posemill.jobs.run import extract
from posemill.jobs.status import read_status
from posemill.jobs.workers import plan_workers
from posemill.stores.reader import open_run

SIZES = {"train/a": 21, "train/b": 5, "dev/d": 9}
RED, GREEN, BLUE = (0, 0, 255), (0, 255, 0), (255, 0, 0)


def write_video(path, num_frames, *, size=(32, 24), seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        for _ in range(num_frames):
            pixels = np.full((size[1], size[0], 3), rng.integers(20, 250, 3), np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, "rgb24")))
        container.mux(stream.encode())


def paint(path, colour):
    assert cv2.imwrite(str(path), np.full((12, 16, 3), colour, np.uint8))


def test_keypoints_are_those_of_the_engine_frame_by_frame(make_tree, config_for):
    tree = make_tree(SIZES)
    summary = extract(config_for(tree))
    assert summary.exit_code == 0
    run = open_run(summary.folder)
    assert run.splits == ("train", "dev")
    assert [clip.clip_id for clip in run.clips()] == ["a", "b", "d"]
    engine = FakeEstimator()
    for clip in run.clips():
        state = engine.new_state()
        assert clip.frame_indices.tolist() == list(range(len(clip)))
        for row, path in enumerate(clip.image_paths):
            expected = engine.estimate([cv2.imread(path)[..., ::-1]], [state])
            np.testing.assert_array_equal(clip.points[row], expected.points[0])
            assert clip.sizes_wh[row].tolist() == [16, 12]


def test_every_executor_gives_the_same(make_tree, config_for, same_runs, tmp_path):
    tree = make_tree(SIZES)
    extract(config_for(tree, "serial"))
    for name in ("threads", "processes"):
        extract(config_for(tree, name, executor=name))
        same_runs(tmp_path / name, tmp_path / "serial")


def test_pieces_of_a_long_clip_carry_the_state_over(make_tree, config_for, same_runs, tmp_path):
    tree = make_tree({"long": 50})
    extract(config_for(tree, "pieces", task_frames=7))
    extract(config_for(tree, "whole", task_frames=500))
    assert len(list((tmp_path / "pieces" / "shards").iterdir())) == 8
    same_runs(tmp_path / "pieces", tmp_path / "whole")


def test_short_clips_share_a_shard(make_tree, config_for, tmp_path):
    tree = make_tree({f"clip{number:02d}": 3 for number in range(20)})
    extract(config_for(tree, task_frames=500))
    assert len(list((tmp_path / "run" / "shards").iterdir())) == 2  # of 32 and 28 frames


def test_modes_decide_what_frames_know_of_each_other(make_tree, config_for, tmp_path):
    tree = make_tree({"clip": 6})
    loose = tmp_path / "pictures"
    shutil.copytree(tree / "clip", loose)
    points = {}
    for name, source, mode in [("tracked", tree, "auto"), ("alone", tree, "image"),
                               ("loose", loose, "auto"), ("forced", loose, "video")]:  # fmt: skip
        extract(config_for(source, name, mode=mode))
        points[name] = open_run(tmp_path / name).to_numpy()["points"]
    np.testing.assert_array_equal(points["alone"], points["loose"])
    np.testing.assert_array_equal(points["tracked"], points["forced"])
    assert not np.array_equal(points["tracked"], points["alone"])


def test_loose_pictures_are_divided_among_tasks(make_tree, config_for, tmp_path):
    tree = make_tree({".": 70})
    extract(config_for(tree, executor="threads", task_frames=20, batch_size=4))
    clip = next(open_run(tmp_path / "run").clips())
    assert clip.frame_indices.tolist() == list(range(70))
    assert len(list((tmp_path / "run" / "shards").iterdir())) == 4


def test_keep_143_stores_the_smaller_skeleton(make_tree, config_for, tmp_path):
    tree = make_tree(SIZES)
    extract(config_for(tree, "full"))
    extract(config_for(tree, "small", keep=143))
    small = open_run(tmp_path / "small")
    assert small.skeleton_name == "holistic-143"
    for one, other in zip(small.clips(), open_run(tmp_path / "full").clips(), strict=True):
        np.testing.assert_array_equal(one.points, other.as_skeleton("holistic-143").points)


def test_videos_windows_and_labels_of_a_list(config_for, tmp_path):
    write_video(tmp_path / "a.mp4", 50)
    (tmp_path / "list.csv").write_text(
        "path,split,start_seconds,end_seconds,label,speaker\n"
        "a.mp4,train,0.4,1.2,HELLO,Ann\na.mp4,test,,,BYE,Bob\n"
    )
    summary = extract(config_for(tmp_path / "list.csv"))
    assert summary.exit_code == 0
    clips = {clip.split: clip for clip in open_run(summary.folder).clips()}
    assert (len(clips["train"]), len(clips["test"])) == (20, 50)
    assert (clips["train"].label, clips["train"].fps) == ("HELLO", 25.0)
    assert clips["test"].extra["speaker"] == "Bob"
    assert clips["test"].image_paths == ()


def test_a_long_video_in_pieces_equals_the_uncut_one(config_for, same_runs, tmp_path):
    write_video(tmp_path / "videos" / "a.mp4", 90)
    extract(config_for(tmp_path / "videos", "pieces", task_frames=16))
    extract(config_for(tmp_path / "videos", "whole", task_frames=500))
    same_runs(tmp_path / "pieces", tmp_path / "whole")


def test_split_long_cuts_into_independent_pieces_and_is_recorded(config_for, tmp_path):
    write_video(tmp_path / "videos" / "a.mp4", 60)
    extract(config_for(tmp_path / "videos", "whole"))
    extract(config_for(tmp_path / "videos", "cut", split_long_seconds=1.0, executor="threads"))
    run, whole = open_run(tmp_path / "cut"), next(open_run(tmp_path / "whole").clips())
    clip = next(run.clips())
    assert run.manifest.options["split_long_seconds"] == 1.0
    assert clip.frame_indices.tolist() == list(range(60))
    np.testing.assert_array_equal(clip.points[:25], whole.points[:25])
    assert not np.array_equal(clip.points[25:], whole.points[25:])


BAD_FILES = {
    "empty.png": (b"", "empty file"),
    "junk.jpg": (b"this is no picture at all", "not an image"),
    "cut.png": (None, "truncated"),
    "link.png": ("link", "broken link"),
}


def test_bad_frames_become_rows_with_reasons_and_the_run_goes_on(make_tree, config_for, tmp_path):
    tree = make_tree({"clip": 4})
    whole = (tree / "clip" / "0000.png").read_bytes()
    for name, (content, _) in BAD_FILES.items():
        path = tree / "clip" / name
        if content == "link":
            path.symlink_to(tree / "nowhere.png")
        else:
            path.write_bytes(whole[: len(whole) // 2] if content is None else content)
    (tree / "clip" / "0001.png").rename(tree / "clip" / os.fsdecode(b"caf\xe9 '\".png"))
    summary = extract(config_for(tree))
    assert summary.exit_code == 1
    run = open_run(summary.folder)
    reasons = {Path(each.path).name: each.reason for each in run.failures()}
    expected = {name: reason for name, (_, reason) in BAD_FILES.items()}
    assert reasons == expected
    counts = summary.counts[0]
    assert (counts.frames_known, counts.frames_out, counts.frames_failed) == (8, 4, 4)
    assert any(path.endswith("/caf\\xe9 '\".png") for path in next(run.clips()).image_paths)
    assert {reason: count for reason, count, _ in summary.reasons} == dict.fromkeys(
        expected.values(), 1
    )


def test_bad_videos_lose_what_cannot_be_read_and_nothing_else(config_for, tmp_path):
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


def test_an_error_of_the_engine_costs_one_frame(make_tree, config_for, tmp_path):
    tree = make_tree(SIZES)
    paint(tree / "train" / "a" / "0003.png", RED)
    summary = extract(config_for(tree, engine_options={"mishaps": {"ff0000": "error"}}))
    (failure,) = open_run(summary.folder).failures()
    assert (failure.clip_id, failure.frame_index) == ("a", 3)
    assert failure.reason == "unexpected ArithmeticError"
    assert failure.message == "ArithmeticError: the fake engine was told to fail"
    assert summary.counts[0].frames_out == 25


@pytest.mark.parametrize("mode", ["video", "image"])
def test_batches_change_nothing(mode, make_tree, config_for, same_runs, tmp_path):
    tree = make_tree({"a": 21, "b": 5, "c": 9, "d": 1, "e": 30})
    paint(tree / "b" / "0002.png", RED)
    (tree / "c" / "0001.png").write_bytes(b"x")
    options = {"mishaps": {"ff0000": "error"}}
    extract(config_for(tree, "single", mode=mode, engine_options=options))
    extract(config_for(tree, "batched", mode=mode, engine_options=options, batch_size=4))
    same_runs(tmp_path / "batched", tmp_path / "single")


def test_a_video_cut_off_in_image_mode_loses_the_same_with_any_batch(
    config_for, same_runs, tmp_path
):
    write_video(tmp_path / "videos" / "cut.avi", 300, size=(64, 48))
    data = (tmp_path / "videos" / "cut.avi").read_bytes()
    (tmp_path / "videos" / "cut.avi").write_bytes(data[: len(data) // 2])
    extract(config_for(tmp_path / "videos", "single", mode="image"))
    extract(config_for(tmp_path / "videos", "batched", mode="image", batch_size=7))
    same_runs(tmp_path / "batched", tmp_path / "single")


def test_odd_pictures_are_read_and_bombs_are_not(make_tree, config_for, tmp_path):
    tree = make_tree({"clip": 1})
    noise = np.random.default_rng(0).integers(0, 255, (12, 16), dtype=np.uint8)
    assert cv2.imwrite(str(tree / "clip" / "1 grey 'x\".png"), noise)
    assert cv2.imwrite(str(tree / "clip" / "2 deep.png"), noise.astype(np.uint16) * 257)
    header = b"IHDR" + (60_000).to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    bomb = b"\x89PNG\r\n\x1a\n" + (13).to_bytes(4, "big") + header
    bomb += zlib.crc32(header).to_bytes(4, "big") + b"\0" * 40
    (tree / "clip" / "3 bomb.png").write_bytes(bomb)
    summary = extract(config_for(tree))
    assert [reason for reason, _, _ in summary.reasons] == ["too large"]
    assert next(open_run(summary.folder).clips()).frame_indices.tolist() == [0, 1, 2]


def test_a_folder_that_cannot_be_made_is_said(make_tree, config_for, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError, match=r"cannot write to .*file/run: .*Not a directory"):
        extract(config_for(make_tree(SIZES), "file/run"))


def test_retry_failed_tries_only_what_failed(make_tree, config_for, same_runs, tmp_path):
    tree = make_tree({"clip": 30, "other": 10})
    extract(config_for(tree, "unbroken", mode="image"))
    good = (tree / "clip" / "0007.png").read_bytes()
    (tree / "clip" / "0007.png").write_bytes(b"x")
    config = config_for(tree, mode="image")
    assert extract(config).exit_code == 1
    before = {path.name for path in (tmp_path / "run" / "shards").iterdir()}
    (tree / "clip" / "0007.png").write_bytes(good)
    assert extract(config).exit_code == 1  # failed frames stay failed …
    again = config_for(tree, mode="image", retry_failed=True)
    assert extract(again).exit_code == 0  # … until asked for
    after = {path.name for path in (tmp_path / "run" / "shards").iterdir()}
    assert before < after
    assert len(after - before) == 1
    same_runs(tmp_path / "run", tmp_path / "unbroken")
    assert extract(again).exit_code == 0


def test_retry_failed_redoes_a_tracked_clip_and_only_it(make_tree, config_for, same_runs, tmp_path):
    tree = make_tree({"clip": 30, "other": 10})
    extract(config_for(tree, "unbroken"))
    good = (tree / "clip" / "0007.png").read_bytes()
    (tree / "clip" / "0007.png").write_bytes(b"x")
    extract(config_for(tree))
    (tree / "clip" / "0007.png").write_bytes(good)
    assert extract(config_for(tree, retry_failed=True)).exit_code == 0
    same_runs(tmp_path / "run", tmp_path / "unbroken")


def test_retry_failed_takes_a_video_that_was_replaced(config_for, same_runs, tmp_path):
    videos = tmp_path / "videos"
    write_video(videos / "a.mp4", 20)
    write_video(videos / "b.mp4", 30)
    extract(config_for(videos, "unbroken"))
    good = (videos / "b.mp4").read_bytes()
    (videos / "b.mp4").write_bytes(b"junk")
    assert extract(config_for(videos)).exit_code == 1
    (videos / "b.mp4").write_bytes(good)
    with pytest.raises(RunError, match=r"the source is not the one .*\n  all/b\S* is not the same"):
        extract(config_for(videos))
    assert extract(config_for(videos, retry_failed=True)).exit_code == 0
    same_runs(tmp_path / "run", tmp_path / "unbroken")
    write_video(videos / "a.mp4", 21, seed=9)
    with pytest.raises(RunError, match="put it back as it was, or use another folder"):
        extract(config_for(videos, retry_failed=True))


@pytest.mark.parametrize(
    ("mishap", "limits", "said"),
    [
        ("segfault", {}, "killed by SIGSEGV, 3 times, at this frame"),
        ("hang", {"timeout_seconds": 1.0}, "no progress for 1 s, 3 times, at this frame"),
        ("explode", {"memory_limit_mb": 400}, "MB of memory, allowed are 500 MB, 3 times, at"),
    ],
)
def test_a_frame_that_takes_workers_down_is_found_and_nothing_else_is_lost(
    mishap, limits, said, make_tree, config_for, same_runs, tmp_path
):
    tree = make_tree(SIZES)
    paint(tree / "train" / "a" / "0013.png", RED)
    options = {"mishaps": {"ff0000": mishap}}
    summary = extract(config_for(tree, executor="processes", engine_options=options, **limits))
    (failure,) = open_run(summary.folder).failures()
    assert (failure.clip_id, failure.frame_index) == ("a", 13)
    assert failure.reason == "crashed the worker"
    assert said in failure.message
    assert summary.exit_code == 1
    assert sum(each.frames_out for each in summary.counts) == 34
    # The others are as if the frame had been no picture.
    (tree / "train" / "a" / "0013.png").write_bytes(b"x")
    extract(config_for(tree, "unbroken"))
    for one, other in zip(
        open_run(summary.folder).clips(), open_run(tmp_path / "unbroken").clips(), strict=True
    ):
        np.testing.assert_array_equal(one.points, other.points)


def test_a_worker_that_leaks_makes_room_for_a_new_one(make_tree, config_for, tmp_path):
    tree = make_tree({"a": 64})
    for index in range(8, 64, 8):
        paint(tree / "a" / f"{index:04d}.png", BLUE)
    options = {"mishaps": {"0000ff": "leak"}}
    summary = extract(
        config_for(tree, executor="processes", engine_options=options, memory_limit_mb=350)
    )
    assert summary.exit_code == 0
    assert "goes on in a new worker" in (tmp_path / "run/logs/coordinator.log").read_text()
    assert next(open_run(summary.folder).clips()).frame_indices.tolist() == list(range(64))


def test_what_no_worker_can_do_ends_the_run_with_its_reason(make_tree, config_for, tmp_path):
    tree = make_tree(SIZES)
    with pytest.raises(ConfigError, match=r"the engine alone needs \d+ MB, allowed are 1 MB"):
        extract(config_for(tree, memory_limit_mb=1))
    with pytest.raises(ConfigError, match="unknown engine 'x'"):
        extract(config_for(tree, "other", engine="x"))
    with pytest.raises((ConfigError, DeviceError), match="cuda:0"):
        extract(ExtractConfig(tree, tmp_path / "gpu", engine="fake", num_gpus=1))
    with pytest.raises(ConfigError, match="unknown decoder 'vhs'; known: pyav"):
        extract(config_for(tree, decoder="vhs"))
    (tmp_path / "nothing").mkdir()
    with pytest.raises(SourceError, match="no clips in"):
        extract(config_for(tmp_path / "nothing", "third"))
    assert not (tmp_path / "third").exists()


def test_a_run_continued_with_other_options_is_refused_with_what_differs(make_tree, config_for):
    tree = make_tree(SIZES)
    extract(config_for(tree))
    with pytest.raises(RunError) as caught:
        extract(config_for(tree, mode="image", keep=143))
    assert "was begun with other options" in str(caught.value)
    assert "mode: the run has 'auto', now it is 'image'" in str(caught.value)
    assert "keep: the run has 543, now it is 143" in str(caught.value)
    assert extract(config_for(tree, task_frames=5, executor="threads")).exit_code == 0


def test_a_changed_source_is_refused_with_what_differs(make_tree, config_for):
    tree = make_tree(SIZES)
    extract(config_for(tree))
    shutil.copytree(tree / "dev" / "d", tree / "dev" / "new")
    shutil.rmtree(tree / "train" / "b")
    with pytest.raises(RunError, match="the source is not the one") as caught:
        extract(config_for(tree))
    assert "dev/new is new" in str(caught.value)
    assert "train/b is gone" in str(caught.value)
    shutil.rmtree(tree)
    make_tree(SIZES)
    (tree / "dev" / "d" / "0000.png").rename(tree / "dev" / "d" / "000.png")
    with pytest.raises(RunError, match="frames were renamed, added or removed inside of clips"):
        extract(config_for(tree))


def test_a_moved_dataset_continues(make_tree, config_for, tmp_path):
    tree = make_tree(SIZES)
    extract(config_for(tree))
    tree.rename(tmp_path / "moved")
    assert extract(config_for(tmp_path / "moved")).exit_code == 0


def test_a_folder_with_something_else_is_refused_and_kept(make_tree, config_for, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("four years")
    with pytest.raises(RunError, match="is not empty and not a posemill run"):
        extract(config_for(make_tree(SIZES)))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.tex"]


def test_a_second_coordinator_is_refused_with_the_pid_of_the_first(make_tree, config_for, tmp_path):
    tree = make_tree(SIZES)
    errors = []

    def second(snapshot):
        if not errors:
            try:
                extract(config_for(tree))
            except RunError as error:
                errors.append(str(error))

    extract(config_for(tree), on_progress=second)
    assert f"is being worked on by pid {os.getpid()} on" in errors[0]
    assert f"posemill stop {tmp_path / 'run'}" in errors[0]


LIMITED = """
import resource, sys
from pathlib import Path
from posemill.config import ExtractConfig
from posemill.jobs.run import extract
limit = int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
extract(ExtractConfig(Path(sys.argv[1]), Path(sys.argv[2]), engine="fake", executor="serial",
                      task_frames=200))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of processes are of Unix")
@pytest.mark.parametrize("limit", [150_000, 70_000])
def test_no_room_for_a_file_stops_with_a_message_and_continues_later(
    limit, make_tree, config_for, same_runs, tmp_path
):
    tree = make_tree({"a": 30, "b": 130, "c": 12})
    result = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tree), str(tmp_path / "run"), str(limit)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 1
    assert "RunError: no room left to write to" in result.stderr
    assert "make room and run the same command again" in result.stderr
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
        config = ExtractConfig(tree, disk / "run", engine="fake", workers=2, task_frames=64)
        with pytest.raises(RunError, match=r"no room left to write to .*No space left"):
            extract(config)
        with pytest.raises(RunError, match="no room left to write to"):
            extract(config)
        assert not read_status(disk / "run").reasons
        ballast.unlink()
        subprocess.run(["mount", "-o", "remount,size=40m", str(disk)], check=True)
        assert extract(config).exit_code == 0
        whole = ExtractConfig(tree, tmp_path / "whole", engine="fake", executor="serial")
        extract(whole)
        same_runs(disk / "run", tmp_path / "whole")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_counts_are_reported_while_it_runs(make_tree, config_for):
    tree = make_tree({"a": 40})
    seen = []
    extract(
        config_for(tree, engine_options={"seconds_per_frame": 0.04}, task_frames=8),
        on_progress=seen.append,
    )
    done = [snapshot.frames_done for snapshot in seen]
    assert done == sorted(done)
    assert done[-1] == 40
    assert len(set(done)) > 3
    assert any(snapshot.frames_per_second for snapshot in seen)


def test_the_plan_of_workers_says_processes_threads_and_devices(tmp_path):
    config = ExtractConfig(tmp_path, tmp_path, workers=3, memory_limit_mb=2048)
    assert str(plan_workers(config)) == "3 processes x 1 thread on cpu, at most 2048 MB each"
    gpus = ExtractConfig(tmp_path, tmp_path, num_gpus=4, num_workers_per_gpu=2, memory_limit_mb=0)
    assert str(plan_workers(gpus)) == "8 processes x 1 thread on cuda:0, cuda:1, cuda:2, cuda:3"
    serial = ExtractConfig(tmp_path, tmp_path, executor="serial", memory_limit_mb=0)
    assert str(plan_workers(serial)) == "1 process (serial) x 1 thread on cpu"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mode": "x"}, "mode: expected one of auto, image, video, got 'x'"),
        ({"keep": 7}, "keep: expected 543 or 143 keypoints, got 7"),
        ({"workers": 0}, "workers: expected at least 1, got 0"),
        ({"split_long_seconds": 0.0}, "split_long_seconds: expected more than 0, got 0.0"),
        ({"workers": 2, "num_gpus": 1}, "workers and num_gpus exclude each other"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, said, tmp_path):
    with pytest.raises(ConfigError, match=said):
        ExtractConfig(tmp_path, tmp_path, **changes)


def test_a_plain_script_without_a_guard_may_extract(make_tree, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import posemill\n"
        "from pathlib import Path\n"
        f"config = posemill.ExtractConfig(Path({str(make_tree(SIZES))!r}), "
        f"Path({str(tmp_path / 'run')!r}), engine='fake', workers=2)\n"
        "print('frames out:', sum(c.frames_out for c in posemill.extract(config).counts))\n"
        "assert __file__.endswith('script.py')\n"
    )
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert result.stdout == "frames out: 35\n", result.stderr


def test_a_run_continues_from_any_thread(make_tree, config_for, tmp_path):
    tree = make_tree(SIZES)
    codes = []
    thread = threading.Thread(target=lambda: codes.append(extract(config_for(tree)).exit_code))
    thread.start()
    thread.join()
    assert codes == [0]
