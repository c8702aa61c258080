"""The engine of faces: MediaPipe's legacy FaceMesh (0.10.21), in batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from posemill.estimators import ClipState, EngineInfo, EngineOption
from posemill.estimators.landmarks import face
from posemill.estimators.landmarks.crop_network import (
    REFINED_FACE,
    RUNTIME_OPTION,
    confidence_options,
)
from posemill.estimators.landmarks.detection import Detection, Detector, project_detection
from posemill.estimators.landmarks.instances import InstanceFinder, InstanceState
from posemill.estimators.landmarks.rects import Rect, Size
from posemill.estimators.people import gather_people
from posemill.records import FloatArray, Frame, Keypoints
from posemill.skeletons import get_skeleton


class FaceEstimator(InstanceFinder[FloatArray]):
    """Faces of a picture, each with 468 points, or 478 with the irises.

    Args:
        device: `cpu`, `cuda:N` or `tensorrt:N`.
        threads: Threads inside one network call. OpenCV's are set to the same number.
        runtime: `litert` (CPU only), `onnxruntime`, or `auto`: LiteRT on a CPU.
        max_num_faces: Faces are looked for while fewer are followed.
        refine_landmarks: Whether lips, eyes and irises are looked at a second time: 478 points.
        min_detection_confidence: Of the detector.
        min_tracking_confidence: Of a face's landmarks; below it there is no face.
    """

    name = "face"
    info = EngineInfo(
        "several faces, 468 points each: MediaPipe FaceMesh 0.10.21",
        ("face-468", "face-68"),
        people="several",
        devices=("cpu", "cuda", "tensorrt"),
        needs=("ai_edge_litert", "onnxruntime"),
        brought_by="ai-edge-litert",
        options=(
            RUNTIME_OPTION,
            EngineOption("max_num_faces", int, 1, "Look for faces while fewer are followed.",
                         least=1),
            EngineOption("refine_landmarks", bool, False,
                         "Look at lips, eyes and irises a second time: 478 points.",
                         skeletons=("face-478", "face-468", "face-68")),
            *confidence_options("Of the detector.", "Of a face; below it there is none."),
        ),
    )  # fmt: skip

    def __init__(
        self,
        *,
        device: str = "cpu",
        threads: int = 1,
        runtime: str = "auto",
        max_num_faces: int = 1,
        refine_landmarks: bool = False,
        min_detection_confidence: float = 0.5,
        min_tracking_confidence: float = 0.5,
    ) -> None:
        options = {
            "runtime": runtime, "max_num_faces": max_num_faces,
            "refine_landmarks": bool(refine_landmarks),
            "min_detection_confidence": min_detection_confidence,
            "min_tracking_confidence": min_tracking_confidence,
        }  # fmt: skip
        super().__init__(options, device=device, threads=threads)
        self.max_instances = max_num_faces
        self._min_score = min_tracking_confidence
        self._detector = self._open("face_detection_short_range", repeats_border=False)
        network = REFINED_FACE if refine_landmarks else "face_landmark"
        self._landmarks = self._open(network, stretches=True)
        self._find = Detector(
            face.DETECTOR_SIZE, face.DETECTOR_STRIDES, min_score=min_detection_confidence
        )

    def estimate(
        self, frames: Sequence[Frame], states: Sequence[ClipState] | None = None
    ) -> Keypoints:
        """Return the faces of a batch of RGB frames of any sizes, the largest first."""
        found = self.find(frames, cast("Sequence[InstanceState] | None", states))
        return keypoints_of_faces(frames, found, self.info.skeleton_names[0])

    def _rect_from_detection(self, detection: Detection, size: Size) -> Rect:
        return face.rect_from_detection(project_detection(detection, size), size)

    def _read(self, outputs: list[FloatArray], rect: Rect, size: Size) -> FloatArray | None:
        return face.read_face(outputs, rect, min_score=self._min_score)

    def _next_rect(self, instance: FloatArray, size: Size) -> Rect:
        return face.rect_of_landmarks(instance, size)


def keypoints_of_faces(
    frames: Sequence[Frame], found: Sequence[Sequence[FloatArray]], skeleton_name: str
) -> Keypoints:
    """Return the faces of each frame, the largest first."""
    num_points = get_skeleton(skeleton_name).num_points
    faces = [np.array(points, np.float32).reshape(-1, num_points, 3) for points in found]
    people = [(points, np.ones(points.shape[:2], np.float32)) for points in faces]
    return gather_people(frames, people, num_points)
