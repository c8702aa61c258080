"""Where a face is looked for and how it is read, without a network."""

from __future__ import annotations

import math

import numpy as np
import pytest

from posemill.estimators.holistic.face import rect_from_body, rect_from_detection, rect_to_read
from posemill.estimators.landmarks.body import PoseLandmarks
from posemill.estimators.landmarks.detection import Detection
from posemill.estimators.landmarks.face import read_face
from posemill.estimators.landmarks.rects import Rect, f32

SIZE = (f32(200), f32(100))


def rect(*values: float) -> Rect:
    return Rect(*map(f32, values))


def test_the_body_says_where_the_face_is_by_the_points_of_the_head() -> None:
    pixels = np.full((35, 2), 5.0)  # far away: shoulders and the rest do not count
    pixels[:11] = 100, 50
    pixels[[5, 2]] = (95, 50), (105, 50)  # the eyes, level
    pixels[10] = 100, 56
    landmarks = np.concatenate([pixels / (200, 100), np.zeros((35, 1))], 1).astype(np.float32)
    empty = np.zeros((33, 3), np.float32)
    found = rect_from_body(PoseLandmarks(landmarks, empty[:, 0], empty, f32(0)), SIZE)
    expected = [0.5, 53 / 100, 30 / 200, 30 / 100, 0]  # 10 px wide, three times
    assert [float(v) for v in found] == pytest.approx(expected, abs=1e-5)


def test_the_detector_says_where_it_really_is() -> None:
    place = rect(0.5, 0.5, 0.32, 0.64, 0)  # 64 x 64 px: half of the crop's pixels
    # around (68, 68) of the crop: 2 px right and below its middle
    points = np.array([[-8, 0], [8, 0], [0, 4], [0, 8], [-8, 2], [8, 2]], np.float32) + 68
    box = np.array([53, 53, 30, 30], np.float32)
    found = rect_from_detection(Detection(f32(0.9), box / 128, points / 128), place, SIZE)
    # 8 x 4 px: twice the longer side, moved up by a tenth of the height; eyes level
    expected = [102 / 200, (52 + 2 - 0.4) / 100, 16 / 200, 16 / 100, 0]
    assert [float(v) for v in found] == pytest.approx(expected, abs=1e-5)


def test_a_face_is_read_where_the_logit_is_above_zero() -> None:
    place = rect(0.5, 0.5, 0.2, 0.4, 0)
    raw = np.tile(np.array([96, 192, 96], np.float32), (468, 1)).reshape(1, -1)
    assert read_face([raw, np.array([[0.0]], np.float32)], place, min_score=0.5) is None
    face = read_face([raw, np.array([[0.01]], np.float32)], place, min_score=0.5)
    assert face is not None
    np.testing.assert_allclose(face.points, [[0.5, 0.7, 0.1]] * 468, atol=1e-6)
    assert face.score == pytest.approx(0.5025, abs=1e-4)


def level_face() -> np.ndarray:
    """468 landmarks within 10 px around (100, 50), the eyes' outer corners level."""
    pixels = np.tile(np.array([100.0, 50.0]), (468, 1))
    pixels[[0, 1, 2, 3]] = (90, 50), (110, 50), (100, 40), (100, 60)
    pixels[[33, 263]] = (95, 50), (105, 50)
    return np.concatenate([pixels / (200, 100), np.zeros((468, 1))], 1).astype(np.float32)


def test_the_first_time_it_is_read_where_it_was_found() -> None:
    found = rect(0.5, 0.5, 0.2, 0.4, 0)
    assert rect_to_read(found, None, SIZE) is found


@pytest.mark.parametrize(
    ("degrees", "off", "side", "is_kept"),
    [
        (14.9, 0, 36, True),
        (15.1, 0, 36, False),
        (0.5, 3.5, 36, True),  # a tenth of what is found
        (0.5, 3.7, 36, False),
        (0.5, 0, 25.1, True),  # all points within it, a fifth taken off
        (0.5, 0, 24.9, False),
        (0.5, 0, 42.8, True),  # what was is smaller by three tenths of what is found
        (0.5, 0, 42.9, False),
    ],
)
def test_it_is_read_where_it_was_until_it_moved_too_far(
    degrees: float, off: float, side: float, is_kept: bool
) -> None:
    found = rect((100 + off) / 200, 0.5, side / 200, side / 100, math.radians(degrees))
    assert (rect_to_read(found, level_face(), SIZE) != found) == is_kept


def test_where_it_was_is_one_and_a_half_of_all_points_turned_by_the_eyes() -> None:
    face = level_face()
    chosen = rect_to_read(rect(0.5, 0.5, 30 / 200, 30 / 100, 0.01), face, SIZE)
    assert [float(v) for v in chosen] == pytest.approx([0.5, 0.5, 0.15, 0.3, 0], abs=1e-5)
    face[[33, 263], 1] = 0.49, 0.51  # 2 px down over 10 px
    chosen = rect_to_read(rect(0.5, 0.5, 30 / 200, 30 / 100, 0.1), face, SIZE)
    assert float(chosen.rotation) == pytest.approx(math.atan2(2, 10), abs=1e-5)
