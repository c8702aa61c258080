"""When a part is looked for where it was, and the crop of a hand that is not stock's."""

import math

import numpy as np
import pytest

from posemill.estimators.holistic import face, hands
from posemill.estimators.holistic.tracking import TrackingRule
from posemill.estimators.landmarks.body import PoseLandmarks
from posemill.estimators.landmarks.rects import Rect, f32

SIZE = (f32(200), f32(100))
RULE = TrackingRule(degrees=15, translation=0.1, scale=0.3, margin=-0.2)


def rect(*values):
    return Rect(*map(f32, values))


def is_kept(off=(0, 0), *, degrees=0, turned=0, point=(0, 0)):
    """Whether a place `off` px from one of 40 x 40 px is kept, all turned by `turned` degrees."""
    cos, sin = math.cos(math.radians(turned)), math.sin(math.radians(turned))

    def place(x, y):
        return (100 + cos * x - sin * y) / 200, (50 + sin * x + cos * y) / 100

    found = rect(*place(0, 0), 40 / 200, 40 / 100, math.radians(turned))
    rotation = math.radians(turned + degrees)
    before = rect(*place(*off), 40 / 200, 40 / 100, rotation)
    points = np.array([[*place(0, 0), 0], [*place(*point), 0]], np.float32)
    chosen = RULE.choose(found, before, points, SIZE)
    assert chosen in (found, before)
    return chosen is before


@pytest.mark.parametrize("turned", [0, 30, 90, -140, 175])
def test_the_limits_count_along_the_sides_of_what_was_found(turned):
    for sign in (-1, 1):
        assert is_kept((3.9 * sign, 3.9), turned=turned)
        assert not is_kept((4.1 * sign, 0), turned=turned)
        assert not is_kept((0, 4.1 * sign), turned=turned)
        assert is_kept(point=(15.9 * sign, 15.9), turned=turned)
        assert not is_kept(point=(16.1 * sign, 0), turned=turned)
        assert not is_kept(point=(0, 16.1 * sign), turned=turned)
        assert is_kept(degrees=14.9 * sign, turned=turned)
        assert not is_kept(degrees=15.1 * sign, turned=turned)


def level_face():
    """468 landmarks within 10 px around (100, 50), the eyes' outer corners level."""
    pixels = np.tile(np.array([100.0, 50.0]), (468, 1))
    pixels[[0, 1, 2, 3]] = (90, 50), (110, 50), (100, 40), (100, 60)
    pixels[[33, 263]] = (95, 50), (105, 50)
    return np.concatenate([pixels / (200, 100), np.zeros((468, 1))], 1).astype(np.float32)


def upright_hand():
    """21 landmarks, upright: the wrist 20 px below the knuckles, the palm 20 px wide and high."""
    pixels = np.tile(np.array([100.0, 50.0]), (21, 1))
    pixels[[0, 5, 9, 13]] = (100, 60), (95, 40), (100, 40), (105, 40)
    pixels[[1, 17]] = (90, 50), (110, 50)
    return np.concatenate([pixels / (200, 100), np.zeros((21, 1))], 1).astype(np.float32)


@pytest.mark.parametrize(
    ("part", "degrees", "off", "side", "expected"),
    [
        (face, 14.9, 0, 36, True),
        (face, 15.1, 0, 36, False),
        (face, 0.5, 3.5, 36, True),  # a tenth of what is found
        (face, 0.5, 3.7, 36, False),
        (face, 0.5, 0, 25.1, True),  # all points within it, a fifth taken off
        (face, 0.5, 0, 24.9, False),
        (face, 0.5, 0, 42.8, True),  # what was is smaller by three tenths of what is found
        (face, 0.5, 0, 42.9, False),
        (hands, 39, 0, 40, True),
        (hands, 41, 0, 40, False),
        (hands, 0, 7.9, 40, True),
        (hands, 0, 8.1, 40, False),
        (hands, 0, 0, 40 / 1.39, True),  # what was is larger by 0.39 of what is found
        (hands, 0, 0, 40 / 1.41, False),
        (hands, 0, 0, 64, True),  # smaller by 0.375
        (hands, 0, 0, 68, False),  # by 0.41
    ],
)  # fmt: skip
def test_a_part_is_read_where_it_was_until_it_moved_too_far(part, degrees, off, side, expected):
    points, center_y, before = (
        (level_face(), 0.5, 30) if part is face else (upright_hand(), 0.48, 40)
    )
    found = rect((100 + off) / 200, center_y, side / 200, side / 100, math.radians(degrees))
    assert part.rect_to_read(found, None, SIZE) is found
    chosen = part.rect_to_read(found, points, SIZE)
    assert (chosen != found) == expected
    if expected:
        where = [0.5, center_y, before / 200, before / 100, 0]
        assert [float(v) for v in chosen] == pytest.approx(where, abs=1e-5)


def test_a_point_near_the_edge_of_what_was_found_means_it_moved():
    hand = upright_hand()
    found = rect(0.5, 0.48, 0.2, 0.4, 0.01)
    for x, was_moved in ((17.9, False), (18.2, True)):  # nine tenths of the half side of 20 px
        hand[20, 0] = (100 + x) / 200
        assert (hands.rect_to_read(found, hand, SIZE) == found) == was_moved


@pytest.mark.parametrize(
    ("wrist_y", "pinky", "index", "fitted_side"),
    [(60, (94, 40), (103, 40), 1.36807 * 20 + 0.57733 * 9), (40, (92, 40), (104, 40), None)],
)  # fmt: skip
def test_the_fitted_crop_has_the_breadth_of_the_hand_in_it(wrist_y, pinky, index, fitted_side):
    """The second hand points at the camera: stock's crop of it is empty."""
    landmarks = np.zeros((35, 3), np.float32)
    for number, (x, y) in ((15, (100, wrist_y)), (17, pinky), (19, index)):
        landmarks[number, :2] = x / 200, y / 100
    body = PoseLandmarks(landmarks, np.ones(33, np.float32), np.zeros((33, 3), np.float32), f32(0))
    stock, fitted = (
        hands.rect_from_body(body, "left_hand", SIZE, crop=crop) for crop in ("stock", "fitted")
    )
    if fitted_side is None:
        assert stock.width < 1e-6 < 0.05 < fitted.width
        return
    # The hand's middle is 20 px above the wrist.
    for found, side in ((stock, 40), (fitted, fitted_side)):
        where = [0.5, (40 - 0.1 * side) / 100, 2.7 * side / 200, 2.7 * side / 100, 0]
        assert [float(v) for v in found] == pytest.approx(where, abs=1e-5)
