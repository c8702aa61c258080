"""`mp.solutions.face_mesh`: the class, and the names of its lines."""

from __future__ import annotations

from typing import NamedTuple

from posemill.estimators.face import FaceEstimator
from posemill.framework.formats.landmark_pb2 import LandmarkList
from posemill.records import Frame
from posemill.solutions.face_mesh_connections import *  # noqa: F403  its sets of lines
from posemill.solutions.solution import InstanceSolution

FACEMESH_NUM_LANDMARKS = 468
FACEMESH_NUM_LANDMARKS_WITH_IRISES = 478


class FaceMeshResults(NamedTuple):
    """What was found in one picture; None without a face."""

    multi_face_landmarks: list[LandmarkList] | None


class FaceMesh(InstanceSolution[FaceMeshResults]):
    """Drop-in for the legacy class: the same arguments in the same order, and the same methods.

    Args:
        static_image_mode: Every picture stands alone: faces are looked for in each.
        max_num_faces: Faces are looked for while fewer are followed.
        refine_landmarks: Give 478 points, irises among them, instead of 468.
        min_detection_confidence: Of the face detector.
        min_tracking_confidence: Of a face's landmarks; below it there is no face.
        device: `cpu`, `cuda:N` or `tensorrt:N`. Not in the original.
        threads: Threads inside one network call. Not in the original.
    """

    def __init__(  # noqa: PLR0917  old scripts may give them by position
        self,
        static_image_mode: bool = False,
        max_num_faces: int = 1,
        refine_landmarks: bool = False,
        min_detection_confidence: float = 0.5,
        min_tracking_confidence: float = 0.5,
        *,
        device: str = "cpu",
        threads: int = 1,
    ) -> None:
        engine = FaceEstimator(
            device=device,
            threads=threads,
            max_num_faces=max_num_faces,
            refine_landmarks=bool(refine_landmarks),
            min_detection_confidence=min_detection_confidence,
            min_tracking_confidence=min_tracking_confidence,
        )
        super().__init__(engine, static_image_mode=static_image_mode)

    def _process(self, image: Frame) -> FaceMeshResults:
        faces = self._find(image)
        return FaceMeshResults([LandmarkList.of_points(face.points) for face in faces] or None)
