"""`mp.solutions.pose`: the class, and the names of its points and lines."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from posemill.estimators.pose import PoseEstimator
from posemill.framework.formats.landmark_pb2 import LandmarkList
from posemill.records import FloatArray, Frame
from posemill.skeletons.layouts import POSE_NAMES
from posemill.solutions.body import BodySolution, body_fields
from posemill.solutions.pose_connections import POSE_CONNECTIONS

__all__ = ["POSE_CONNECTIONS", "Pose", "PoseLandmark"]

# The type checker would have all names written out here once more.
PoseLandmark = IntEnum(  # type: ignore[misc]
    "PoseLandmark", [name.upper() for name in POSE_NAMES], start=0
)


class PoseResults(NamedTuple):
    """What was found in one picture; None where nobody was."""

    pose_landmarks: LandmarkList | None
    pose_world_landmarks: LandmarkList | None
    segmentation_mask: FloatArray | None


class Pose(BodySolution[PoseResults]):
    """Drop-in for the legacy class: the same arguments in the same order, and the same methods.

    Args:
        static_image_mode: Every picture stands alone: the person detector runs on each.
        model_complexity: Of the network: 0, 1 or 2.
        smooth_landmarks: Filter landmarks over time; not in static mode.
        enable_segmentation: Give a mask of the person, too: `results.segmentation_mask`.
        smooth_segmentation: Changes no value, as in the original, but in video mode all pictures
            must have one size.
        min_detection_confidence: Of the person detector.
        min_tracking_confidence: Of the landmarks; below it nobody is there.
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
        min_detection_confidence: float = 0.5,
        min_tracking_confidence: float = 0.5,
        *,
        device: str = "cpu",
        threads: int = 1,
    ) -> None:
        engine = PoseEstimator(
            device=device,
            threads=threads,
            smooth_landmarks=bool(smooth_landmarks),
            min_detection_confidence=min_detection_confidence,
            min_tracking_confidence=min_tracking_confidence,
            model_complexity=model_complexity,
            with_masks=bool(enable_segmentation),
            world=True,
        )
        super().__init__(
            engine, static_image_mode=static_image_mode, smooth_segmentation=smooth_segmentation
        )

    def _process(self, image: Frame) -> PoseResults:
        return PoseResults(*body_fields(self._find(image)[0]))
