"""Where Holistic reads the face: where the body says it is, where it really is, or where it was."""

from __future__ import annotations

from collections.abc import Iterable

from posemill.estimators.holistic.parts import PartFinder
from posemill.estimators.holistic.tracking import TrackingRule
from posemill.estimators.landmarks.body import PoseLandmarks
from posemill.estimators.landmarks.crop_network import CropNetwork, Part
from posemill.estimators.landmarks.detection import Detection, Detector, project_detection
from posemill.estimators.landmarks.face import (
    DETECTOR_SIZE,
    DETECTOR_STRIDES,
    read_face,
    rect_of_landmarks,
    rotation_of_eyes,
)
from posemill.estimators.landmarks.rects import (
    Rect,
    Size,
    box_of_keypoints,
    box_of_landmarks,
    enlarge,
)
from posemill.records import FloatArray

MIN_SCORE = 0.5
_RULE = TrackingRule(degrees=15, translation=0.1, scale=0.3, margin=-0.2)
# Right eye and left eye among the body's landmarks.
_BODY_EYES = (5, 2)


def rect_from_body(pose: PoseLandmarks, size: Size) -> Rect:
    """Return roughly where the face is by the body's landmarks of the head."""
    head = pose.points[:11, :2]
    rotation = rotation_of_eyes(head[_BODY_EYES[0]], head[_BODY_EYES[1]], size)
    return enlarge(box_of_landmarks(head, rotation), size, scale=3.0)


def rect_from_detection(detection: Detection, rect: Rect, size: Size) -> Rect:
    """Return where the face is that was detected in the crop at `rect`."""
    points = project_detection(detection, size, rect).points
    rotation = rotation_of_eyes(points[0], points[1], size)
    return enlarge(box_of_keypoints(points, rotation), size, scale=2.0, shift_y=-0.1)


def rect_to_read(found: Rect, previous: FloatArray | None, size: Size) -> Rect:
    """Return where the landmarks are read: where the face was, if that still fits, or `found`."""
    if previous is None:
        return found
    return _RULE.choose(found, rect_of_landmarks(previous, size), previous, size)


class FaceFinder(PartFinder):
    """Faces: a detector says where they are."""

    def __init__(self, locator: CropNetwork, reader: CropNetwork) -> None:
        super().__init__(locator, reader)
        self._find = Detector(DETECTOR_SIZE, DETECTOR_STRIDES, min_score=MIN_SCORE)

    def _rects_from_body(self, body: PoseLandmarks, size: Size) -> Iterable[tuple[str, Rect]]:
        return [("face", rect_from_body(body, size))]

    def _rect_from_locator(self, outputs: list[FloatArray], rect: Rect, size: Size) -> Rect | None:
        detection = self._find.best(outputs[0][0], outputs[1].reshape(-1))
        return None if detection is None else rect_from_detection(detection, rect, size)

    def _rect_to_read(self, rect: Rect, previous: FloatArray | None, size: Size) -> Rect:
        return rect_to_read(rect, previous, size)

    def _read(self, outputs: list[FloatArray], rect: Rect, size: Size) -> Part | None:
        return read_face(outputs, rect, min_score=MIN_SCORE)
