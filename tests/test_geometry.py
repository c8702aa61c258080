import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posemill import geometry

NAN = np.nan


def line(*values):
    """One keypoint over time: x is given, y twice and z three times that."""
    x = np.array(values, np.float32)
    return np.stack([x, 2 * x, 3 * x], axis=-1)[:, None, :]


def body(left, right, hand):
    return np.array([[(*left, 0), (*right, 0), (*hand, 0)]], np.float32)


def test_a_frame_without_shoulders_takes_the_midpoint_of_its_neighbours():
    frames = np.concatenate(
        [body((1, 0), (-1, 0), (5, 5)), body((3, 0), (1, 0), (5, 5)), body((5, 0), (3, 0), (5, 5))]
    )
    frames[1, 0] = NAN
    moved = geometry.normalize_by_shoulders(frames, (0, 1))
    np.testing.assert_allclose(moved[:, 2, 0], (2.5, 1.5, 0.5))


def test_the_shoulder_midpoint_becomes_the_origin_and_their_median_distance_one():
    points = body((0.6, 0.5), (0.4, 0.5), (0.5, 0.9))
    before = points.copy()
    moved = geometry.normalize_by_shoulders(points, (0, 1))
    np.testing.assert_allclose(moved[0, :2].mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(moved[0, 2], (0, 2, 0), atol=1e-6)
    np.testing.assert_array_equal(points, before)
    points[0, 0] = NAN  # in no frame of the clip
    assert np.isnan(geometry.normalize_by_shoulders(points, (0, 1))).all()
    frames = np.concatenate([body((s, 0), (-s, 0), (0, s)) for s in (0.5, 1.0, 4.0)])
    scaled = geometry.normalize_by_shoulders(frames, (0, 1))
    np.testing.assert_allclose(scaled[:, 0, 0] - scaled[:, 1, 0], (0.5, 1, 4))


def test_square_units_undo_the_aspect_and_a_box_reaches_from_minus_one_to_one():
    points = np.full((2, 1, 3), 0.5, np.float32)
    square = geometry.to_square_units(points, np.array([[200, 100], [0, 0]], np.int32))
    np.testing.assert_allclose(square[:, 0], [(0.5, 0.25, 0.5), (0.5, 0.5, 0.5)])
    points = np.array([[[0, 0, 7], [4, 2, 9], [NAN, NAN, NAN]]], np.float32)
    scaled = geometry.normalize_by_bbox(points)
    np.testing.assert_allclose(scaled[0, :2], [(-1, -0.5, -0.5), (1, 0.5, 0.5)])
    assert np.isnan(scaled[0, 2]).all()
    assert np.isnan(geometry.normalize_by_bbox(points[:, 2:])).all()
    assert np.isnan(geometry.normalize_by_bbox(points[:, :1])).all()


def test_short_gaps_are_closed_and_long_ones_the_ends_and_frames_without_a_row_stay():
    points = line(NAN, 0, NAN, 2, NAN, NAN, NAN, 10, NAN)
    closed, new = geometry.interpolate_gaps(points, 2, np.arange(9))
    np.testing.assert_allclose(closed, line(NAN, 0, 1, 2, NAN, NAN, NAN, 10, NAN))
    assert new[:, 0].tolist() == [False, False, True] + [False] * 6
    points, indices = line(0, NAN, 10, 11), np.array([0, 1, 10, 11], np.int64)
    for max_gap, is_closed in ((2, False), (8, False), (9, True)):
        _, new = geometry.interpolate_gaps(points, max_gap, indices)
        assert new.any() == is_closed, max_gap
    closed, _ = geometry.interpolate_gaps(points, 9, indices)
    np.testing.assert_allclose(closed, line(0, 1, 10, 11))


def test_fill_draws_lines_holds_the_ends_and_writes_zero_for_what_was_never_seen():
    points = np.concatenate([line(NAN, 2, NAN, 4, NAN), line(*[NAN] * 5)], axis=1)
    filled = geometry.fill_missing(points, "interpolate")
    np.testing.assert_allclose(filled[:, :1], line(2, 2, 3, 4, 4))
    assert (filled[:, 1] == 0).all()
    assert (geometry.fill_missing(points, "zero")[0] == 0).all()
    assert geometry.fill_missing(points, "nan") is points


def test_the_longest_gap_counts_runs_at_the_ends_too():
    mask = np.array([[0, 1], [0, 0], [1, 0], [0, 1]], bool)
    assert geometry.longest_gaps(mask, np.array([4])).tolist() == [[2, 2]]
    assert geometry.longest_gaps(~np.zeros((3, 2), bool), np.array([3])).tolist() == [[0, 0]]
    assert geometry.longest_gaps(np.zeros((3, 2), bool), np.array([3])).tolist() == [[3, 3]]
    assert geometry.longest_gaps(np.zeros((0, 2), bool), np.array([0])).tolist() == [[0, 0]]
    # A gap ends where its clip does, also beside clips without frames.
    mask = np.array([[1], [0], [0], [0], [1], [0]], bool)
    assert geometry.longest_gaps(mask, np.array([2, 0, 3, 1, 0])).tolist() == [
        [1], [0], [2], [1], [0]]  # fmt: skip


@settings(max_examples=60)
@given(
    found=st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=25),
    max_gap=st.integers(0, 6),
)
def test_no_short_gap_is_left_and_no_found_point_changes(found, max_gap):
    mask = np.array(found, bool)
    points = np.random.default_rng(0).random((*mask.shape, 3)).astype(np.float32)
    points[~mask] = NAN
    closed, new = geometry.interpolate_gaps(points, max_gap, np.arange(len(points)))
    np.testing.assert_array_equal(closed[mask], points[mask])
    np.testing.assert_array_equal(~np.isnan(closed[..., 0]), mask | new)
    for column in range(mask.shape[1]):
        gaps = np.diff(np.flatnonzero(~np.isnan(closed[:, column, 0]))) - 1
        assert not ((gaps > 0) & (gaps <= max_gap)).any()


def test_points_that_are_zero_or_nan_are_missing_where_the_file_has_no_mask():
    points = np.ones((2, 3, 2), np.float32)
    points[1, 2], points[0, 1, 0], points[0, 0, 0] = 0, np.nan, 0
    assert geometry.find_points(points, None).tolist() == [[True, False, True], [True, True, False]]
    assert (
        geometry.find_points(np.ones((2, 3, 2), np.float32), np.ones((2, 3), np.uint8)).dtype
        == bool
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_found_point_that_is_no_number_is_refused(value):
    points = np.ones((2, 3, 2), np.float32)
    points[1, 2, 0] = value
    mask = np.ones((2, 3), bool)
    with pytest.raises(ValueError, match="not a number, 1 in all, the first in frame 1, point 2"):
        geometry.find_points(points, mask)
    mask[1, 2] = False
    assert not geometry.find_points(points, mask)[1, 2], "a missing point may be anything"


def test_scores_are_0_where_nothing_was_found_and_in_0_to_1_elsewhere():
    mask = np.array([[True, False]])
    assert geometry.check_scores(np.array([[1, 7]]), mask).tolist() == [[1.0, 0.0]]
    for wrong in (1.5, -0.5, np.nan):
        with pytest.raises(ValueError, match=r"expected scores in 0\.\.1, got"):
            geometry.check_scores(np.array([[wrong, 0]]), mask)
