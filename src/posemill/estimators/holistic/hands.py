"""Where Holistic reads a hand: where the body says it is, where it really is, or where it was."""

from __future__ import annotations

import math

import numpy as np

from posemill.estimators.holistic.tracking import TrackingRule
from posemill.estimators.landmarks.body import PoseLandmarks
from posemill.estimators.landmarks.hand import rect_of_landmarks
from posemill.estimators.landmarks.rects import (
    Rect,
    Size,
    enlarge,
    f32,
    project,
    rotation_between,
    square_on_line,
    to_pixels,
    without_border,
)
from posemill.records import FloatArray

SIDES = ("left_hand", "right_hand")
MIN_SCORE = 0.5
# wrist, little finger, index finger of the body's landmarks
_BODY_POINTS = {"left_hand": (15, 17, 19), "right_hand": (16, 18, 20)}
_MIN_VISIBILITY = 0.1
_SHIFT = -0.1
_RECROP_SIZE = 256
_TWO, _THREE = f32(2), f32(3)
_RULE = TrackingRule(degrees=40, translation=0.2, scale=0.4, margin=-0.1)


def rect_from_body(pose: PoseLandmarks, side: str, size: Size) -> Rect | None:
    """Return roughly where a hand is by the body's landmarks, None if its wrist is hidden."""
    wrist, pinky, index = _BODY_POINTS[side]
    if not pose.visibility[wrist] > _MIN_VISIBILITY:
        return None
    wrist_px, pinky_px, index_px = (
        to_pixels(tuple(pose.points[point, :2]), size) for point in (wrist, pinky, index)
    )
    middle_x = (_TWO * index_px[0] + pinky_px[0]) / _THREE
    middle_y = (_TWO * index_px[1] + pinky_px[1]) / _THREE
    # The square lies around the middle of the hand, but is turned by the line from the wrist.
    square = square_on_line((middle_x, middle_y), wrist_px, size, target=0.0)
    rotation = rotation_between(wrist_px, (middle_x, middle_y), target=math.pi / 2)
    return enlarge(square._replace(rotation=rotation), size, scale=2.7, shift_y=_SHIFT)


def rect_from_recrop(outputs: list[FloatArray], rect: Rect, size: Size) -> Rect:
    """Return where the hand is by the recrop network's outputs for the crop at `rect`."""
    points = outputs[0].reshape(2, 2) / np.float32(_RECROP_SIZE)
    points = project(without_border(points, rect, size), rect)
    center, reach = (to_pixels((x, y), size) for x, y in points)
    square = square_on_line(center, reach, size, target=-math.pi / 2)
    return enlarge(square, size, scale=1.0, shift_y=_SHIFT)


def rect_to_read(found: Rect, previous: FloatArray | None, size: Size) -> Rect:
    """Return where the landmarks are read: where the hand was, if that still fits, or `found`."""
    if previous is None:
        return found
    return _RULE.choose(found, rect_of_landmarks(previous, size), previous, size)
