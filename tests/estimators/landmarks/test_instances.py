import math

import numpy as np
import pytest

from posemill.errors import FormatError
from posemill.estimators.landmarks.detection import Detection, project_detection, without_letterbox
from posemill.estimators.landmarks.hand import SideLayer, read_hand, rect_from_palm
from posemill.estimators.landmarks.instances import InstanceState, associate
from posemill.estimators.landmarks.rects import Rect, f32, overlap

SIZE = (f32(200), f32(100))


def rect(center_x, side=0.2, rotation=0.0):
    return Rect(f32(center_x), f32(0.5), f32(side), f32(side), f32(rotation))


def test_rectangles_overlap_as_if_they_were_upright():
    assert overlap(rect(0.5), rect(0.5, rotation=1.0)) == 1
    assert overlap(rect(0.5), rect(0.6)) == pytest.approx(1 / 3, abs=1e-6)
    assert overlap(rect(0.2), rect(0.8)) == 0


@pytest.mark.parametrize(
    ("new", "followed", "expected"),
    [
        ([0.1, 0.4], [0.7], [0.1, 0.4, 0.7]),  # new ones come first
        ([0.1, 0.69], [0.7], [0.1, 0.7]),  # the followed one takes its detection's place
        ([0.5, 0.51], [], [0.51]),  # of two that overlap the later one stays
        ([], [0.5, 0.51, 0.9], [0.51, 0.9]),
        # half of the union may be shared: (0.2 - s) / (0.2 + s)
        ([0.5, 0.567], [], [0.5, 0.567]),
        ([0.5, 0.566], [], [0.566]),
    ],
)
def test_new_ones_join_those_that_are_followed(new, followed, expected):
    assert associate([*map(rect, new)], [*map(rect, followed)]) == [*map(rect, expected)]


def test_a_state_comes_back_from_its_bytes_and_bytes_of_something_else_are_refused():
    for rects in ((), (rect(0.1), rect(0.3, 0.5, -2.0))):
        whole = InstanceState(rects).to_bytes()
        state = InstanceState.from_bytes(whole)
        assert state.rects == rects
        assert all(type(value) is np.float32 for one in state.rects for value in one)
    for data in (b"", b"something", whole[:-30]):
        with pytest.raises(FormatError, match="not a state of this engine"):
            InstanceState.from_bytes(data)


@pytest.mark.parametrize(("left", "label", "score"), [(0.9, "Left", 0.9), (0.2, "Right", 0.8)])
def test_a_hand_has_the_label_of_the_better_side_and_metres_that_turn_with_its_crop(
    left, label, score
):
    raw = np.tile(np.array([112, 224, 44.8], np.float32), (21, 1)).reshape(1, 63)
    metres = np.tile(np.array([0.1, 0.2, 0.3], np.float32), (21, 1)).reshape(1, 63)
    features = np.array([[math.log(left / (1 - left)), 1, 2, 3]], np.float32)
    # It says "Left" with the sigmoid of the first feature.
    layer = SideLayer(np.array([1, 0, 0, 0], np.float32), np.zeros(1, np.float32))
    place = Rect(*map(f32, (0.5, 0.5, 0.2, 0.4, math.pi / 2)))
    outputs = [raw, np.array([[0.51]], np.float32), features, metres]
    hand = read_hand(outputs, place, SIZE, layer=layer, min_score=0.5)
    assert (hand.label, hand.side) == (label, ("Left", "Right").index(label))
    assert hand.side_score == pytest.approx(score, abs=1e-6)
    np.testing.assert_allclose(hand.world[0], [-0.2, 0.1, 0.3], atol=1e-6)
    outputs[1][0, 0] = 0.5
    assert read_hand(outputs, place, SIZE, layer=layer, min_score=0.5) is None


def test_the_hand_of_a_palm_is_2_6_times_as_large_and_half_a_palm_further_up():
    points = np.full((7, 2), 0.5, np.float32)
    points[0], points[2] = (0.5, 0.6), (0.5, 0.4)  # wrist below, middle finger above
    box = np.array([0.45, 0.4, 0.1, 0.2], np.float32)  # 20 x 20 px around the middle
    found = rect_from_palm(Detection(f32(0.9), box, points), SIZE)
    assert [*map(float, found)] == pytest.approx([0.5, 0.4, 52 / 200, 52 / 100, 0], abs=1e-5)


def test_what_is_empty_around_a_picture_is_taken_off():
    box, points = np.array([0.25, 0.375, 0.5, 0.125]), np.array([[0.5, 0.25]])
    found = Detection(f32(0.9), box.astype(np.float32), points.astype(np.float32))
    for whole in (without_letterbox, project_detection):
        moved = whole(found, SIZE)
        np.testing.assert_allclose(moved.box, [0.25, 0.25, 0.5, 0.25], atol=1e-6)
        np.testing.assert_allclose(moved.points, [[0.5, 0.0]], atol=1e-6)


def test_features_of_a_hands_side_are_added_in_four_sums():
    """One after the other, in one sum, the ones would vanish beside the large number."""
    features = np.array([2**24, 1, -(2**24), 1, 0, 1, 0, 1], np.float32)
    layer = SideLayer(np.ones(8, np.float32), np.full(1, -4, np.float32))
    # (2**24 - 4) - 2**24 = -4, and 2 + 2 of the other two sums
    assert layer.left_score(features) == 0.5
