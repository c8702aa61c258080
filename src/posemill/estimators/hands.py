"""The engine of hands: MediaPipe's legacy Hands (0.10.21), in batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from posemill.estimators import ClipState, EngineInfo, EngineOption
from posemill.estimators.landmarks import hand
from posemill.estimators.landmarks.crop_network import (
    LANDMARK_NEEDS,
    RUNTIME_OPTION,
    WORLD_OPTION,
    confidence_options,
)
from posemill.estimators.landmarks.detection import Detection, Detector, without_letterbox
from posemill.estimators.landmarks.instances import InstanceFinder, InstanceState
from posemill.estimators.landmarks.rects import Rect, Size
from posemill.estimators.people import gather_people
from posemill.records import FloatArray, Frame, Keypoints, nothing_in_metres
from posemill.skeletons import WORLD_LAYOUT
from posemill.weights.networks import load_side_layer

_NUM_POINTS = 21
_WORLD_PARTS = tuple(WORLD_LAYOUT.part(name) for name in ("left_hand", "right_hand"))
# By `model_complexity`.
_PALM_NETWORKS = ("palm_detection_lite", "palm_detection_full")
_HAND_MODELS = ("hand_landmark_lite", "hand_landmark_full")


class HandsEstimator(InstanceFinder[hand.Hand]):
    """Hands of a picture, each with 21 points and the side it is of."""

    name = "hands"
    info = EngineInfo(
        "several hands, left and right: MediaPipe Hands 0.10.21",
        ("hands-42",),
        people="several",
        **LANDMARK_NEEDS,
        options=(
            RUNTIME_OPTION,
            EngineOption(
                "max_num_hands", int, 2, "Look for palms while fewer are followed.", least=1
            ),
            EngineOption("model_complexity", int, 1, "0 is faster, 1 more exact.", least=0, most=1),
            *confidence_options("Of a palm.", "Of a hand; below it there is none."),
            WORLD_OPTION,
        ),
    )

    def __init__(self, *, device: str = "cpu", threads: int = 1, **options: Any) -> None:
        super().__init__(device=device, threads=threads, **options)
        complexity = self.options["model_complexity"]
        self.max_instances = self.options["max_num_hands"]
        self._detector = self._open(_PALM_NETWORKS[complexity], repeats_border=False)
        self._landmarks = self._open(f"{_HAND_MODELS[complexity]}_with_side")
        self._side_layer = hand.SideLayer(*load_side_layer(_HAND_MODELS[complexity]))
        self._find = Detector(
            hand.PALM_SIZE, hand.PALM_STRIDES, min_score=self.options["min_detection_confidence"]
        )

    def estimate(
        self, frames: Sequence[Frame], states: Sequence[ClipState] | None = None
    ) -> Keypoints:
        """Return the hands of a batch of RGB frames of any sizes.

        The largest hand of each side make up the first instance, the next ones the second, …
        """
        found = self.find(frames, cast("Sequence[InstanceState] | None", states))
        return keypoints_of_hands(frames, found, keeps_world=self.options["world"])

    def _rect_from_detection(self, detection: Detection, size: Size) -> Rect:
        return hand.rect_from_palm(without_letterbox(detection, size), size)

    def _read(self, outputs: list[FloatArray], rect: Rect, size: Size) -> hand.Hand | None:
        min_score = self.options["min_tracking_confidence"]
        return hand.read_hand(outputs, rect, size, layer=self._side_layer, min_score=min_score)

    def _next_rect(self, instance: hand.Hand, size: Size) -> Rect:
        return hand.rect_of_landmarks(instance.points, size)


def keypoints_of_hands(
    frames: Sequence[Frame], found: Sequence[Sequence[hand.Hand]], *, keeps_world: bool = False
) -> Keypoints:
    """Return the hands of each frame: the largest of each side first."""
    pairs = [_in_pairs(hands) for hands in found]
    return gather_people(
        frames,
        [(points, scores) for points, scores, _ in pairs],
        2 * _NUM_POINTS,
        worlds=[world for _, _, world in pairs] if keeps_world else None,
    )


def _in_pairs(hands: Sequence[hand.Hand]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return points `(pairs, 42, 3)`, scores and metres `(pairs, 75, 3)`.

    A pair is a left and a right hand of the same rank by size.
    """
    ranked = sorted(hands, key=_area, reverse=True)
    sides = [[each for each in ranked if each.side == side] for side in (0, 1)]
    number = max(map(len, sides))
    points = np.full((number, 2, _NUM_POINTS, 3), np.nan, np.float32)
    scores = np.zeros((number, 2, _NUM_POINTS), np.float32)
    world = nothing_in_metres(number)
    for side, (hands_of_side, part) in enumerate(zip(sides, _WORLD_PARTS, strict=True)):
        for row, found in enumerate(hands_of_side):
            points[row, side], scores[row, side] = found.points, found.score
            world[row, part.start : part.stop] = hand.around_wrist(found.world)
    num_points = 2 * _NUM_POINTS
    return points.reshape(number, num_points, 3), scores.reshape(number, num_points), world


def _area(found: hand.Hand) -> float:
    return float(np.ptp(found.points[:, :2], axis=0).prod())
