"""Where a hand is looked for and how it is read, without a network."""

from __future__ import annotations

import math

import numpy as np
import pytest

from posemill.estimators.holistic.hands import CROPS, rect_from_body, rect_from_recrop, rect_to_read
from posemill.estimators.landmarks.body import PoseLandmarks
from posemill.estimators.landmarks.rects import Rect, f32

SIZE = (f32(200), f32(100))
PALM = {0, 1, 2, 3, 5, 6, 9, 10, 13, 14, 17, 18}


def rect(*values: float) -> Rect:
    return Rect(*map(f32, values))


def body(points: dict[int, tuple[float, float]], visibility: dict[int, float]) -> PoseLandmarks:
    """A body with some points in pixels of a picture of 200 x 100."""
    landmarks, seen = np.zeros((35, 3), np.float32), np.zeros(33, np.float32)
    for index, (x, y) in points.items():
        landmarks[index, :2] = x / 200, y / 100
    for index, value in visibility.items():
        seen[index] = value
    return PoseLandmarks(landmarks, seen, np.zeros((33, 3), np.float32), f32(0))


@pytest.mark.parametrize(
    ("side", "wrist", "pinky", "index"),
    [("left_hand", 15, 17, 19), ("right_hand", 16, 18, 20)],
)
def test_the_body_says_where_a_hand_is_if_its_wrist_is_seen(
    side: str, wrist: int, pinky: int, index: int
) -> None:
    points = {wrist: (100.0, 60.0), pinky: (94.0, 40.0), index: (103.0, 40.0)}
    assert rect_from_body(body(points, {wrist: 0.1}), side, SIZE) is None
    found = rect_from_body(body(points, {wrist: 0.11}), side, SIZE)
    assert found is not None
    # (2 index + pinky) / 3 is 20 px above the wrist: a square of 40 px around it, times 2.7,
    # moved up by a tenth of the 40; upright, so not turned
    expected = [100 / 200, (40 - 4) / 100, 2.7 * 40 / 200, 2.7 * 40 / 100, 0]
    assert [float(v) for v in found] == pytest.approx(expected, abs=1e-5)


def test_the_fitted_crop_has_the_breadth_of_the_hand_in_it() -> None:
    points = {15: (100.0, 60.0), 17: (94.0, 40.0), 19: (103.0, 40.0)}
    stock = rect_from_body(body(points, {15: 1.0}), "left_hand", SIZE)
    found = rect_from_body(body(points, {15: 1.0}), "left_hand", SIZE, crop="fitted")
    assert found is not None
    assert stock is not None
    side = 1.36807 * 20 + 0.57733 * 9
    expected = [100 / 200, (40 - 0.1 * side) / 100, 2.7 * side / 200, 2.7 * side / 100, 0]
    assert [float(v) for v in found] == pytest.approx(expected, abs=1e-5)
    assert found.width < stock.width


def test_a_fitted_crop_of_a_hand_that_points_at_the_camera_is_not_empty() -> None:
    points = {15: (100.0, 40.0), 17: (92.0, 40.0), 19: (104.0, 40.0)}
    sizes = {
        crop: rect_from_body(body(points, {15: 1.0}), "left_hand", SIZE, crop=crop)
        for crop in CROPS
    }
    assert sizes["stock"] is not None
    assert sizes["fitted"] is not None
    assert sizes["stock"].width < 1e-6 < 0.05 < sizes["fitted"].width


def test_a_hand_that_points_to_the_right_is_turned_by_a_quarter() -> None:
    points = {15: (100.0, 50.0), 17: (120.0, 50.0), 19: (120.0, 50.0)}
    found = rect_from_body(body(points, {15: 1.0}), "left_hand", SIZE)
    assert found is not None
    expected = [124 / 200, 50 / 100, 2.7 * 40 / 200, 2.7 * 40 / 100, math.pi / 2]
    assert [float(v) for v in found] == pytest.approx(expected, abs=1e-5)


def test_the_recrop_network_says_where_it_really_is() -> None:
    place = rect(0.5, 0.5, 0.2, 0.4, 0)  # 40 x 40 px
    outputs = [np.array([[128, 128, 128, 192]], np.float32)]  # the middle, and 10 px below
    found = rect_from_recrop(outputs, place, SIZE)
    expected = [0.5, (50 - 2) / 100, 20 / 200, 20 / 100, 0]
    assert [float(v) for v in found] == pytest.approx(expected, abs=1e-5)


def upright_hand() -> np.ndarray:
    """21 landmarks, upright: the wrist 20 px below the knuckles, the palm 20 px wide and high."""
    pixels = np.tile(np.array([100.0, 50.0]), (21, 1))
    pixels[[0, 5, 9, 13]] = (100, 60), (95, 40), (100, 40), (105, 40)
    pixels[[1, 17]] = (90, 50), (110, 50)
    return np.concatenate([pixels / (200, 100), np.zeros((21, 1))], 1).astype(np.float32)


def place_of(hand: np.ndarray) -> Rect:
    """Where a hand is looked for that was there before, if what is found is close to it."""
    found = rect(0.5, (50 - 2) / 100, 40 / 200, 40 / 100, 0.01)
    return rect_to_read(found, hand, SIZE)


def test_where_it_was_is_twice_the_palm_moved_up_by_a_tenth() -> None:
    expected = [0.5, (50 - 2) / 100, 40 / 200, 40 / 100, 0]
    assert [float(v) for v in place_of(upright_hand())] == pytest.approx(expected, abs=1e-5)


def test_the_palm_is_the_wrist_the_thumb_and_the_first_joints() -> None:
    before = place_of(upright_hand())
    for index in set(range(21)) - {0, 5, 9, 13}:
        hand = upright_hand()
        hand[index, :2] = 0.5, (61.5 - 0.5 * (index in PALM)) / 100  # a px or so below the wrist
        assert (place_of(hand) != before) == (index in PALM), index


def test_it_is_turned_by_the_line_from_the_wrist_to_the_middle_of_the_knuckles() -> None:
    """A quarter each of the index and ring finger's, a half of the middle finger's."""
    hand = upright_hand()
    hand[[5, 9, 13], 0] = 99 / 200, 104 / 200, 101 / 200  # (99 + 101) / 4 + 104 / 2 = 102
    assert float(place_of(hand).rotation) == pytest.approx(math.atan2(2, 20), abs=1e-5)


def test_the_first_time_it_is_read_where_it_was_found() -> None:
    found = rect(0.5, 0.5, 0.2, 0.4, 0)
    assert rect_to_read(found, None, SIZE) is found


@pytest.mark.parametrize(
    ("change", "is_kept"),
    [
        ({"rotation": 39.0}, True),
        ({"rotation": 41.0}, False),
        ({"center_x": 7.9}, True),
        ({"center_x": 8.1}, False),
        ({"scale": 1 / 1.39}, True),  # what was is larger by 0.39 of what is found
        ({"scale": 1 / 1.41}, False),
        ({"scale": 1.6}, True),  # smaller by 0.375
        ({"scale": 1.7}, False),  # by 0.41
    ],
)
def test_it_is_read_where_it_was_until_it_moved_too_far(
    change: dict[str, float], is_kept: bool
) -> None:
    before = rect(0.5, 0.48, 0.2, 0.4, 0)
    side = change.get("scale", 1.0)
    found = rect(0.5 + change.get("center_x", 0) / 200, 0.48, 0.2 * side, 0.4 * side,
                 math.radians(change.get("rotation", 0)))  # fmt: skip
    hand = upright_hand()
    chosen = rect_to_read(found, hand, SIZE)
    assert (chosen != found) == is_kept
    if is_kept:
        assert [float(v) for v in chosen] == pytest.approx([float(v) for v in before], abs=1e-5)


def test_a_point_near_the_edge_of_what_was_found_means_it_moved() -> None:
    hand = upright_hand()
    hand[20, 0] = (100 + 17.9) / 200  # nine tenths of the half side of 20 px
    found = rect(0.5, 0.48, 0.2, 0.4, 0.01)
    assert rect_to_read(found, hand, SIZE) != found
    hand[20, 0] = (100 + 18.2) / 200
    assert rect_to_read(found, hand, SIZE) == found
