"""`posemill.landmarks` and `extract` of several files: what the command line has, in Python."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

import posemill
from posemill.errors import SourceError


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A folder of five small pictures, one of which is broken."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(5):
        cv2.imwrite(str(folder / f"{number}.png"), np.full((24, 32, 3), 100 + number, np.uint8))
    (folder / "3.png").write_bytes(b"no picture")
    return folder


def write_video(path: Path, num_frames: int) -> None:
    """Write a small grey video."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), 25, (32, 24))
    for number in range(num_frames):
        writer.write(np.full((24, 32, 3), 100 + number, np.uint8))
    writer.release()


def test_landmarks_are_a_clip_with_a_row_for_each_picture(pictures: Path, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="3.png"):
        clip = posemill.landmarks(pictures, engine="fake", mode="image", progress=False)
    assert clip.points.shape == (5, 543, 3)
    assert np.isnan(clip.points[3]).all()
    assert [Path(path).name for path in clip.image_paths] == [f"{n}.png" for n in range(5)]
    (pictures / "3.png").unlink()
    again = posemill.landmarks(pictures, tmp_path / "out.npz", engine="fake", progress=False)
    assert len(again) == 4
    assert (tmp_path / "out.npz").is_file()


def test_several_files_are_one_run_that_the_same_call_continues(pictures: Path, tmp_path: Path):
    files = [pictures / "0.png", str(pictures / "4.png")]
    options = {"engine": "fake", "executor": "serial", "progress": False}
    summary = posemill.extract(files, tmp_path / "run", **options)
    assert (summary.num_clips, summary.num_frames) == (2, 2)
    assert {clip.clip_id for clip in summary.run.clips()} == {"0.png", "4.png"}
    assert posemill.extract(files, tmp_path / "run", **options).num_frames_now == 0


def test_several_videos_keep_their_folders_in_their_names(tmp_path: Path) -> None:
    files = [tmp_path / "v" / name for name in ("a/x.mp4", "b/x.mp4")]
    for file in files:
        write_video(file, 3)
    summary = posemill.extract(files, tmp_path / "run", engine="fake", executor="serial",
                               progress=False)  # fmt: skip
    assert {clip.clip_id: len(clip) for clip in summary.run.clips()} == {"a/x": 3, "b/x": 3}


def test_lists_of_files_that_cannot_be_are_refused(pictures: Path, tmp_path: Path):
    write_video(tmp_path / "a.mp4", 2)
    for files, words in (
        ([], "empty"),
        ([pictures / "9.png"], "9.png"),
        ([pictures / "0.png", tmp_path / "a.mp4"], "mp4, png"),
    ):
        with pytest.raises(SourceError, match=words):
            posemill.extract(files, tmp_path / "run", engine="fake")
