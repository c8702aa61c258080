"""The legacy `Holistic` class as old scripts call it: one changed import, the same landmarks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from posemill.errors import ConfigError
from posemill.estimators.holistic.engine import HolisticEstimator
from posemill.estimators.holistic.state import HolisticState
from posemill.records import FloatArray, Frame


class Landmark(NamedTuple):
    """One point: x and y normalised by the picture's size, z in the scale of x."""

    x: float
    y: float
    z: float
    visibility: float = 0.0

    def HasField(self, name: str) -> bool:
        """Return whether the point has that value: hands and faces have no visibility."""
        return name in ("x", "y", "z") or (name == "visibility" and self.visibility > 0)


class LandmarkList:
    """The landmarks of one part, read as `.landmark[i].x` or as an array by `.to_numpy()`."""

    def __init__(self, points: FloatArray, visibility: FloatArray | None = None) -> None:
        self._points, self._visibility = points, visibility
        columns = [points] if visibility is None else [points, visibility[:, None]]
        self.landmark = [Landmark(*row) for row in np.hstack(columns).tolist()]

    def __len__(self) -> int:
        return len(self.landmark)

    def __iter__(self) -> Iterator[Landmark]:
        return iter(self.landmark)

    def to_numpy(self) -> FloatArray:
        """Return `(points, 3)` float32: x, y, z."""
        return self._points.copy()


class HolisticResults(NamedTuple):
    """What was found in one picture; None for a part that was not."""

    pose_landmarks: LandmarkList | None
    pose_world_landmarks: LandmarkList | None
    left_hand_landmarks: LandmarkList | None
    right_hand_landmarks: LandmarkList | None
    face_landmarks: LandmarkList | None
    segmentation_mask: None = None


class Holistic:
    """Drop-in for the legacy class: the same arguments, `process`, `reset`, `close`, `with`.

    Args:
        static_image_mode: Run the person detector on every picture and smooth nothing. As in the
            original, hands and face still remember the picture before; `reset()` makes pictures
            independent.
        model_complexity: 1 only: the other models are not in the published wheel.
        smooth_landmarks: Filter the body over time; not in static mode.
        enable_segmentation: False only.
        smooth_segmentation: Accepted; there is no segmentation.
        refine_face_landmarks: False only (468 points).
        min_detection_confidence: Of the person detector.
        min_tracking_confidence: Of the body's landmarks.
        device: `cpu`, `cuda:N` or `tensorrt:N`. Not in the original.
        threads: Threads inside one network call. Not in the original.
    """

    def __init__(
        self,
        static_image_mode: bool = False,
        model_complexity: int = 1,
        smooth_landmarks: bool = True,
        enable_segmentation: bool = False,
        *positional: Any,
        smooth_segmentation: bool = True,
        refine_face_landmarks: bool = False,
        min_detection_confidence: float = 0.5,
        min_tracking_confidence: float = 0.5,
        device: str = "cpu",
        threads: int = 1,
    ) -> None:
        if positional:
            raise TypeError("Holistic: name the arguments from the fifth on, such as device='cpu'")
        if model_complexity != 1:
            raise ConfigError(
                f"model_complexity={model_complexity} is not supported: only the models of "
                f"complexity 1 are in the published wheel; use model_complexity=1"
            )
        if enable_segmentation:
            raise ConfigError(
                "enable_segmentation=True is not supported: posemill leaves the segmentation out "
                "to save a third of the body network's time; use enable_segmentation=False"
            )
        if refine_face_landmarks:
            raise ConfigError(
                "refine_face_landmarks=True (478 points) is not supported; use "
                "refine_face_landmarks=False (468 points)"
            )
        self._engine = HolisticEstimator(
            device=device, threads=threads, smooth_landmarks=smooth_landmarks,
            min_detection_confidence=min_detection_confidence,
            min_tracking_confidence=min_tracking_confidence,
        )  # fmt: skip
        self._static = bool(static_image_mode)
        self._state: HolisticState | None = None
        self.reset()

    def process(self, image: Frame) -> HolisticResults:
        """Return what is in an RGB picture `(height, width, 3)` uint8."""
        if self._state is None:
            raise ValueError("this Holistic was closed; make a new one")
        frame = self._engine.find([image], [self._state])[0]
        body = frame.body
        parts = {name: LandmarkList(points) for name, points in frame.parts.items()}
        return HolisticResults(
            pose_landmarks=LandmarkList(body.points, body.visibility) if body else None,
            pose_world_landmarks=(
                LandmarkList(body.world, body.visibility)
                if body and body.world is not None
                else None
            ),
            left_hand_landmarks=parts.get("left_hand"),
            right_hand_landmarks=parts.get("right_hand"),
            face_landmarks=parts.get("face"),
        )

    def reset(self) -> None:
        """Forget all pictures seen so far."""
        self._state = self._engine.new_state()
        self._state.follows_pose = not self._static
        self._state.keeps_world = True
        if self._static:
            self._state.smooths = False

    def close(self) -> None:
        """Free the networks."""
        self._engine.close()
        self._state = None

    def __enter__(self) -> Holistic:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
