"""`mp.solutions.holistic`: the class, and the names of its points and lines."""

from __future__ import annotations

from typing import NamedTuple

from posemill.estimators.holistic.engine import HolisticEstimator
from posemill.framework.formats.landmark_pb2 import LandmarkList
from posemill.records import FloatArray, Frame
from posemill.solutions.body import BodySolution, body_fields
from posemill.solutions.face_mesh_connections import *  # noqa: F403  its sets of lines
from posemill.solutions.hands import HAND_CONNECTIONS as HAND_CONNECTIONS
from posemill.solutions.hands import HandLandmark as HandLandmark
from posemill.solutions.pose import POSE_CONNECTIONS
from posemill.solutions.pose import PoseLandmark as PoseLandmark

# Names of versions before 0.8.8 and 0.8.4.
FACE_CONNECTIONS = FACEMESH_CONTOURS  # noqa: F405
UPPER_BODY_POSE_CONNECTIONS = frozenset(pair for pair in POSE_CONNECTIONS if max(pair) < 25)


class HolisticResults(NamedTuple):
    """What was found in one picture; None for a part that was not."""

    pose_landmarks: LandmarkList | None
    pose_world_landmarks: LandmarkList | None
    left_hand_landmarks: LandmarkList | None
    right_hand_landmarks: LandmarkList | None
    face_landmarks: LandmarkList | None
    segmentation_mask: FloatArray | None


class Holistic(BodySolution[HolisticResults]):
    """Drop-in for the legacy class: the same arguments in the same order, and the same methods.

    Args:
        static_image_mode: Run the person detector on every picture and smooth nothing. As in the
            original, hands and face still remember the picture before; `reset()` makes pictures
            independent.
        model_complexity: Of the body's network: 0, 1 or 2.
        smooth_landmarks: Filter the body over time; not in static mode.
        enable_segmentation: Give a mask of the person, too: `results.segmentation_mask`.
        smooth_segmentation: Changes no value, as in the original, but in video mode all pictures
            must have one size.
        refine_face_landmarks: Give 478 points of the face, irises among them, instead of 468.
        min_detection_confidence: Of the person detector.
        min_tracking_confidence: Of the body's landmarks.
        device: `cpu`, `cuda:N` or `tensorrt:N`. Not in the original.
        threads: Threads inside one network call. Not in the original.
    """

    def __init__(  # noqa: PLR0917  old scripts may give them by position
        self,
        static_image_mode: bool = False,
        model_complexity: int = 1,
        smooth_landmarks: bool = True,
        enable_segmentation: bool = False,
        smooth_segmentation: bool = True,
        refine_face_landmarks: bool = False,
        min_detection_confidence: float = 0.5,
        min_tracking_confidence: float = 0.5,
        *,
        device: str = "cpu",
        threads: int = 1,
    ) -> None:
        engine = HolisticEstimator(
            device=device,
            threads=threads,
            smooth_landmarks=bool(smooth_landmarks),
            min_detection_confidence=min_detection_confidence,
            min_tracking_confidence=min_tracking_confidence,
            model_complexity=model_complexity,
            refine_face_landmarks=bool(refine_face_landmarks),
            with_masks=bool(enable_segmentation),
            world=True,
        )
        super().__init__(
            engine, static_image_mode=static_image_mode, smooth_segmentation=smooth_segmentation
        )

    def _process(self, image: Frame) -> HolisticResults:
        body, found = self._find(image)
        parts = {name: LandmarkList.of_points(part.points) for name, part in found.items()}
        landmarks, world, mask = body_fields(body)
        return HolisticResults(
            pose_landmarks=landmarks,
            pose_world_landmarks=world,
            left_hand_landmarks=parts.get("left_hand"),
            right_hand_landmarks=parts.get("right_hand"),
            face_landmarks=parts.get("face"),
            segmentation_mask=mask,
        )
