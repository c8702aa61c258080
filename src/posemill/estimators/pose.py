"""The engine of one body: MediaPipe's legacy Pose (0.10.21), in batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from posemill.estimators import ClipState, EngineInfo, EngineOption, checked_frames
from posemill.estimators.landmarks.body_finder import BodyFinder, BodyFrame
from posemill.estimators.landmarks.body_state import BodyState
from posemill.estimators.landmarks.crop_network import (
    RUNTIME_OPTION,
    LandmarkEngine,
    confidence_options,
)
from posemill.records import Frame, Keypoints

_NUM_POINTS = 33
BODY_OPTIONS = (
    RUNTIME_OPTION,
    *confidence_options("Of the pose detector.",
                        "Of the pose landmarks; below it nobody is there."),
    EngineOption("smooth_landmarks", bool, True, "Filter the pose over time."),
    EngineOption("model_complexity", int, 1,
                 "Of the body's network: 0 is the fastest, 2 the most exact.", least=0, most=2),
)  # fmt: skip


class PoseEstimator(LandmarkEngine):
    """The body of one person, 33 points: what Holistic gives without hands and face.

    Args:
        device: `cpu`, `cuda:N` or `tensorrt:N`.
        threads: Threads inside one network call. OpenCV's are set to the same number.
        runtime: `litert` (CPU only), `onnxruntime`, or `auto`: LiteRT on a CPU.
        min_detection_confidence: Of the pose detector.
        min_tracking_confidence: Of the pose landmarks; below it nobody is there.
        smooth_landmarks: Whether landmarks are filtered over time in video mode.
        model_complexity: Of the network: 0 is the fastest, 2 the most exact.
        with_masks: Whether `find` gives masks of people, too. Not an option of runs.
    """

    name = "pose"
    info = EngineInfo(
        "the body of one person: MediaPipe Pose 0.10.21",
        ("pose-33", "openpose-18", "coco-17"),
        devices=("cpu", "cuda", "tensorrt"),
        needs=("ai_edge_litert", "onnxruntime"),
        brought_by="ai-edge-litert",
        options=BODY_OPTIONS,
    )

    def __init__(
        self,
        *,
        device: str = "cpu",
        threads: int = 1,
        runtime: str = "auto",
        min_detection_confidence: float = 0.5,
        min_tracking_confidence: float = 0.5,
        smooth_landmarks: bool = True,
        model_complexity: int = 1,
        with_masks: bool = False,
    ) -> None:
        options = {
            "runtime": runtime, "min_detection_confidence": min_detection_confidence,
            "min_tracking_confidence": min_tracking_confidence,
            "smooth_landmarks": bool(smooth_landmarks), "model_complexity": model_complexity,
        }  # fmt: skip
        super().__init__(options, device=device, threads=threads)
        self._bodies = BodyFinder(
            self._open, model_complexity=model_complexity, with_masks=with_masks,
            min_detection_confidence=min_detection_confidence,
            min_tracking_confidence=min_tracking_confidence,
        )  # fmt: skip

    def new_state(self) -> BodyState:
        """Return the state before a clip's first frame."""
        return BodyState(smooths=self.options["smooth_landmarks"])

    def load_state(self, data: bytes) -> BodyState:
        """Return the state `BodyState.to_bytes` wrote."""
        return BodyState.from_bytes(data)

    def estimate(
        self, frames: Sequence[Frame], states: Sequence[ClipState] | None = None
    ) -> Keypoints:
        """Return the 33 landmarks of a batch of RGB frames of any sizes."""
        found = self.find(frames, cast("Sequence[BodyState] | None", states))
        points = np.full((len(found), _NUM_POINTS, 3), np.nan, np.float32)
        scores = np.zeros((len(found), _NUM_POINTS), np.float32)
        for row, frame in enumerate(found):
            if frame.body is not None:
                points[row], scores[row] = frame.body.points, frame.body.visibility
        sizes_wh = np.array([frame.size for frame in found], np.int32).reshape(-1, 2)
        return Keypoints(points, scores, sizes_wh)

    def find(
        self, frames: Sequence[Frame], states: Sequence[BodyState] | None = None
    ) -> list[BodyFrame]:
        """Return all that is found in a batch of frames, in the engine's own terms.

        Args:
            frames: `(height, width, 3)` RGB uint8 each.
            states: One per frame, each of another clip, changed in place; None: frames stand alone.
        """
        if states is not None and len(states) != len(frames):
            raise ValueError(f"states: expected {len(frames)}, one per frame, got {len(states)}")
        batch = [
            BodyFrame(frame, states[index] if states else None)
            for index, frame in enumerate(checked_frames(frames))
        ]
        for start in range(0, len(batch), self._max_batch):
            self._bodies.find(batch[start : start + self._max_batch])
        return batch

    def close(self) -> None:
        """Free the networks."""
        if hasattr(self, "_bodies"):
            del self._bodies
