"""The engine of faces: MediaPipe's legacy FaceMesh (0.10.21), in batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from posemill.estimators import ClipState, EngineInfo, EngineOption
from posemill.estimators.landmarks import face
from posemill.estimators.landmarks.crop_network import (
    LANDMARK_NEEDS,
    REFINED_FACE,
    RUNTIME_OPTION,
    Part,
    confidence_options,
)
from posemill.estimators.landmarks.detection import Detection, Detector, project_detection
from posemill.estimators.landmarks.instances import InstanceFinder, InstanceState
from posemill.estimators.landmarks.rects import Rect, Size
from posemill.estimators.people import gather_people
from posemill.records import FloatArray, Frame, Keypoints
from posemill.skeletons import get_skeleton


class FaceEstimator(InstanceFinder[Part]):
    """Faces of a picture, each with 468 points, or 478 with the irises."""

    name = "face"
    info = EngineInfo(
        "several faces, 468 points each: MediaPipe FaceMesh 0.10.21",
        ("face-468", "face-68"),
        people="several",
        **LANDMARK_NEEDS,
        options=(
            RUNTIME_OPTION,
            EngineOption(
                "max_num_faces", int, 1, "Look for faces while fewer are followed.", least=1
            ),
            EngineOption(
                "refine_landmarks",
                bool,
                False,
                "Look at lips, eyes and irises a second time: 478 points.",
                skeletons=("face-478", "face-468", "face-68"),
            ),
            *confidence_options("Of the detector.", "Of a face; below it there is none."),
        ),
    )

    def __init__(self, *, device: str = "cpu", threads: int = 1, **options: Any) -> None:
        super().__init__(device=device, threads=threads, **options)
        self.max_instances = self.options["max_num_faces"]
        self._detector = self._open("face_detection_short_range", repeats_border=False)
        network = REFINED_FACE if self.options["refine_landmarks"] else "face_landmark"
        self._landmarks = self._open(network, stretches=True)
        self._find = Detector(
            face.DETECTOR_SIZE,
            face.DETECTOR_STRIDES,
            min_score=self.options["min_detection_confidence"],
        )

    def estimate(
        self, frames: Sequence[Frame], states: Sequence[ClipState] | None = None
    ) -> Keypoints:
        """Return the faces of a batch of RGB frames of any sizes, the largest first."""
        found = self.find(frames, cast("Sequence[InstanceState] | None", states))
        return keypoints_of_faces(frames, found, self.info.skeleton_names[0])

    def _rect_from_detection(self, detection: Detection, size: Size) -> Rect:
        return face.rect_from_detection(project_detection(detection, size), size)

    def _read(self, outputs: list[FloatArray], rect: Rect, size: Size) -> Part | None:
        return face.read_face(outputs, rect, min_score=self.options["min_tracking_confidence"])

    def _next_rect(self, instance: Part, size: Size) -> Rect:
        return face.rect_of_landmarks(instance.points, size)


def keypoints_of_faces(
    frames: Sequence[Frame], found: Sequence[Sequence[Part]], skeleton_name: str
) -> Keypoints:
    """Return the faces of each frame, the largest first."""
    num_points = get_skeleton(skeleton_name).num_points
    people = []
    for faces in found:
        points = np.array([each.points for each in faces], np.float32).reshape(-1, num_points, 3)
        scores = np.array([[each.score] * num_points for each in faces], np.float32)
        people.append((points, scores.reshape(-1, num_points)))
    return gather_people(frames, people, num_points)
