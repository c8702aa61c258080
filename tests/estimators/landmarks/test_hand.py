"""How a hand is read and where it is looked for, without a network."""

from __future__ import annotations

import math

import numpy as np
import pytest

from posemill.estimators.landmarks.detection import Detection
from posemill.estimators.landmarks.hand import (
    SideLayer,
    read_hand,
    read_points,
    rect_from_palm,
)
from posemill.estimators.landmarks.rects import Rect, f32

SIZE = (f32(200), f32(100))


def rect(*values: float) -> Rect:
    return Rect(*map(f32, values))


# Says "Left" with the sigmoid of the first feature.
LAYER = SideLayer(np.array([1, 0, 0, 0], np.float32), np.zeros(1, np.float32))


def outputs(score: float, left: float = 0.9) -> list[np.ndarray]:
    raw = np.tile(np.array([112, 224, 44.8], np.float32), (21, 1)).reshape(1, 63)
    metres = np.tile(np.array([0.1, 0.2, 0.3], np.float32), (21, 1)).reshape(1, 63)
    features = np.array([[math.log(left / (1 - left)), 1, 2, 3]], np.float32)
    return [raw, np.array([[score]], np.float32), features, metres]


def test_a_hand_is_read_above_its_threshold() -> None:
    place = rect(0.5, 0.5, 0.2, 0.4, 0)
    assert read_points(outputs(0.5), place, SIZE, min_score=0.5) is None
    hand = read_points(outputs(0.51), place, SIZE, min_score=0.5)
    assert hand is not None
    # the middle of the lower edge; 44.8 / 224 / 0.4 = a half of the width
    np.testing.assert_allclose(hand.points, [[0.5, 0.7, 0.1]] * 21, atol=1e-6)
    assert hand.score == pytest.approx(0.51)


@pytest.mark.parametrize(("left", "label", "score"), [(0.9, "Left", 0.9), (0.2, "Right", 0.8)])
def test_the_better_side_is_the_label(left: float, label: str, score: float) -> None:
    place = rect(0.5, 0.5, 0.2, 0.4, 0)
    hand = read_hand(outputs(0.6, left), place, SIZE, layer=LAYER, min_score=0.5)
    assert hand is not None
    assert (hand.label, hand.side) == (label, ("Left", "Right").index(label))
    assert hand.side_score == pytest.approx(score, abs=1e-6)


def test_features_of_a_side_are_added_in_four_sums() -> None:
    """One after the other, in one sum, the ones would vanish beside the large number."""
    features = np.array([2**24, 1, -(2**24), 1, 0, 1, 0, 1], np.float32)
    layer = SideLayer(np.ones(8, np.float32), np.full(1, -4, np.float32))
    # (2**24 - 4) - 2**24 = -4, and 2 + 2 of the other two sums
    assert layer.left_score(features) == 0.5


def test_metres_are_turned_with_the_crop() -> None:
    place = rect(0.5, 0.5, 0.2, 0.4, math.pi / 2)
    hand = read_hand(outputs(0.6), place, SIZE, layer=LAYER, min_score=0.5)
    assert hand is not None
    np.testing.assert_allclose(hand.world[0], [-0.2, 0.1, 0.3], atol=1e-6)


def test_the_hand_of_a_palm_is_2_6_times_as_large_and_half_a_palm_further_up() -> None:
    points = np.full((7, 2), 0.5, np.float32)
    points[0], points[2] = (0.5, 0.6), (0.5, 0.4)  # wrist below, middle finger above
    box = np.array([0.45, 0.4, 0.1, 0.2], np.float32)  # 20 x 20 px around the middle
    found = rect_from_palm(Detection(f32(0.9), box, points), SIZE)
    expected = [0.5, 0.4, 52 / 200, 52 / 100, 0]
    assert [float(value) for value in found] == pytest.approx(expected, abs=1e-5)
