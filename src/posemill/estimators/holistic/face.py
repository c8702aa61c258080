"""The face: where the body says it is, where it really is, its 468 or 478 landmarks."""

from __future__ import annotations

import numpy as np

from posemill.estimators.holistic.attention import NUM_POINTS, settle_irises
from posemill.estimators.holistic.detection import Detector
from posemill.estimators.holistic.pose import PoseLandmarks
from posemill.estimators.holistic.rects import (
    Rect,
    Size,
    box_of_keypoints,
    box_of_landmarks,
    enlarge,
    project,
    project_by_matrix,
    rotation_between,
    to_pixels,
)
from posemill.estimators.holistic.tracking import TrackingRule
from posemill.records import FloatArray

DETECTOR_STRIDES = (8, 16, 16, 16)
MIN_DETECTION_SCORE = 0.5
_MIN_LOGIT = 0.0
_CROP_SIZE = 192
_RULE = TrackingRule(degrees=15, translation=0.1, scale=0.3, margin=-0.2)
# Right eye and left eye: among the body's landmarks, and the outer corners among the face's.
_BODY_EYES = (5, 2)
_FACE_EYES = (33, 263)


def rect_from_body(pose: PoseLandmarks, size: Size) -> Rect:
    """Return roughly where the face is by the body's landmarks of the head."""
    head = pose.points[:11, :2]
    rotation = _rotation_of_eyes(head[_BODY_EYES[0]], head[_BODY_EYES[1]], size)
    return enlarge(box_of_landmarks(head, rotation), size, scale=3.0)


def rect_from_detection(
    detector: Detector, outputs: list[FloatArray], rect: Rect, size: Size
) -> Rect | None:
    """Return where the face is by the detector's outputs for the crop at `rect`, None if none."""
    points = detector.best(outputs[0][0], outputs[1].reshape(-1))
    if points is None:
        return None
    points = project_by_matrix(points, rect, size)
    rotation = _rotation_of_eyes(points[0], points[1], size)
    return enlarge(box_of_keypoints(points, rotation), size, scale=2.0, shift_y=-0.1)


def rect_to_read(found: Rect, previous: FloatArray | None, size: Size) -> Rect:
    """Return where the landmarks are read: where the face was, if that still fits, or `found`."""
    if previous is None:
        return found
    rotation = _rotation_of_eyes(previous[_FACE_EYES[0]], previous[_FACE_EYES[1]], size)
    box = box_of_landmarks(previous[:, :2], rotation)
    return _RULE.choose(found, enlarge(box, size, scale=1.5), previous, size)


def read_face(outputs: list[FloatArray], rect: Rect) -> FloatArray | None:
    """Return the landmarks `(468 or 478, 3)` from the network's outputs, None if no face."""
    raw, logit = outputs
    # The sigmoid of a logit is above a half where the logit is above zero.
    if not logit[0, 0] > _MIN_LOGIT:
        return None
    points = raw.reshape(-1, 3) / np.float32(_CROP_SIZE)
    if len(points) == NUM_POINTS:
        settle_irises(points)
    return project(points, rect)


def _rotation_of_eyes(right: FloatArray, left: FloatArray, size: Size) -> np.float32:
    right_px, left_px = to_pixels((right[0], right[1]), size), to_pixels((left[0], left[1]), size)
    return rotation_between(right_px, left_px, target=0.0)
