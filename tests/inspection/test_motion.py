"""Motion by itself: every threshold from both sides, in clips whose shoulders are 1 apart."""

import numpy as np
import pytest

from posemill.inspection import motion
from posemill.inspection.motion import body_scale, find_jumps, measure_motion, usual_step
from posemill.records import PoseClip
from posemill.skeletons import get_skeleton


def make(num_frames=1, *, skeleton_name="holistic-143", size_wh=(1, 1), shoulders=True, **fields):
    """Return a clip with nothing but shoulders, at 0, 0 and 1, 0; the picture is 1 x 1."""
    points = np.full((num_frames, get_skeleton(skeleton_name).num_points, 3), np.nan, np.float32)
    sizes = np.tile(np.array(size_wh, np.int32), (num_frames, 1))
    clip = PoseClip(points, np.ones(points.shape[:2], np.float32), sizes, skeleton_name, **fields)
    if shoulders:
        put(clip, "left_shoulder", 0)
        put(clip, "right_shoulder", 1)
    return clip


def put(clip, name, x, y=0):
    """Place a point or all points of a part in every frame; x and y: numbers or one a frame."""
    skeleton = clip.skeleton
    if name in skeleton.part_names:
        part = skeleton.part(name)
        rows = clip.points[:, part.start : part.stop]
    else:
        index = skeleton.point_names.index(name)
        rows = clip.points[:, index : index + 1]
    rows[..., 0], rows[..., 1] = np.reshape(x, (-1, 1)), np.reshape(y, (-1, 1))
    rows[..., 2] = 0


def column(clip, part_name):
    return clip.skeleton.part_names.index(part_name)


@pytest.mark.parametrize(("fps", "still", "jump"), [
    (25.0, 0.5, 0.51), (50.0, 0.25, 0.26), (12.5, 1.0, 1.01), (None, 0.5, 0.51), (0.0, 0.5, 0.51),
    (-5.0, 0.5, 0.51), (0.5, 25.0, 25.1),
])  # fmt: skip
def test_a_jump_is_farther_than_the_floor(fps, still, jump):
    moved = np.full((9, 2), 0.1, np.float32)
    moved[4] = still, jump
    np.testing.assert_array_equal(np.argwhere(find_jumps(moved, fps)), [[4, 1]])


def test_a_jump_is_farther_than_what_is_usual():
    # The median is 4, the median deviation 2: 4 + 5 * 1.4826 * 2 = 18.826.
    moved = np.array([[np.nan, 1, 2, 3, 4, 5, 6, far] for far in (18.8, 18.9)], np.float32).T
    np.testing.assert_array_equal(np.argwhere(find_jumps(moved, 25)), [[7, 1]])


def test_of_jumps_in_a_row_the_first_counts():
    moved = np.full((10, 3), 0.1, np.float32)
    moved[[0, 4, 5, 7], 0] = 1
    moved[:, 1] = np.nan  # as for a part that is never there
    moved[3, 2] = np.inf
    np.testing.assert_array_equal(
        np.argwhere(find_jumps(moved, 25)), [[0, 0], [3, 2], [4, 0], [7, 0]]
    )
    assert find_jumps(moved[:0], 25).shape == (0, 3)


@pytest.mark.parametrize(("indices", "step"), [
    ([0], 1), ([0, 1, 2], 1), ([0, 2, 4, 9], 2), ([3, 6], 3), ([5, 5, 5], 1),
])  # fmt: skip
def test_the_usual_step_is_the_median(indices, step):
    assert usual_step(make(len(indices), frame_indices=np.array(indices))) == step


def test_the_scale_is_a_quartile_of_the_shoulders_or_twice_the_first_part_with_an_extent():
    clip = make(6, size_wh=(100, 10), shoulders=False)
    put(clip, "left_shoulder", [0.1, 0.2, 0.3, 0.4, 0, np.nan])
    put(clip, "right_shoulder", 0)
    assert body_scale(clip) == pytest.approx(32.5)  # of 10, 20, 30 and 40
    clip = make(size_wh=(100, 10), shoulders=False)
    put(clip, "left_shoulder", 0.13, 0.5)
    put(clip, "right_shoulder", 0.1, 0.1)
    assert body_scale(clip) == pytest.approx(5)
    clip = make(4, size_wh=(100, 50), shoulders=False)
    put(clip, "face", 0.5)  # all on one spot
    put(clip, "left_hand", 0.5)
    clip.part("left_hand")[:3, 0, 1] = [0.2, 0.4, 0.8]
    clip.part("left_hand")[3, 1] = np.nan  # not whole: does not count
    put(clip, "right_hand", 0.5)
    clip.part("right_hand")[:, 0, 0] = 0
    assert body_scale(clip) == pytest.approx(40)  # of 10, 20 and 40 high


def test_without_any_place_a_quarter_of_the_picture_counts():
    assert body_scale(make(2, size_wh=(100, 200), shoulders=False)) == 50
    assert body_scale(make(2, size_wh=(0, 0), shoulders=False)) == 0.25
    assert body_scale(make(0)) == 0.25
    clip = make()
    put(clip, "right_shoulder", 9999)
    assert body_scale(clip) == 9999
    put(clip, "right_shoulder", -10000)
    assert body_scale(clip) == 0.25


@pytest.mark.parametrize(("num_frames", "expected"), [(1023, 3), (1024, 1)])
def test_some_500_frames_tell_the_scale(num_frames, expected):
    clip = make(num_frames)
    put(clip, "right_shoulder", np.where(np.arange(num_frames) % 2, 3, 1))
    assert body_scale(clip) == expected


def moved_points(clip):
    """Return how far a body moved whose shoulders stand still, the others more and more."""
    names = clip.skeleton.point_names
    others = [name for name in names if not name.endswith("_shoulder")]
    for number, name in enumerate(others, 1):
        put(clip, name, [0, 0.06 * number], [0, 0.08 * number])
    return float(measure_motion(clip).moved[1, 0])


def test_a_part_moved_as_far_as_four_fifths_of_its_sure_points():
    # 0, 0, 1, 2 … 16 tenths: the one with 14 of 18 below it.
    assert moved_points(make(2, skeleton_name="openpose-18")) == pytest.approx(1.3)
    clip = make(2, skeleton_name="openpose-18")
    clip.scores[:, -1] = 0.5
    assert moved_points(clip) == pytest.approx(1.3)
    clip.scores[0, -1] = 0.49  # 13 of 17
    assert moved_points(clip) == pytest.approx(1.2)


def test_unsure_points_count_in_hands_and_nothing_moves_out_of_nowhere():
    clip = make(3)
    put(clip, "left_hand", [np.nan, 2, 5])
    clip.scores[:, slice(68, 110)] = 0.1
    found = measure_motion(clip).moved
    np.testing.assert_array_equal(found[:, column(clip, "left_hand")], [np.nan, np.nan, 3])
    np.testing.assert_array_equal(found[:, column(clip, "pose")], [np.nan, 0, 0])
    assert np.isnan(found[:, column(clip, "face")]).all()


def test_a_sample_of_the_face_moves_like_all_of_it():
    clip = make(2, skeleton_name="holistic-543")
    put(clip, "face", 0)
    clip.part("face")[1, ::12, 0] = 2
    assert measure_motion(clip).moved[1, 1] == 2


def test_a_part_is_frozen_where_not_one_number_differs():
    clip = make(5)
    put(clip, "left_hand", 1)
    clip.part("left_hand")[:, 3] = np.nan
    clip.part("left_hand")[2:, 4, 2] = 0.1  # only z
    clip.part("left_hand")[4, 5] = np.nan
    put(clip, "right_hand", [np.nan, 1, np.nan, 1, 1])
    found = measure_motion(clip).frozen
    np.testing.assert_array_equal(found[:, column(clip, "left_hand")], [0, 1, 0, 1, 0])
    np.testing.assert_array_equal(found[:, column(clip, "right_hand")], [0, 0, 0, 0, 1])
    np.testing.assert_array_equal(found[:, column(clip, "pose")], [0, 1, 1, 1, 1])
    assert not found[:, column(clip, "face")].any()


def test_frames_that_do_not_follow_are_not_compared():
    clip = make(4, frame_indices=np.array([0, 2, 7, 9]))
    put(clip, "left_hand", [0, 0, 5, 5])
    put(clip, "right_hand", [5, 5, 0, 0])
    found = measure_motion(clip)
    hand = column(clip, "left_hand")
    np.testing.assert_array_equal(found.moved[:, hand], [np.nan, 0, np.nan, 0])
    np.testing.assert_array_equal(found.frozen[:, hand], [0, 1, 0, 1])
    assert not found.swapped.any()
    put(clip, "left_wrist", 0)  # a hand at the other wrist is seen without a frame before
    put(clip, "right_wrist", 5)
    np.testing.assert_array_equal(measure_motion(clip).swapped, [0, 0, 1, 1])


def test_a_clip_in_blocks_is_the_clip(monkeypatch):
    rng = np.random.default_rng(1)
    clip = make(8)
    clip.points[:] = rng.uniform(0, 1, clip.points.shape)
    clip.points[3] = clip.points[2]
    put(clip, "left_hand", [1, 0, 1, 0, 1, 0, 1, 0])
    put(clip, "right_hand", [0, 1, 0, 1, 0, 1, 0, 0])
    clip.part("left_hand")[:, 0, 1] = clip.part("right_hand")[:, 0, 1] = 1
    whole = measure_motion(clip)
    assert whole.frozen.any()
    assert whole.swapped.any()
    assert whole.doubled.tolist() == [False] * 7 + [True]
    for size in (1, 3, 4, 8):
        monkeypatch.setattr(motion, "BLOCK_FRAMES", size)
        found = measure_motion(clip)
        for name in ("moved", "frozen", "swapped", "doubled"):
            np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))


def swapped(one, other):
    """Return whether `(pairs, 2 sides)` of x in one frame are crossed in the other."""
    x = np.array([one, other], np.float32)
    found = motion._crossed(np.stack([x, np.zeros_like(x)], -1))
    assert not found[0]
    return bool(found[1])


def test_sides_crossed_where_that_explains_the_motion_of_all_pairs_better():
    assert swapped([[0, 1]], [[1, 0]])
    assert not swapped([[0, 1]], [[0, 1]])
    # Each side goes 0.39 or 0.41; together more than 0.8.
    assert not swapped([[0, 0.39]], [[0.39, 0]])
    assert swapped([[0, 0.41]], [[0.41, 0]])
    # What is left of the way, 0.3 or 0.35 each, against half of the way made.
    assert swapped([[0, 1]], [[0.7, 0.3]])
    assert not swapped([[0, 1]], [[0.65, 0.35]])
    assert swapped([[0, 0.1], [0, 1]], [[0, 0.1], [1, 0]])
    assert not swapped([[0, 0.3], [0, 0.4]], [[0.3, 0], [0.4, 0]])
    assert swapped([[0, np.nan], [0, 0.5]], [[0, 1], [0.5, 0]])
    assert not swapped([[0, np.nan]], [[np.nan, 0]])


@pytest.mark.parametrize("joint", ["shoulder", "elbow", "wrist", "hip"])
def test_both_sides_of_the_body_are_pairs(joint):
    clip = make(2, skeleton_name="coco-133")
    put(clip, "right_shoulder", np.nan)
    put(clip, f"left_{joint}", [0, 2])
    put(clip, f"right_{joint}", [2, 0])
    assert measure_motion(clip).swapped.tolist() == [False, True]


def test_hands_that_change_sides_are_suspect_and_a_body_alone_has_none():
    clip = make(3)
    put(clip, "left_hand", [2, 0, 0])
    put(clip, "right_hand", [0, 2, 2])
    np.testing.assert_array_equal(measure_motion(clip).swapped, [0, 1, 0])
    assert not measure_motion(make(3, skeleton_name="openpose-18")).doubled.any()


@pytest.mark.parametrize(("apart", "own", "expected"), [
    (1, 0.7, True), (1, 0.66, False), (1, 1, True), (1, 0, False),
    (0.41, 0.41, True), (0.39, 0.39, False),  # wrists too near to one another
    (0.42, 0.31, True), (0.42, 0.29, False),  # hand too near to its own
])  # fmt: skip
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_hand_at_the_other_wrist(side, apart, own, expected):
    clip = make()
    put(clip, f"{side}_wrist", 0)
    put(clip, f"{'right' if side == 'left' else 'left'}_wrist", apart)
    put(clip, f"{side}_hand", 9)  # only where it begins counts
    clip.part(f"{side}_hand")[:, 0, 0] = own
    assert measure_motion(clip).swapped.tolist() == [expected]
    clip.scores[:] = 0.49
    assert measure_motion(clip).swapped.tolist() == [False]


@pytest.mark.parametrize(("apart", "expected"), [(0, True), (0.19, True), (0.21, False)])
@pytest.mark.parametrize("axis", [0, 1])
def test_hands_on_one_spot(apart, axis, expected):
    clip = make(2)
    put(clip, "left_hand", 0)
    clip.part("left_hand")[:, 5, axis] = 1  # its extent
    clip.part("right_hand")[0] = clip.part("left_hand")[0]
    clip.part("right_hand")[0, :, 0] += apart
    assert measure_motion(clip).doubled.tolist() == [expected, False]


def test_frames_two_or_three_apart_follow_each_other_and_behind_a_lost_one_nothing_moved():
    moved = measure_motion(make(6, frame_indices=np.array([0, 2, 5, 7, 11, 13]))).moved
    assert np.isnan(moved).all(1).tolist() == [True, False, False, False, True, False]
