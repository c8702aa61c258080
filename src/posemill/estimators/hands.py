"""The engine of hands: MediaPipe's legacy Hands (0.10.21), in batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from posemill.estimators import ClipState, EngineInfo, EngineOption
from posemill.estimators.landmarks import hand
from posemill.estimators.landmarks.crop_network import RUNTIME_OPTION, confidence_options
from posemill.estimators.landmarks.detection import Detection, Detector, without_letterbox
from posemill.estimators.landmarks.instances import InstanceFinder, InstanceState
from posemill.estimators.landmarks.rects import Rect, Size
from posemill.estimators.people import gather_people
from posemill.records import FloatArray, Frame, Keypoints

_NUM_POINTS = 21
# By `model_complexity`.
_PALM_NETWORKS = ("palm_detection_lite", "palm_detection_full")
_HAND_NETWORKS = ("hand_landmark_lite_with_side", "hand_landmark_full_with_side")


class HandsEstimator(InstanceFinder[hand.Hand]):
    """Hands of a picture, each with 21 points and the side it is of.

    Args:
        device: `cpu`, `cuda:N` or `tensorrt:N`.
        threads: Threads inside one network call. OpenCV's are set to the same number.
        runtime: `litert` (CPU only), `onnxruntime`, or `auto`: LiteRT on a CPU.
        max_num_hands: Palms are looked for while fewer are followed.
        model_complexity: Of both networks: 0 is faster, 1 more exact.
        min_detection_confidence: Of a palm.
        min_tracking_confidence: Of a hand's landmarks; below it there is no hand.
    """

    name = "hands"
    info = EngineInfo(
        "several hands, left and right: MediaPipe Hands 0.10.21",
        ("hands-42",),
        people="several",
        devices=("cpu", "cuda", "tensorrt"),
        needs=("ai_edge_litert", "onnxruntime"),
        brought_by="ai-edge-litert",
        options=(
            RUNTIME_OPTION,
            EngineOption("max_num_hands", int, 2, "Look for palms while fewer are followed.",
                         least=1),
            EngineOption("model_complexity", int, 1, "0 is faster, 1 more exact.",
                         least=0, most=1),
            *confidence_options("Of a palm.", "Of a hand; below it there is none."),
        ),
    )  # fmt: skip

    def __init__(
        self,
        *,
        device: str = "cpu",
        threads: int = 1,
        runtime: str = "auto",
        max_num_hands: int = 2,
        model_complexity: int = 1,
        min_detection_confidence: float = 0.5,
        min_tracking_confidence: float = 0.5,
    ) -> None:
        options = {
            "runtime": runtime, "max_num_hands": max_num_hands,
            "model_complexity": model_complexity,
            "min_detection_confidence": min_detection_confidence,
            "min_tracking_confidence": min_tracking_confidence,
        }  # fmt: skip
        super().__init__(options, device=device, threads=threads)
        self.max_instances = max_num_hands
        self._min_score = min_tracking_confidence
        self._detector = self._open(_PALM_NETWORKS[model_complexity], repeats_border=False)
        self._landmarks = self._open(_HAND_NETWORKS[model_complexity])
        self._find = Detector(hand.PALM_SIZE, hand.PALM_STRIDES, min_score=min_detection_confidence)

    def estimate(
        self, frames: Sequence[Frame], states: Sequence[ClipState] | None = None
    ) -> Keypoints:
        """Return the hands of a batch of RGB frames of any sizes.

        The largest hand of each side make up the first instance, the next ones the second, …
        """
        found = self.find(frames, cast("Sequence[InstanceState] | None", states))
        return keypoints_of_hands(frames, found)

    def _rect_from_detection(self, detection: Detection, size: Size) -> Rect:
        return hand.rect_from_palm(without_letterbox(detection, size), size)

    def _read(self, outputs: list[FloatArray], rect: Rect, size: Size) -> hand.Hand | None:
        return hand.read_hand(outputs, rect, size, min_score=self._min_score)

    def _next_rect(self, instance: hand.Hand, size: Size) -> Rect:
        return hand.rect_of_landmarks(instance.points, size)


def keypoints_of_hands(frames: Sequence[Frame], found: Sequence[Sequence[hand.Hand]]) -> Keypoints:
    """Return the hands of each frame: the largest of each side first."""
    return gather_people(frames, [_in_pairs(hands) for hands in found], 2 * _NUM_POINTS)


def _in_pairs(hands: Sequence[hand.Hand]) -> tuple[FloatArray, FloatArray]:
    """Return points `(pairs, 42, 3)` and scores: left and right hands of the same rank."""
    sides = [sorted((it for it in hands if it.side == side), key=_area, reverse=True)
             for side in (0, 1)]  # fmt: skip
    number = max(map(len, sides))
    points = np.full((number, 2 * _NUM_POINTS, 3), np.nan, np.float32)
    for side, ranked in enumerate(sides):
        for row, one in enumerate(ranked):
            points[row, side * _NUM_POINTS : (side + 1) * _NUM_POINTS] = one.points
    return points, np.where(np.isnan(points[..., 0]), 0, 1).astype(np.float32)


def _area(one: hand.Hand) -> float:
    return float(np.ptp(one.points[:, :2], axis=0).prod())
