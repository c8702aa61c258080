from __future__ import annotations

import numpy as np
import pytest

from posemill.errors import ConfigError
from posemill.skeletons import get_skeleton
from posemill.training.data.normalize import groups_of, preparation, resample, sample_at

RNG = np.random.default_rng(0)


def person(frames: int = 6) -> tuple[np.ndarray, np.ndarray]:
    points = RNG.random((frames, 143, 3)).astype(np.float32)
    return points, np.ones(points.shape[:2], bool)


def test_parts_do_not_depend_on_place_and_size_of_the_person() -> None:
    points, mask = person()
    function = preparation(skeleton_name="holistic-143").function
    one, _ = function(points, mask)
    other, _ = function(points * 3 + 2, mask)
    np.testing.assert_allclose(one, other, atol=1e-4)


def test_each_part_sits_on_its_root_in_every_frame() -> None:
    points, mask = person()
    result, _ = preparation(skeleton_name="holistic-143").function(points, mask)
    where = {name: i for i, name in enumerate(get_skeleton("holistic-143").point_names)}
    np.testing.assert_allclose(result[:, where["left_hand_wrist"]], 0, atol=1e-6)
    shoulders = result[:, [where["left_shoulder"], where["right_shoulder"]]]
    np.testing.assert_allclose(shoulders.mean(1), 0, atol=1e-5)
    apart = np.linalg.norm(shoulders[:, 0, :2] - shoulders[:, 1, :2], axis=-1)
    assert np.median(apart) == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(result[:, :68].mean(1), 0, atol=1e-5)


def test_missing_points_have_no_say_and_stay_zero() -> None:
    points, mask = person()
    mask[2, 68:89] = False  # the left hand of a frame
    mask[:, 3] = False  # a point of the face
    wild = np.where(mask[..., None], points, 1e6).astype(np.float32)
    function = preparation(skeleton_name="holistic-143").function
    one, kept = function(points, mask)
    other, _ = function(wild, mask)
    np.testing.assert_array_equal(one, other)
    assert (one[~mask] == 0).all()
    np.testing.assert_array_equal(kept, mask)


def test_a_part_that_is_never_found_is_zero() -> None:
    points, mask = person()
    mask[:, 68:89] = False
    result, _ = preparation(skeleton_name="holistic-143").function(points, mask)
    assert np.isfinite(result).all()
    assert (result[:, 68:89] == 0).all()


def test_an_unknown_skeleton_keeps_its_path_through_the_clip() -> None:
    points = np.zeros((5, 4, 2), np.float32) + np.arange(5, dtype=np.float32)[:, None, None]
    result, _ = preparation().function(points, np.ones((5, 4), bool))
    steps = np.diff(result[:, 0, 0])
    np.testing.assert_allclose(steps, steps[0], rtol=1e-5)
    assert steps[0] > 0
    assert np.sqrt(np.square(result).sum(-1).mean()) == pytest.approx(1, abs=1e-5)


def test_none_leaves_numbers_alone_and_dims_are_cut() -> None:
    points, mask = person()
    result, _ = preparation(normalize="none", num_dims=2).function(points, mask)
    np.testing.assert_array_equal(result, points[..., :2])


def test_a_clip_without_any_point_is_all_zero() -> None:
    points, mask = person()
    result, _ = preparation().function(points, np.zeros_like(mask))
    assert (result == 0).all()


def test_resampling_keeps_the_ends_and_longer_clips_are_cut_to_the_limit() -> None:
    points, mask = person(9)
    short, _ = resample(points, mask, 5)
    np.testing.assert_array_equal(short, points[::2])
    result, _ = preparation(normalize="none", max_frames=4).function(points, mask)
    assert len(result) == 4
    result, _ = preparation(normalize="none", num_frames=20).function(points, mask)
    assert len(result) == 20


def test_between_a_found_and_a_missing_point_the_found_one_counts() -> None:
    points = np.array([[[2.0]], [[0.0]]], np.float32)
    mask = np.array([[True], [False]])
    mixed, found = sample_at(points, mask, np.array([0.5, 1.0]))
    assert mixed[:, 0, 0].tolist() == [2.0, 0.0]
    assert found[:, 0].tolist() == [True, False]


def test_groups_cover_every_point_of_every_skeleton() -> None:
    for name in ("holistic-143", "holistic-543", "openpose-18", "coco-133"):
        covered = [i for group in groups_of(name) for i in range(group.start, group.stop)]
        assert sorted(covered) == list(range(get_skeleton(name).num_points))


def test_wrong_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="normalize: expected one of auto, parts"):
        preparation(normalize="shoulders")
    with pytest.raises(ConfigError, match="'parts' needs a known skeleton"):
        preparation(normalize="parts")
