"""The rules of the legacy graph, piece by piece, without a network."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
import platform

import numpy as np
import pytest

from posemill.estimators.holistic.crops import empty_shares
from posemill.estimators.holistic.detection import Detector, make_anchors
from posemill.estimators.holistic.pose import refine_by_heat
from posemill.estimators.holistic.rects import (
    Rect,
    box_of_landmarks,
    enlarge,
    f32,
    project,
    square_on_line,
    wrap_angle,
)
from posemill.estimators.holistic.smoothing import OneEuro, smooth_visibility
from posemill.estimators.holistic.tracking import TrackingRule
from posemill.estimators.holistic.trigonometry import atan2, cos_sin

SIZE = (f32(200), f32(100))


def rect(*values: float) -> Rect:
    return Rect(*map(f32, values))


def test_the_arctangent_is_within_one_unit_in_the_last_place() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2000, 2)).astype(np.float32) * 100
    for y, x in values:
        exact = math.atan2(float(y), float(x))
        assert abs(float(atan2(y, x)) - exact) <= 2 * float(np.spacing(f32(abs(exact))))
    assert atan2(f32(0), f32(-1)) == f32(math.pi)
    assert atan2(f32(-2), f32(0)) == f32(-math.pi / 2)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="stock on Linux uses glibc")
def test_sine_and_cosine_round_as_the_c_library_does() -> None:
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    for function in (libm.cosf, libm.sinf):
        function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
    angles = np.random.default_rng(0).uniform(-7, 7, 20_000).astype(np.float32)
    mine = [tuple(map(float, cos_sin(angle))) for angle in angles]
    assert mine == [(libm.cosf(angle), libm.sinf(angle)) for angle in angles]
    rounded = [(float(f32(math.cos(angle))), float(f32(math.sin(angle)))) for angle in angles]
    assert mine != rounded


@pytest.mark.parametrize(("angle", "wrapped"), [(0, 0), (4, 4 - 2 * math.pi), (-math.pi, -math.pi)])
def test_angles_are_wrapped_to_half_a_turn(angle: float, wrapped: float) -> None:
    assert float(wrap_angle(angle)) == pytest.approx(wrapped, abs=1e-6)


def test_a_square_on_a_line_has_twice_its_length() -> None:
    square = square_on_line((f32(100), f32(50)), (f32(100), f32(20)), SIZE, target=math.pi / 2)
    assert [float(v) for v in square] == pytest.approx([0.5, 0.5, 0.3, 0.6, 0])


def test_enlarging_shifts_by_the_height_before_and_squares_by_the_longer_side() -> None:
    turned = enlarge(rect(0.5, 0.5, 0.1, 0.1, math.pi / 2), SIZE, scale=2, shift_y=-0.5)
    # 20 x 10 px: half a height (5 px) along the turned y, which points to the left of the screen
    assert [float(v) for v in turned[:4]] == pytest.approx([0.5 + 5 / 200, 0.5, 0.2, 0.4])


def test_a_box_left_of_the_picture_reaches_its_edge() -> None:
    box = box_of_landmarks(np.array([[-0.4, 0.2], [-0.2, 0.4]], np.float32), f32(0))
    assert [float(v) for v in box[:4]] == pytest.approx([-0.2, 0.3, 0.4, 0.2])


def test_projecting_turns_and_moves() -> None:
    points = np.array([[0.5, 0.5, 1.0], [1.0, 0.5, 0.0]], np.float32)
    placed = project(points, rect(0.3, 0.4, 0.2, 0.4, math.pi / 2))
    np.testing.assert_allclose(placed, [[0.3, 0.4, 0.2], [0.3, 0.6, 0]], atol=1e-6)


def test_what_is_empty_beside_a_picture_is_rounded_as_the_original_does() -> None:
    assert empty_shares(f32(4), f32(2)) == (0, 0.25)
    # 1 - 1/(640/359), each step rounded: one bit more than 1 - 359/640
    assert empty_shares(f32(359), f32(640)) == (f32(0.21953126788139343), 0)


def test_there_are_as_many_anchors_as_the_networks_have_rows() -> None:
    pose, face = make_anchors(224, (8, 16, 32, 32, 32)), make_anchors(128, (8, 16, 16, 16))
    assert (len(pose), len(face)) == (2254, 896)
    np.testing.assert_allclose(pose[0], [0.5 / 28] * 2)
    np.testing.assert_allclose(face[[0, 1, 2], 0] * 16, [0.5, 0.5, 1.5])


def test_the_best_detection_is_the_weighted_mean_of_those_that_overlap() -> None:
    detector = Detector(128, (8, 16, 16, 16), min_score=0.5)
    boxes, logits = np.zeros((896, 8), np.float32), np.full(896, -50, np.float32)
    assert detector.best(boxes, logits) is None
    boxes[:, 2:4] = 64
    boxes[0, 4:6], boxes[1, 4:6], boxes[700, 4:6] = (10, 0), (20, 0), (99, 99)
    logits[[0, 1]] = 2.0, 0.5
    points = detector.best(boxes, logits)
    high, low = 1 / (1 + math.exp(-2)), 1 / (1 + math.exp(-0.5))
    expected = (10 * high + 20 * low) / (high + low) / 128 + 0.5 / 16
    assert points is not None
    assert float(points[0, 0]) == pytest.approx(expected, rel=1e-5)


def test_heat_moves_a_point_only_where_there_is_enough() -> None:
    points = np.full((39, 3), 0.5, np.float32)
    points[2, 0] = 1.4  # off the map
    heat = np.full((39, 64, 64), -20, np.float32)
    heat[0, 34, 33] = heat[2, 34, 33] = 20
    heat[1, 34, 33] = -1
    refine_by_heat(points, heat)
    np.testing.assert_allclose(points[0, :2], [33 / 64, 34 / 64], atol=1e-5)
    assert points[1].tolist() == [0.5] * 3
    assert points[2, 0] == f32(1.4)


def test_the_filter_passes_the_first_values_and_follows_slowly_at_rest() -> None:
    one = OneEuro(0.05, 80.0)
    first = np.array([10, 20], np.float32)
    assert one(first, 1) is first
    second = one(np.array([10.001, 20], np.float32), 2, value_scale=1e-3)
    assert 10 < second[0] < 10.0005
    jumped = one(np.array([500, 20], np.float32), 3)
    assert jumped[0] > 490
    one.reset()
    np.testing.assert_array_equal(one(first, 4), first)


def test_visibility_changes_by_a_tenth() -> None:
    new, old = np.array([1.0], np.float32), np.array([0.0], np.float32)
    assert smooth_visibility(new, None) is new
    assert float(smooth_visibility(new, old)[0]) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("previous", "is_kept"),
    [
        ((0.5, 0.5, 0.2, 0.4, 0.0), True),
        ((0.5, 0.5, 0.2, 0.4, 0.5), False),  # turned too far
        ((0.53, 0.5, 0.2, 0.4, 0.0), False),  # moved too far
        ((0.5, 0.5, 0.28, 0.56, 0.0), False),  # grown too much
    ],
)
def test_a_part_is_followed_while_it_stays_about_where_it_was(
    previous: tuple[float, ...], is_kept: bool
) -> None:
    rule = TrackingRule(degrees=15, translation=0.1, scale=0.3, margin=-0.2)
    found, before = rect(0.5, 0.5, 0.2, 0.4, 0.0), rect(*previous)
    points = np.array([[0.5, 0.5, 0], [0.55, 0.6, 0]], np.float32)
    assert (rule.choose(found, before, points, SIZE) == before) == is_kept
    outside = np.array([[0.59, 0.5, 0]], np.float32)
    assert rule.choose(found, rect(0.5, 0.5, 0.2, 0.4, 0.01), outside, SIZE) == found
