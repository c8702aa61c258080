"""The rules of the legacy graph, piece by piece, without a network."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
import platform

import cv2
import numpy as np
import pytest

from posemill.estimators.holistic.crops import Cropper, corners_of, empty_shares
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


@pytest.mark.parametrize("repeats_border", [True, False])
def test_crops_are_those_of_opencv(repeats_border: bool) -> None:
    """Also where they hang over the edge and the border is drawn around a copy."""
    rng = np.random.default_rng(2)
    picture = rng.integers(0, 256, (90, 150, 3), np.uint8)
    size, border = 64, cv2.BORDER_REPLICATE if repeats_border else cv2.BORDER_CONSTANT
    cropper, out = Cropper(size, repeats_border=repeats_border), np.zeros((size, size, 3), np.uint8)
    target = np.array([(0, size), (0, 0), (size, 0), (size, size)], np.float32)
    exact_cropper = Cropper(size, repeats_border=repeats_border, exact=True)
    differing = 0
    for _ in range(100):
        side, angle = rng.uniform(10, 150), f32(rng.uniform(-3, 3))
        center = rng.uniform(-0.3, 1.3), rng.uniform(-0.3, 1.3)
        where = rect(*center, side / 150, side / 90, angle)
        cropper.cut(picture, where, out)
        longer = float(max(where.width * f32(150), where.height * f32(90)))
        box = ((float(where.center_x * f32(150)), float(where.center_y * f32(90))),
               (longer, longer), float(angle * f32(180)) / math.pi)  # fmt: skip
        corners = cv2.boxPoints(box)
        mine = corners_of((f32(box[0][0]), f32(box[0][1])), (f32(longer),) * 2, f32(box[2]))
        np.testing.assert_array_equal(np.array(mine, np.float32), corners)
        matrix = cv2.getPerspectiveTransform(corners, target)
        expected = cv2.warpPerspective(picture, matrix, (size, size), borderMode=border)
        differing += int((out != expected).sum())
        exact_cropper.cut(picture, where, out)
        np.testing.assert_array_equal(out, expected)
    assert differing <= 100 * out.size * 1e-5


def test_the_whole_picture_lies_in_the_middle_of_its_square() -> None:
    out = np.zeros((4, 4, 3), np.uint8)
    Cropper(4, repeats_border=False).cut(np.full((2, 4, 3), 200, np.uint8), None, out)
    assert out[..., 0].tolist() == [[0] * 4, [200] * 4, [200] * 4, [0] * 4]
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
