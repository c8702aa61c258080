"""`mp.solutions.face_detection`: the class, and the names of its points."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from posemill.estimators.face_detector import FaceDetector
from posemill.estimators.landmarks.detection import Detection as FoundFace
from posemill.framework.formats.detection_pb2 import Detection
from posemill.framework.formats.location_data_pb2 import LocationData
from posemill.framework.formats.messages import FloatList, MessageList
from posemill.records import Frame
from posemill.solutions.solution import Solution, check_confidence

__all__ = ["FaceDetection", "FaceKeyPoint", "get_key_point"]


class FaceKeyPoint(IntEnum):
    """The six points of a face; sides are those of its owner."""

    RIGHT_EYE = 0
    LEFT_EYE = 1
    NOSE_TIP = 2
    MOUTH_CENTER = 3
    RIGHT_EAR_TRAGION = 4
    LEFT_EAR_TRAGION = 5


def get_key_point(detection: Detection | None, key_point_enum: FaceKeyPoint) -> Any:
    """Return a point of a face, with x and y in shares of the picture; None where it has none."""
    if not detection or not detection.HasField("location_data"):
        return None
    return detection.location_data.relative_keypoints[key_point_enum]


class FaceDetectionResults(NamedTuple):
    """What was found in one picture, the best first; None without a face."""

    detections: list[Detection] | None


class FaceDetection(Solution[FaceDetectionResults]):
    """Drop-in for the legacy class: the same arguments in the same order, and the same methods.

    Every picture stands alone.

    Args:
        min_detection_confidence: Has no effect, as in the original: the thresholds are 0.5 for
            near faces and 0.6 for far ones.
        model_selection: 1 for faces up to five metres away, any other number for those within two.
        device: `cpu`, `cuda:N` or `tensorrt:N`. Not in the original.
        threads: Threads inside one network call. Not in the original.
    """

    def __init__(
        self,
        min_detection_confidence: float = 0.5,
        model_selection: int = 0,
        *,
        device: str = "cpu",
        threads: int = 1,
    ) -> None:
        check_confidence("min_detection_confidence", min_detection_confidence)
        super().__init__(
            FaceDetector(full_range=model_selection == 1, device=device, threads=threads)
        )

    def _process(self, image: Frame) -> FaceDetectionResults:
        (faces,) = self._engine.find([image])
        return FaceDetectionResults([_message_of(face) for face in faces] or None)


def _message_of(face: FoundFace) -> Detection:
    left, top, width, height = map(float, face.box)
    point = LocationData.RelativeKeypoint
    points = [point.of(x=x, y=y) for x, y in face.points.tolist()]
    location = LocationData.of(
        format=LocationData.RELATIVE_BOUNDING_BOX,
        relative_bounding_box=LocationData.RelativeBoundingBox.of(
            xmin=left, ymin=top, width=width, height=height
        ),
        relative_keypoints=MessageList(point, points),
    )
    score = FloatList([float(face.score)])
    return Detection.of(label_id=[0], score=score, location_data=location)
