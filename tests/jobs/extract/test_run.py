"""`extract` from end to end with the fake engine: what comes out, and what is refused."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from posemill.errors import ConfigError, MissingExtraError, RunError
from posemill.estimators.fake import FakeEstimator
from posemill.jobs.extract.run import extract
from posemill.runs.reader import open_run

SIZES = {"train/a": 21, "train/b": 5, "dev/d": 9}
RED = (0, 0, 255)  # as OpenCV has it


def test_keypoints_are_those_of_the_engine_frame_by_frame(make_tree, config_for):
    summary = extract(config_for(make_tree(SIZES)))
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


def num_shards(folder):
    return len(list((folder / "shards").iterdir()))


def test_pieces_of_a_long_clip_or_video_carry_the_state_over(
    make_tree, config_for, same_runs, tmp_path, write_video
):
    write_video(tmp_path / "videos" / "a.mp4", 50)
    for source in (make_tree({"long": 50}), tmp_path / "videos"):
        pieces, whole = (tmp_path / f"{source.name} {name}" for name in ("pieces", "whole"))
        extract(config_for(source, pieces, task_frames=7))
        extract(config_for(source, whole, task_frames=500))
        assert num_shards(pieces) == 8
        same_runs(pieces, whole)


def test_short_clips_share_a_shard_and_loose_pictures_are_divided_among_tasks(
    make_tree, config_for, tmp_path
):
    extract(config_for(make_tree({f"clip{number:02d}": 3 for number in range(20)})))
    assert num_shards(tmp_path / "run") == 10  # of 6 frames
    tree = make_tree({".": 70}, "loose")
    options = {"executor": "threads", "task_frames": 20, "batch_size": 4}
    extract(config_for(tree, "pictures", layout="pictures", **options))
    clip = next(open_run(tmp_path / "pictures").clips())
    assert clip.frame_indices.tolist() == list(range(70))
    assert num_shards(tmp_path / "pictures") == 9  # of up to 8 pictures


def test_modes_decide_what_frames_know_of_each_other(make_tree, config_for, tmp_path):
    tree = make_tree({"clip": 6})
    loose = tmp_path / "pictures"
    shutil.copytree(tree / "clip", loose)
    points = {}
    for name, source, mode in [("tracked", tree, "auto"), ("alone", tree, "image"),
                               ("loose", loose, "auto"), ("forced", loose, "video")]:  # fmt: skip
        layout = "pictures" if source == loose else "auto"
        extract(config_for(source, name, mode=mode, layout=layout))
        points[name] = open_run(tmp_path / name).to_numpy()["points"]
    np.testing.assert_array_equal(points["alone"], points["loose"])
    np.testing.assert_array_equal(points["tracked"], points["forced"])
    assert not np.array_equal(points["tracked"], points["alone"])


def test_keep_143_stores_the_smaller_skeleton(make_tree, config_for, tmp_path):
    tree = make_tree(SIZES)
    extract(config_for(tree, "full"))
    extract(config_for(tree, "small", skeleton="holistic-143"))
    small = open_run(tmp_path / "small")
    assert small.skeleton_name == "holistic-143"
    for one, other in zip(small.clips(), open_run(tmp_path / "full").clips(), strict=True):
        np.testing.assert_array_equal(one.points, other.as_skeleton("holistic-143").points)


def test_videos_windows_and_labels_of_a_list(config_for, tmp_path, write_video):
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


@pytest.mark.parametrize("stride", [1, 2])
def test_split_long_cuts_into_independent_pieces_and_is_recorded(
    config_for, tmp_path, write_video, stride
):
    write_video(tmp_path / "videos" / "a.mp4", 60)
    extract(config_for(tmp_path / "videos", "whole", stride=stride))
    options = {"split_long_seconds": 1.0, "executor": "threads", "stride": stride}
    run = extract(config_for(tmp_path / "videos", "cut", **options)).run
    assert run.manifest.options["split_long_seconds"] == 1.0
    (clip,), (whole,) = run.clips(), open_run(tmp_path / "whole").clips()
    assert clip.frame_indices.tolist() == whole.frame_indices.tolist() == [*range(0, 60, stride)]
    first = {1: 25, 2: 12}[stride]  # of 12.5 frames a second
    np.testing.assert_array_equal(clip.points[:first], whole.points[:first])
    assert not np.array_equal(clip.points[first:], whole.points[first:])


@pytest.mark.parametrize("mode", ["video", "image"])
def test_batches_change_nothing(mode, make_tree, config_for, same_runs, tmp_path, paint):
    tree = make_tree({"a": 21, "b": 5, "c": 9, "d": 1, "e": 30})
    paint(tree / "b" / "0002.png", RED)
    (tree / "c" / "0001.png").write_bytes(b"x")
    options = {"mishaps": {"ff0000": "error"}}
    extract(config_for(tree, "single", mode=mode, engine_options=options))
    extract(config_for(tree, "batched", mode=mode, engine_options=options, batch_size=4))
    same_runs(tmp_path / "batched", tmp_path / "single")


def write_at(path, content, status):
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("mode", ["image", "video"])
def test_retry_failed_tries_only_what_failed(make_tree, config_for, same_runs, tmp_path, mode):
    tree = make_tree({"clip": 30, "other": 10})
    extract(config_for(tree, "unbroken", mode=mode))
    picture = tree / "clip" / "0007.png"
    good, status = picture.read_bytes(), picture.stat()
    write_at(picture, bytes(len(good)), status)  # as by a disk that could not be read for a while
    config = config_for(tree, mode=mode)
    assert extract(config).exit_code == 1
    before = {path.name for path in (tmp_path / "run" / "shards").iterdir()}
    write_at(picture, good, status)
    assert extract(config).exit_code == 1  # failed frames stay failed …
    again = extract(config.replace(retry_failed=True))
    assert (again.exit_code, again.num_frames_now) == (0, {"image": 1, "video": 30}[mode])
    after = {path.name for path in (tmp_path / "run" / "shards").iterdir()}
    assert (before - after, len(after - before)) == (set(), {"image": 1, "video": 2}[mode])
    # Frames that depend on each other are done again; their old rows stay on the disk, unread.
    old_rows = {"image": 0, "video": 29}[mode]
    same_runs(tmp_path / "run", tmp_path / "unbroken", old_rows)
    assert extract(config.replace(retry_failed=True)).exit_code == 0


def test_retry_failed_takes_a_video_that_was_replaced(config_for, same_runs, tmp_path, write_video):
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
    assert extract(config_for(videos)).exit_code == 0  # it is the source from now on
    write_video(videos / "a.mp4", 21, seed=9)
    with pytest.raises(RunError, match=r"put it back as it was .*or use another folder"):
        extract(config_for(videos, retry_failed=True))


@pytest.mark.parametrize(
    ("suffix", "codec", "shares"),
    [("mp4", "mpeg4", [0.6]), *((suffix, codec, [0.05, 0.25]) for suffix, codec in
     {"mkv": "mpeg4", "webm": "libvpx", "gif": "gif"}.items())],
)  # fmt: skip
def test_a_video_that_was_cut_off_loses_the_same_after_a_retry(
    suffix, codec, shares, config_for, tmp_path
):
    whole = tmp_path / f"whole.{suffix}"
    with av.open(str(whole), "w", options={"movflags": "faststart"}) as container:
        stream = container.add_stream(codec, rate=25)
        stream.width, stream.height = 320, 240
        stream.pix_fmt = "rgb8" if suffix == "gif" else "yuv420p"
        for grey in range(60):
            pixels = np.full((240, 320, 3), 4 * grey, np.uint8)
            frame = av.VideoFrame.from_ndarray(pixels, "rgb24").reformat(format=stream.pix_fmt)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    (tmp_path / "videos").mkdir()
    content = whole.read_bytes()
    for share in shares:
        part = content[: int(len(content) * share)]
        (tmp_path / "videos" / f"{share}.{suffix}").write_bytes(part)
    first = extract(config_for(tmp_path / "videos"))
    if suffix == "mp4":  # its index stands in front
        assert first.frames_known == 60
        assert first.frames_failed > 1
    for _ in range(2):
        again = extract(config_for(tmp_path / "videos", retry_failed=True))
        assert (again.counts, first.exit_code, again.exit_code) == (first.counts, 1, 1)


def test_an_engine_that_is_refused_or_an_executor_that_is_missing_leaves_no_folder(
    make_tree, config_for, monkeypatch
):
    tree = make_tree({"train/a": 2})
    options = {"network": str(tree / "nowhere.onnx")}
    config = config_for(tree, engine="openpose", engine_options=options)
    with pytest.raises(ConfigError, match=r"network: there is no file .*nowhere\.onnx"):
        extract(config)
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "posemill.executors.ray_cluster", raising=False)
    with pytest.raises(MissingExtraError, match=r"executor 'ray' needs 'ray'.*posemill\[ray\]"):
        extract(config_for(tree, executor="ray"))
    assert not config.out.exists()
    assert extract(config_for(tree)).exit_code == 0


def test_a_changed_source_is_refused_with_what_differs(make_tree, config_for, tmp_path):
    tree = make_tree(SIZES)
    extract(config_for(tree))
    picture = tree / "dev" / "d" / "0001.png"
    content, status = picture.read_bytes(), picture.stat()
    picture.write_bytes(content[::-1])  # of the same size, under the same name
    os.utime(picture, (1, 1))
    with pytest.raises(RunError, match=r"\n  dev/d is not the same\nput it back .*cp -p"):
        extract(config_for(tree))
    write_at(picture, content, status)
    tree = tree.rename(tmp_path / "moved")
    assert extract(config_for(tree)).exit_code == 0
    shutil.copytree(tree / "dev" / "d", tree / "dev" / "new")
    shutil.rmtree(tree / "train" / "b")
    with pytest.raises(RunError, match="the source is not the one") as caught:
        extract(config_for(tree))
    assert "dev/new is new" in str(caught.value)
    assert "train/b is gone" in str(caught.value)
    shutil.rmtree(tree / "dev" / "new")
    (tree / "dev" / "d" / "0000.png").rename(tree / "dev" / "d" / "000.png")
    with pytest.raises(RunError, match="dev/d is not the same"):
        extract(config_for(tree))


def test_a_folder_with_something_else_is_refused_and_kept(make_tree, config_for, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("four years")
    with pytest.raises(RunError, match="is not empty and not a posemill run"):
        extract(config_for(make_tree(SIZES)))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.tex"]


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


def test_a_plain_script_without_a_guard_may_extract(make_tree, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import posemill\n"
        "from pathlib import Path\n"
        f"config = posemill.ExtractConfig(Path({str(make_tree(SIZES))!r}), "
        f"Path({str(tmp_path / 'run')!r}), engine='fake', workers=1)\n"
        "print('frames out:', sum(c.frames_out for c in posemill.extract(config).counts))\n"
        "assert __file__.endswith('script.py')\n"
    )
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert result.stdout == "frames out: 35\n", result.stderr


def test_a_folder_for_temporary_files_is_made(make_tree, config_for, tmp_path):
    scratch = tmp_path / "new" / "scratch"
    extract(config_for(make_tree({"train/a": 2}), temp_dir=scratch))
    assert scratch.is_dir()


def test_the_result_of_a_relative_path_can_be_read_from_another_folder(
    make_tree, config_for, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    summary = extract(config_for(make_tree({"train/a": 2})).replace(out=Path("relative")))
    monkeypatch.chdir("/")
    assert len(summary.run) == 1
    assert summary.name == "relative"


def test_a_mistyped_keyword_is_refused(make_tree, config_for, tmp_path):
    with pytest.raises(TypeError, match="on_progres"):
        extract(config_for(make_tree({"train/a": 1})), on_progres=print)
    assert not (tmp_path / "run").exists()
