"""`mp.solutions.hands`: the class, and the names of its points and lines."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from posemill.estimators.hands import HandsEstimator
from posemill.framework.formats.classification_pb2 import Classification, ClassificationList
from posemill.framework.formats.landmark_pb2 import LandmarkList
from posemill.records import Frame
from posemill.skeletons.layouts import HAND_NAMES
from posemill.solutions.hands_connections import HAND_CONNECTIONS
from posemill.solutions.solution import InstanceSolution

__all__ = ["HAND_CONNECTIONS", "HandLandmark", "Hands"]

_FINGERS = ("index", "middle", "ring")


def _name(point: str) -> str:
    """Return the original's name of a point of ours: its fingers are called fingers."""
    finger = point.partition("_")[0]
    return point.replace(finger, f"{finger}_finger", 1) if finger in _FINGERS else point


# The type checker would have all names written out here once more.
HandLandmark = IntEnum(  # type: ignore[misc]
    "HandLandmark", [_name(name).upper() for name in HAND_NAMES], start=0
)


class HandsResults(NamedTuple):
    """What was found in one picture: lists of the same length and order, None without a hand."""

    multi_hand_landmarks: list[LandmarkList] | None
    multi_hand_world_landmarks: list[LandmarkList] | None
    multi_handedness: list[ClassificationList] | None


class Hands(InstanceSolution[HandsResults]):
    """Drop-in for the legacy class: the same arguments in the same order, and the same methods.

    As in the original, labels take the picture for mirrored ("Left" is the right hand of whom a
    camera sees), new hands come before those that are followed, and there can be more than
    `max_num_hands`.

    Args:
        static_image_mode: Every picture stands alone: palms are looked for in each.
        max_num_hands: Palms are looked for while fewer hands are followed.
        model_complexity: Of both networks: 0 or 1.
        min_detection_confidence: Of a palm.
        min_tracking_confidence: Of a hand's landmarks; below it there is no hand.
        device: `cpu`, `cuda:N` or `tensorrt:N`. Not in the original.
        threads: Threads inside one network call. Not in the original.
    """

    def __init__(  # noqa: PLR0917  old scripts may give them by position
        self,
        static_image_mode: bool = False,
        max_num_hands: int = 2,
        model_complexity: int = 1,
        min_detection_confidence: float = 0.5,
        min_tracking_confidence: float = 0.5,
        *,
        device: str = "cpu",
        threads: int = 1,
    ) -> None:
        engine = HandsEstimator(
            device=device,
            threads=threads,
            max_num_hands=max_num_hands,
            model_complexity=model_complexity,
            min_detection_confidence=min_detection_confidence,
            min_tracking_confidence=min_tracking_confidence,
        )
        super().__init__(engine, static_image_mode=static_image_mode)

    def _process(self, image: Frame) -> HandsResults:
        hands = self._find(image)
        if not hands:
            return HandsResults(None, None, None)
        sides = [
            Classification(index=hand.side, score=hand.side_score, label=hand.label)
            for hand in hands
        ]
        return HandsResults(
            multi_hand_landmarks=[LandmarkList.of_points(hand.points) for hand in hands],
            multi_hand_world_landmarks=[LandmarkList.of_points(hand.world) for hand in hands],
            multi_handedness=[ClassificationList(classification=[side]) for side in sides],
        )
