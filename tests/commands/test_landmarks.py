import os
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from cli_runner import CliRunner

import posemill
from posemill.commands.line import main
from posemill.errors import SourceError
from posemill.estimators.fake import FakeEstimator
from posemill.jobs import landmarks
from posemill.testing.videos import write_video


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(20):
        cv2.imwrite(str(folder / f"{number:02}.png"), np.full((24, 32, 3), 100 + number, np.uint8))
    return folder


@pytest.fixture
def fake_engine(monkeypatch):
    """The engine without a network in place of the real one."""
    monkeypatch.setattr(landmarks, "open_estimator", lambda name, **options: FakeEstimator())


@pytest.fixture
def no_work(monkeypatch):
    """Opening an engine fails the test: the fault must be found before."""
    monkeypatch.setattr(
        landmarks, "open_estimator", lambda name, **options: pytest.fail("the work was begun")
    )


def run(*arguments):
    return CliRunner().invoke(main, ["landmarks", *map(str, arguments)])


def refused(*arguments):
    """Return the one line that a wrong call says."""
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("posemill: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.usefixtures("fake_engine")
def test_the_decoder_auto_is_the_one_that_tells_of_damage(tmp_path):
    write_video(tmp_path / "a.mp4", 5)
    for name in ("auto", "pyav"):
        out = tmp_path / f"{name}.npz"
        assert run(tmp_path / "a.mp4", "--out", out, "--decoder", name).exit_code == 0
    with np.load(tmp_path / "auto.npz") as found, np.load(tmp_path / "pyav.npz") as usual:
        np.testing.assert_array_equal(found["pose"], usual["pose"])
        assert len(found["pose"]) == 5


@pytest.mark.usefixtures("fake_engine")
def test_a_folder_of_pictures_becomes_a_file_with_one_row_per_picture(pictures, tmp_path):
    out = tmp_path / "new" / "folder" / "landmarks.npz"
    assert run(pictures, "--out", out, "--engine-option", "runtime=litert").exit_code == 0
    with np.load(out) as arrays:
        assert arrays["pose"].shape == (20, 33, 4)
        assert arrays["face"].shape == (20, 468, 3)
    assert [path.name for path in out.parent.iterdir()] == ["landmarks.npz"]


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("pictures", "pictures is a folder; expected the name of a file"),
        ("pictures/00.png/x.npz", "00.png is a file, expected a folder"),
        ("/proc/x.npz", "/proc/x.npz: cannot be written: No such file or directory"),
        ("/dev/null", "/dev/null is not a file"),
        (f"{'x' * 240}.npz", "File name too long"),
        (f"{'x' * 300}.npz", "File name too long"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="places and words of Linux")
def test_a_place_that_cannot_be_written_is_said_in_one_line_before_the_work(pictures, out, message):
    assert message in refused(pictures, "--out", pictures.parent / out)
    assert sorted(path.name for path in pictures.parent.iterdir()) == ["pictures"]


@pytest.mark.usefixtures("no_work")
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_read_only_folder_is_said_before_the_work(pictures, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o555)
    assert "x.npz: cannot be written: Permission denied" in refused(
        pictures, "--out", tmp_path / "locked" / "x.npz"
    )


@pytest.fixture
def small_disk():
    """No file of this process may be larger than 40 kB: a real refusal by the system."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.usefixtures("fake_engine", "small_disk")
def test_a_disk_that_fills_up_during_the_work_is_said_and_leaves_nothing_half_written(
    pictures, tmp_path
):
    assert "x.npz: cannot be written: File too large" in refused(
        pictures, "--out", tmp_path / "x.npz"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pictures"]


def test_any_engine_with_its_options_can_be_asked(pictures, tmp_path):
    out = tmp_path / "a.npz"
    named = ("--engine", "fake", "--engine-option", "seconds_per_frame=0")
    assert run(pictures, "--out", out, *named, "--mode", "image").exit_code == 0
    with np.load(out) as arrays:
        assert str(arrays["skeleton"]) == "holistic-543"
        assert not np.isnan(arrays["pose"]).any()
    assert "engine 'fake' has no option 'second'; it has seconds_per_frame" in refused(
        pictures, "--out", out, "--engine", "fake", "--engine-option", "second=0"
    )
    said = refused(pictures, "--out", out, "--engine", "openpos")
    assert "unknown engine 'openpos'; known: holistic, hands, face" in said
    assert "; did you mean 'openpose'?" in said
    assert "fake" not in said, "it is for tests"


def test_a_folder_of_videos_names_the_command_for_many(tmp_path):
    videos = tmp_path / "videos"
    videos.mkdir()
    for name in ("a.mp4", "b.mp4", "labels.csv"):
        (videos / name).touch()
    said = refused(videos, "--out", tmp_path / "a.npz")
    assert f"{videos} holds 2 videos and no pictures: give one of them, as {videos}/a.mp4" in said
    assert f"or take all: posemill extract {videos} --out RUN" in said


@pytest.mark.usefixtures("fake_engine")
def test_a_folder_is_tracked_if_its_pictures_look_like_a_video_and_it_is_said(pictures, tmp_path):
    words = (pictures, "--out", tmp_path / "x.npz")
    assert "mode video: numbered pictures of one size, neighbours alike" in run(*words).stderr
    (pictures / "05.png").rename(pictures / "portrait.png")
    said = "mode image: their names are not numbered one after the other; --mode overrules"
    assert said in run(*words).stderr
    result = run(*words, "--mode", "video", "--json")
    assert "overrules" not in result.stderr
    assert '"mode": "video"' in result.stdout


def test_landmarks_are_a_clip_with_a_row_for_each_picture(pictures, tmp_path):
    (pictures / "03.png").write_bytes(b"no picture")
    with pytest.warns(UserWarning, match="03.png"):
        clip = posemill.landmarks(pictures, engine="fake", mode="image", progress=False)
    assert clip.points.shape == (20, 543, 3)
    assert np.isnan(clip.points[3]).all()
    assert [Path(path).name for path in clip.image_paths] == [f"{n:02}.png" for n in range(20)]
    failed = run(pictures, "--out", tmp_path / "x.npz", "--engine", "fake", "--mode", "image")
    assert (failed.exit_code, "03.png" in failed.stderr) == (1, True)
    (pictures / "03.png").unlink()
    again = posemill.landmarks(pictures, tmp_path / "out.npz", engine="fake", progress=False)
    assert len(again) == 19
    assert (tmp_path / "out.npz").is_file()


def test_several_files_are_one_run_that_the_same_call_continues(pictures, tmp_path):
    files = [pictures / "00.png", str(pictures / "04.png")]
    options = {"engine": "fake", "executor": "serial", "progress": False}
    summary = posemill.extract(files, tmp_path / "run", **options)
    assert (summary.num_clips, summary.num_frames) == (2, 2)
    assert {clip.clip_id for clip in summary.run.clips()} == {"00.png", "04.png"}
    assert posemill.extract(files, tmp_path / "run", **options).num_frames_now == 0


def test_several_videos_keep_their_folders_in_their_names(tmp_path):
    files = [tmp_path / "v" / name for name in ("a/x.mp4", "b/x.mp4")]
    for file in files:
        file.parent.mkdir(parents=True)
        write_video(file, 3)
    summary = posemill.extract(files, tmp_path / "run", engine="fake", executor="serial",
                               progress=False)  # fmt: skip
    assert {clip.clip_id: len(clip) for clip in summary.run.clips()} == {"a/x": 3, "b/x": 3}


def test_lists_of_files_that_cannot_be_are_refused(pictures, tmp_path):
    write_video(tmp_path / "a.mp4", 2)
    for files, words in (
        ([], "empty"),
        ([pictures / "9.png"], "9.png"),
        ([pictures / "00.png", tmp_path / "a.mp4"], "mp4, png"),
    ):
        with pytest.raises(SourceError, match=words):
            posemill.extract(files, tmp_path / "run", engine="fake")
