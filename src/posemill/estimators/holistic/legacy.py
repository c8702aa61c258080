"""The legacy `Holistic` class as old scripts call it: one changed import, the same landmarks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from posemill.errors import ConfigError
from posemill.estimators.holistic.engine import HolisticEstimator
from posemill.estimators.holistic.state import HolisticState
from posemill.framework.formats.landmark_pb2 import LandmarkList
from posemill.records import Frame


class HolisticResults(NamedTuple):
    """What was found in one picture; None for a part that was not."""

    pose_landmarks: LandmarkList | None
    pose_world_landmarks: LandmarkList | None
    left_hand_landmarks: LandmarkList | None
    right_hand_landmarks: LandmarkList | None
    face_landmarks: LandmarkList | None
    segmentation_mask: None = None


class Holistic:
    """Drop-in for the legacy class: the same arguments in the same order, and the same methods.

    Args:
        static_image_mode: Run the person detector on every picture and smooth nothing. As in the
            original, hands and face still remember the picture before; `reset()` makes pictures
            independent.
        model_complexity: Of the body's network: 0, 1 or 2.
        smooth_landmarks: Filter the body over time; not in static mode.
        enable_segmentation: False only.
        smooth_segmentation: Accepted; there is no segmentation.
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
        if enable_segmentation:
            raise ConfigError(
                "enable_segmentation=True is not supported: posemill leaves the segmentation out "
                "to save a third of the body network's time; use enable_segmentation=False"
            )
        self._engine = HolisticEstimator(
            device=device, threads=threads, smooth_landmarks=smooth_landmarks,
            min_detection_confidence=min_detection_confidence,
            min_tracking_confidence=min_tracking_confidence, model_complexity=model_complexity,
            refine_face_landmarks=refine_face_landmarks,
        )  # fmt: skip
        self._static = bool(static_image_mode)
        # None after close.
        self._state: HolisticState | None = self._new_state()

    def process(self, image: Frame) -> HolisticResults:
        """Return what is in an RGB picture `(height, width, 3)` uint8.

        Raises:
            ValueError: No such picture, or `close` was called before.
        """
        if self._state is None:
            raise ValueError("this Holistic was closed; make a new one")
        if image is None:
            raise ValueError(
                "image: expected a picture (height, width, 3) uint8 RGB, got None; cv2.imread "
                "returns None for a file it cannot read: check its path"
            )
        if not isinstance(image, np.ndarray):
            raise ValueError(
                f"image: expected a numpy array (height, width, 3) uint8 RGB, got "
                f"{type(image).__name__}; read the picture first, for instance with cv2.imread"
            )
        frame = self._engine.find([image], [self._state])[0]
        body = frame.body
        parts = {name: LandmarkList.of_points(points) for name, points in frame.parts.items()}
        return HolisticResults(
            pose_landmarks=LandmarkList.of_points(body.points, body.visibility) if body else None,
            pose_world_landmarks=(
                LandmarkList.of_points(body.world, body.visibility)
                if body and body.world is not None
                else None
            ),
            left_hand_landmarks=parts.get("left_hand"),
            right_hand_landmarks=parts.get("right_hand"),
            face_landmarks=parts.get("face"),
        )

    def reset(self) -> None:
        """Forget all pictures seen so far; nothing to do after `close`."""
        if self._state is not None:
            self._state = self._new_state()

    def _new_state(self) -> HolisticState:
        state = self._engine.new_state()
        state.follows_pose = not self._static
        state.keeps_world = True
        if self._static:
            state.smooths = False
        return state

    def close(self) -> None:
        """Free the networks."""
        self._engine.close()
        self._state = None

    def __enter__(self) -> Holistic:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
