"""What Holistic and Pose have in common: a body, its metres and its mask."""

from __future__ import annotations

from typing import Any, Generic

from posemill.estimators.landmarks.body import PoseLandmarks
from posemill.estimators.landmarks.crop_network import Part
from posemill.framework.formats.landmark_pb2 import LandmarkList
from posemill.records import FloatArray, Frame
from posemill.solutions.solution import MaskMemory, Results, Solution, read_only


class BodySolution(Solution[Results], Generic[Results]):
    """A solution that finds one body in each picture.

    Args:
        engine: `HolisticEstimator` or `PoseEstimator`.
        static_image_mode: Whether bodies are not followed from picture to picture.
        smooth_segmentation: Whether masks would be smoothed over time.
    """

    def __init__(self, engine: Any, *, static_image_mode: bool, smooth_segmentation: bool) -> None:
        self._is_static = bool(static_image_mode)
        self._smooths_masks = bool(smooth_segmentation) and not self._is_static
        super().__init__(engine)

    def reset(self) -> None:
        """Forget all pictures seen so far; nothing to do after `close`."""
        if self._is_closed:
            return
        self._masks = MaskMemory()
        self._state = self._engine.new_state()
        (person,) = self._state.people
        person.follows_pose = not self._is_static
        person.smooths = person.smooths and not self._is_static

    def _find(self, image: Frame) -> tuple[PoseLandmarks | None, dict[str, Part]]:
        """Return the body in a picture, and its parts."""
        (people,) = self._engine.find([image], [self._state])
        body, parts = (people[0].body, people[0].parts) if people else (None, {})
        if self._smooths_masks:
            self._masks.check(body.mask if body else None)
        return body, parts


def body_fields(
    body: PoseLandmarks | None,
) -> tuple[LandmarkList | None, LandmarkList | None, FloatArray | None]:
    """Return landmarks, landmarks in metres and the mask, each None where there is none."""
    if body is None:
        return None, None, None
    world = None if body.world is None else LandmarkList.of_points(body.world, body.visibility)
    return LandmarkList.of_points(body.points, body.visibility), world, read_only(body.mask)
