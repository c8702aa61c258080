"""One hand: where the body says it is, where it really is, its 21 landmarks."""

from __future__ import annotations

import math

import numpy as np

from posemill.estimators.holistic.pose import PoseLandmarks
from posemill.estimators.holistic.rects import (
    Rect,
    Size,
    enlarge,
    project,
    rect_on_line,
    rotated_box_of_landmarks,
    rotation_between,
    wrap_angle,
)
from posemill.estimators.holistic.tracking import TrackingRule
from posemill.records import FloatArray

SIDES = ("left_hand", "right_hand")
# wrist, little finger, index finger of the body's landmarks
_BODY_POINTS = {"left_hand": (15, 17, 19), "right_hand": (16, 18, 20)}
_MIN_VISIBILITY = 0.1
_MIN_SCORE = 0.5
_SHIFT = -0.1
_RECROP_SIZE = 256
_CROP_SIZE = 224
_DEPTH_SCALE = 0.4
_RULE = TrackingRule(degrees=40, translation=0.2, scale=0.4, margin=-0.1)
_PALM = np.array([0, 1, 2, 3, 5, 6, 9, 10, 13, 14, 17, 18])


def rect_from_body(pose: PoseLandmarks, side: str, size: Size) -> Rect | None:
    """Return roughly where a hand is by the body's landmarks, None if its wrist is hidden."""
    wrist, pinky, index = _BODY_POINTS[side]
    if not pose.visibility[wrist] > _MIN_VISIBILITY:
        return None
    width, height = size
    points = pose.points[[wrist, pinky, index], :2].tolist()
    (wrist_x, wrist_y), (pinky_x, pinky_y), (index_x, index_y) = (
        (x * width, y * height) for x, y in points
    )
    middle_x, middle_y = (2 * index_x + pinky_x) / 3, (2 * index_y + pinky_y) / 3
    side_length = 2 * math.hypot(middle_x - wrist_x, middle_y - wrist_y)
    rotation = wrap_angle(math.pi / 2 - math.atan2(wrist_y - middle_y, middle_x - wrist_x))
    rect = Rect(middle_x / width, middle_y / height, side_length / width, side_length / height,
                rotation)  # fmt: skip
    return enlarge(rect, size, scale=2.7, shift_y=_SHIFT)


def rect_from_recrop(outputs: list[FloatArray], rect: Rect, size: Size) -> Rect:
    """Return where the hand is by the recrop network's outputs for the crop at `rect`."""
    points = project(outputs[0].reshape(2, 2) / np.float32(_RECROP_SIZE), rect)
    center, reach = ((float(x), float(y)) for x, y in points)
    square = rect_on_line(center, reach, size, target=-math.pi / 2)
    return enlarge(square, size, scale=1.0, shift_y=_SHIFT)


def rect_to_read(found: Rect, previous: FloatArray | None, size: Size) -> Rect:
    """Return where the landmarks are read: where the hand was, if that still fits, or `found`."""
    if previous is None:
        return found
    return _RULE.choose(found, _rect_of_landmarks(previous, size), previous, size)


def read_hand(outputs: list[FloatArray], rect: Rect) -> FloatArray | None:
    """Return the landmarks `(21, 3)` from the network's outputs, None if there is no hand."""
    raw, score = outputs
    if not score[0, 0] > _MIN_SCORE:
        return None
    points = raw.reshape(21, 3) / np.float32(_CROP_SIZE)
    points[:, 2] /= np.float32(_DEPTH_SCALE)
    return project(points, rect)


def _rect_of_landmarks(points: FloatArray, size: Size) -> Rect:
    (wrist, index, middle, ring) = points[[0, 5, 9, 13], :2].tolist()
    target = tuple(((a + b) / 2 + c) / 2 for a, b, c in zip(index, ring, middle, strict=True))
    rotation = rotation_between(wrist, (target[0], target[1]), size, target=math.pi / 2)
    box = rotated_box_of_landmarks(points[_PALM, :2], rotation, size)
    return enlarge(box, size, scale=2.0, shift_y=_SHIFT)
