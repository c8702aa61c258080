"""A face: where it was detected, its 468 or 478 landmarks, and where it will be."""

from __future__ import annotations

import numpy as np

from posemill.estimators.landmarks.attention import NUM_POINTS, settle_irises
from posemill.estimators.landmarks.crop_network import Part
from posemill.estimators.landmarks.detection import Detection
from posemill.estimators.landmarks.libm import sigmoid
from posemill.estimators.landmarks.rects import (
    Rect,
    Size,
    box_of_landmarks,
    enlarge,
    project,
    rotation_between,
    to_pixels,
)
from posemill.records import FloatArray

DETECTOR_STRIDES = (8, 16, 16, 16)
DETECTOR_SIZE = 128
_CROP_SIZE = 192
# The outer corners of right and left eye.
_EYES = (33, 263)
_SCALE = 1.5


def rect_from_detection(detection: Detection, size: Size) -> Rect:
    """Return where the face is that was detected in a picture of that size."""
    rotation = rotation_of_eyes(detection.points[0], detection.points[1], size)
    return enlarge(detection.rect(rotation), size, scale=_SCALE)


def rect_of_landmarks(points: FloatArray, size: Size) -> Rect:
    """Return where a face with these landmarks is expected in the next frame."""
    rotation = rotation_of_eyes(points[_EYES[0]], points[_EYES[1]], size)
    return enlarge(box_of_landmarks(points[:, :2], rotation), size, scale=_SCALE)


def read_face(outputs: list[FloatArray], rect: Rect, *, min_score: float) -> Part | None:
    """Return the landmarks `(468 or 478, 3)` from the network's outputs, None if no face."""
    raw, logit = outputs
    score = float(sigmoid(logit[0, :1])[0])
    if not score > min_score:
        return None
    points = raw.reshape(-1, 3) / np.float32(_CROP_SIZE)
    if len(points) == NUM_POINTS:
        settle_irises(points)
    return Part(project(points, rect), score)


def rotation_of_eyes(right: FloatArray, left: FloatArray, size: Size) -> np.float32:
    """Return by how much a face is turned whose eyes are at these places, in shares."""
    right_px, left_px = to_pixels((right[0], right[1]), size), to_pixels((left[0], left[1]), size)
    return rotation_between(right_px, left_px, target=0.0)
