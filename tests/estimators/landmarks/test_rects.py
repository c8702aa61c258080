"""Rectangles by hand: squares on lines, boxes around points, and the way back from a crop."""

from __future__ import annotations

import math

import numpy as np
import pytest

from posemill.estimators.landmarks.rects import (
    Rect,
    box_of_landmarks,
    enlarge,
    f32,
    project_by_matrix,
    rotation_between,
    turned_box_of_landmarks,
    without_border,
    wrap_angle,
)

SIZE = (f32(200), f32(100))


def rect(*values: float) -> Rect:
    return Rect(*map(f32, values))


@pytest.mark.parametrize(("angle", "wrapped"), [(0, 0), (4, 4 - 2 * math.pi), (-math.pi, -math.pi)])
def test_angles_are_wrapped_to_half_a_turn(angle, wrapped):
    assert float(wrap_angle(angle)) == pytest.approx(wrapped, abs=1e-6)


@pytest.mark.parametrize(
    ("end", "target", "turned"),
    [
        ((10, 0), 0, 0),  # to the right
        ((0, 10), 0, math.pi / 2),  # down: clockwise on the screen
        ((0, -10), math.pi / 2, 0),  # up, where up is wanted
        ((10, 0), math.pi / 2, math.pi / 2),
        ((0, 10), math.pi / 2, -math.pi),
        ((-10, 0), -math.pi / 2, math.pi / 2),
    ],
)
def test_a_line_is_turned_away_from_where_it_should_point(end, target, turned):
    start = f32(5), f32(7)
    found = rotation_between(start, (start[0] + f32(end[0]), start[1] + f32(end[1])), target=target)
    assert float(found) == pytest.approx(turned, abs=1e-6)


def test_enlarging_shifts_by_the_height_before_and_squares_by_the_longer_side():
    turned = enlarge(rect(0.5, 0.5, 0.1, 0.1, math.pi / 2), SIZE, scale=2, shift_y=-0.5)
    # 20 x 10 px: half a height (5 px) along the turned y, which points to the left of the screen
    assert [float(v) for v in turned[:4]] == pytest.approx([0.5 + 5 / 200, 0.5, 0.2, 0.4])


def test_a_box_left_of_the_picture_reaches_its_edge():
    box = box_of_landmarks(np.array([[-0.4, 0.2], [-0.2, 0.4]], np.float32), f32(0))
    assert [float(v) for v in box[:4]] == pytest.approx([-0.2, 0.3, 0.4, 0.2])


def test_a_turned_box_lies_around_its_points_and_not_their_middle():
    """A triangle turned by an eighth: its box's middle is not the middle of its extremes."""
    points = np.array([[0.4, 0.2], [0.6, 0.2], [0.6, 0.6]], np.float32)
    box = turned_box_of_landmarks(points, f32(math.pi / 4), SIZE)
    x, y = points[:, 0] * 200, points[:, 1] * 100
    along, across = (x + y) / math.sqrt(2), (y - x) / math.sqrt(2)
    a, b = (along.max() + along.min()) / 2, (across.max() + across.min()) / 2
    center = (a - b) / math.sqrt(2) / 200, (a + b) / math.sqrt(2) / 100
    expected = [*center, np.ptp(along) / 200, np.ptp(across) / 100, math.pi / 4]
    assert [float(v) for v in box] == pytest.approx(expected, abs=1e-6)


def test_points_of_a_crop_lose_the_border_of_a_rect_that_is_not_square():
    points = np.array([[0.5, 0.5, 1], [0.25, 0.75, 2]], np.float32)
    square = rect(0.5, 0.5, 0.2, 0.4, 0)
    assert without_border(points, square, SIZE) is points
    flat = without_border(points, rect(0.5, 0.5, 0.2, 0.2, 0), SIZE)  # 40 x 20 px
    np.testing.assert_allclose(flat, [[0.5, 0.5, 1], [0.25, 1, 2]], atol=1e-6)
    tall = without_border(points, rect(0.5, 0.5, 0.1, 0.4, 0), SIZE)  # 20 x 40 px
    np.testing.assert_allclose(tall, [[0.5, 0.5, 2], [0, 0.75, 4]], atol=1e-6)
    np.testing.assert_allclose(
        without_border(points[:, :2], rect(0.5, 0.5, 0.1, 0.4, 0), SIZE), tall[:, :2]
    )


def test_projecting_by_matrix_counts_in_pixels():
    points = np.array([[0.5, 0.5], [1.0, 0.5], [0.5, 1.0]], np.float32)
    placed = project_by_matrix(points, rect(0.3, 0.4, 0.2, 0.4, math.pi / 2), SIZE)
    # 40 px wide and high around (60, 40), turned by a quarter: right becomes down
    expected = [[60 / 200, 40 / 100], [60 / 200, 60 / 100], [40 / 200, 40 / 100]]
    np.testing.assert_allclose(placed, expected, atol=1e-6)
