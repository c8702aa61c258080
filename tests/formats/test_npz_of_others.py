"""Clips out of the arrays of an npz: sizes, paths and names of points, of ours and of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posemill.errors import FormatError
from posemill.formats.npz import clips_of
from posemill.npz.mapped import open_npz
from posemill.records import PoseClip
from posemill.skeletons import get_skeleton


def read(path: Path, size_wh: tuple[int, int] | None = None, **arrays: Any) -> list[PoseClip]:
    np.savez(path, **{"keypoints": np.full((3, 18, 3), 0.5, np.float32), **arrays})
    return list(clips_of(open_npz(path), size_wh=size_wh))


def test_sizes_are_the_file_s_or_the_caller_s_or_unknown(tmp_path: Path) -> None:
    (clip,) = read(tmp_path / "a.npz")
    assert clip.sizes_wh.tolist() == [[0, 0]] * 3
    (clip,) = read(tmp_path / "a.npz", (64, 48))
    assert clip.sizes_wh.tolist() == [[64, 48]] * 3
    sizes = np.array([[1, 2], [3, 4], [5, 6]])
    (clip,) = read(tmp_path / "a.npz", (64, 48), sizes_wh=sizes)
    assert clip.sizes_wh.tolist() == sizes.tolist()


def test_clips_are_cut_out_of_all_arrays_alike(tmp_path: Path) -> None:
    points = np.arange(3 * 18 * 3, dtype=np.float32).reshape(3, 18, 3) / 200
    one, two = read(
        tmp_path / "dev_keypoints.npz",
        keypoints=points,
        video_ids=np.array(["a", "b", "b"]),
        scores=np.array([[0.1] * 18, [0.2] * 18, [0.3] * 18], np.float32),
        frame_index=np.array([4, 7, 9]),
        image_paths=np.array(["x/1.png", "y/1.png", "y/2.png"]),
    )
    assert (one.clip_id, two.clip_id, one.split) == ("a", "b", "dev")
    assert np.array_equal(two.points, points[1:])
    assert two.scores[:, 0].tolist() == pytest.approx([0.2, 0.3])
    assert two.frame_indices.tolist() == [7, 9]
    assert one.image_paths == ("x/1.png",)
    assert two.image_paths == ("y/1.png", "y/2.png")


def test_empty_paths_are_none(tmp_path: Path) -> None:
    (clip,) = read(tmp_path / "a.npz", image_paths=np.array(["", "", ""]))
    assert clip.image_paths == ()
    assert clip.frame_indices.tolist() == [0, 1, 2]


def test_names_of_other_points_are_refused_with_the_first_difference(tmp_path: Path) -> None:
    names = list(get_skeleton("openpose-18").point_names)
    assert len(read(tmp_path / "a.npz", keypoint_names=np.array(names))) == 1
    names[2], names[3] = names[3], names[2]
    with pytest.raises(FormatError, match="not those of openpose-18; the first difference is at 2"):
        read(tmp_path / "a.npz", keypoint_names=np.array(names))
    with pytest.raises(FormatError, match="the first difference is at 4"):
        read(tmp_path / "a.npz", keypoint_names=np.array(names[:2] + names[3:1:-1]))
