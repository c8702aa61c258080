"""The face: where the body says it is, where it really is, its 468 landmarks."""

from __future__ import annotations

import math

import numpy as np

from posemill.estimators.holistic.detection import Detector
from posemill.estimators.holistic.pose import PoseLandmarks
from posemill.estimators.holistic.rects import (
    Rect,
    Size,
    box_of_keypoints,
    box_of_landmarks,
    enlarge,
    project,
    rotation_between,
)
from posemill.estimators.holistic.tracking import TrackingRule
from posemill.records import FloatArray

DETECTOR_STRIDES = (8, 16, 16, 16)
MIN_DETECTION_SCORE = 0.5
_MIN_SCORE = 0.5
_CROP_SIZE = 192
_RULE = TrackingRule(degrees=15, translation=0.1, scale=0.3, margin=-0.2)
# Right eye and left eye: among the body's landmarks, and the outer corners among the face's.
_BODY_EYES = (5, 2)
_FACE_EYES = (33, 263)


def rect_from_body(pose: PoseLandmarks, size: Size) -> Rect:
    """Return roughly where the face is by the body's landmarks of the head."""
    head = pose.points[:11, :2]
    right_eye, left_eye = (tuple(head[eye].tolist()) for eye in _BODY_EYES)
    rotation = rotation_between(right_eye, left_eye, size, target=0.0)
    return enlarge(box_of_landmarks(head)._replace(rotation=rotation), size, scale=3.0)


def rect_from_detection(
    detector: Detector, outputs: list[FloatArray], rect: Rect, size: Size
) -> Rect | None:
    """Return where the face is by the detector's outputs for the crop at `rect`, None if none."""
    points = detector.best(outputs[0][0], outputs[1].reshape(-1))
    if points is None:
        return None
    points = project(points, rect)
    right_eye, left_eye = (tuple(point.tolist()) for point in points[:2])
    rotation = rotation_between(right_eye, left_eye, size, target=0.0)
    box = box_of_keypoints(points)._replace(rotation=rotation)
    return enlarge(box, size, scale=2.0, shift_y=-0.1)


def rect_to_read(found: Rect, previous: FloatArray | None, size: Size) -> Rect:
    """Return where the landmarks are read: where the face was, if that still fits, or `found`."""
    if previous is None:
        return found
    right_eye, left_eye = (tuple(previous[eye, :2].tolist()) for eye in _FACE_EYES)
    rotation = rotation_between(right_eye, left_eye, size, target=0.0)
    box = box_of_landmarks(previous[:, :2])._replace(rotation=rotation)
    return _RULE.choose(found, enlarge(box, size, scale=1.5), previous, size)


def read_face(outputs: list[FloatArray], rect: Rect) -> FloatArray | None:
    """Return the landmarks `(468, 3)` from the network's outputs, None if there is no face."""
    raw, logit = outputs
    if not 1 / (1 + math.exp(-float(np.clip(logit[0, 0], -80, 80)))) > _MIN_SCORE:
        return None
    return project(raw.reshape(468, 3) / np.float32(_CROP_SIZE), rect)
