"""Finds the body in each frame of a batch: what Holistic and pose begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np

from posemill.estimators import ClipState, EngineOption
from posemill.estimators.landmarks import body
from posemill.estimators.landmarks.body_state import BodyState
from posemill.estimators.landmarks.crop_network import (
    RUNTIME_OPTION,
    WORLD_OPTION,
    LandmarkEngine,
    Part,
    confidence_options,
)
from posemill.estimators.landmarks.detection import Detector
from posemill.estimators.landmarks.hand import around_wrist
from posemill.estimators.landmarks.rects import Rect, Size, f32
from posemill.records import FloatArray, Frame, Keypoints, nothing_in_metres
from posemill.skeletons import WORLD_LAYOUT, get_skeleton

_NUM_POINTS = 33
# By `model_complexity`.
_NETWORKS = ("pose_landmark_lite", "pose_landmark_full", "pose_landmark_heavy")
BODY_OPTIONS = (
    RUNTIME_OPTION,
    *confidence_options(
        "Of the pose detector.", "Of the pose landmarks; below it nobody is there."
    ),
    EngineOption("smooth_landmarks", bool, True, "Filter the pose over time."),
    EngineOption(
        "model_complexity",
        int,
        1,
        "Of the body's network: 0 is the fastest, 2 the most exact.",
        least=0,
        most=2,
    ),
    WORLD_OPTION,
)


@dataclass
class BodyFrame:
    """One frame on its way through an engine, and what was found in it.

    `state` is None for a frame that stands alone. `body` is None where nobody was found; `parts`
    has those of hands and face that were found, for engines that look for them.
    """

    pixels: Frame
    state: BodyState | None
    body: body.PoseLandmarks | None = None
    parts: dict[str, Part] = field(default_factory=dict)
    size: Size = field(init=False)

    def __post_init__(self) -> None:
        self.size = f32(self.pixels.shape[1]), f32(self.pixels.shape[0])


class BodyEngine(LandmarkEngine[BodyFrame]):
    """An engine that begins with one body: the pose detector, and the network of its landmarks.

    Args:
        device: `cpu`, `cuda:N` or `tensorrt:N`.
        threads: Threads inside one network call. OpenCV's are set to the same number.
        with_masks: Whether `find` gives masks of people, too: they take a third of the network's
            time. Not an option of runs.
        options: Its own, see `info.options`.
    """

    state_class: ClassVar[type[BodyState]] = BodyState

    def __init__(
        self, *, device: str = "cpu", threads: int = 1, with_masks: bool = False, **options: Any
    ) -> None:
        super().__init__(device=device, threads=threads, **options)
        network = _NETWORKS[self.options["model_complexity"]]
        self._body_detector = self._open("pose_detection", repeats_border=False)
        self._body_landmarks = self._open(f"{network}_with_mask" if with_masks else network)
        self._find_body = Detector(
            body.DETECTOR_SIZE,
            body.DETECTOR_STRIDES,
            min_score=self.options["min_detection_confidence"],
        )

    def new_state(self) -> BodyState:
        """Return the state before a clip's first frame."""
        return self.state_class(smooths=self.options["smooth_landmarks"])

    def load_state(self, data: bytes) -> BodyState:
        """Return the state that `to_bytes` of a state wrote."""
        return self.state_class.from_bytes(data)

    def estimate(
        self, frames: Sequence[Frame], states: Sequence[ClipState] | None = None
    ) -> Keypoints:
        """Return the landmarks of a batch of RGB frames of any sizes.

        Scores are the visibility of the body's points; those of a hand or a face are how sure the
        network is that there is one.
        """
        found = self.find(frames, cast("Sequence[BodyState] | None", states))
        skeleton = get_skeleton(self.info.skeleton_names[0])
        points = np.full((len(found), skeleton.num_points, 3), np.nan, np.float32)
        scores = np.zeros((len(found), skeleton.num_points), np.float32)
        for row, frame in enumerate(found):
            if frame.body is not None:
                points[row, :_NUM_POINTS] = frame.body.points
                scores[row, :_NUM_POINTS] = frame.body.visibility
            for name, part in frame.parts.items():
                place = skeleton.part(name)
                points[row, place.start : place.stop] = part.points
                scores[row, place.start : place.stop] = part.score
        sizes_wh = np.array([frame.size for frame in found], np.int32).reshape(-1, 2)
        world = _world_of(found) if self.options["world"] else None
        return Keypoints(points, scores, sizes_wh, world=world)

    def find(
        self, frames: Sequence[Frame], states: Sequence[BodyState] | None = None
    ) -> list[BodyFrame]:
        """Return all that is found in a batch of frames, in the engine's own terms.

        Args:
            frames: `(height, width, 3)` RGB uint8 each.
            states: One per frame, each of another clip, changed in place; None: frames stand alone.
        """
        return self._look_at(frames, states)

    def _begin(self, pixels: Frame, state: BodyState | None) -> BodyFrame:
        return BodyFrame(pixels, state)

    def _find_in(self, batch: list[BodyFrame]) -> None:
        rects: list[Rect | None] = []
        for frame in batch:
            if frame.state is not None:
                frame.state.num_frames += 1
            rects.append(frame.state.next_rect if frame.state else None)
        unknown = [index for index, rect in enumerate(rects) if rect is None]
        seen = self._body_detector.look([(batch[index].pixels, None) for index in unknown])
        for index, (boxes, logits) in zip(unknown, seen, strict=True):
            detection = self._find_body.best(boxes[0], logits.reshape(-1))
            if detection is not None:
                rects[index] = body.rect_from_detection(detection, batch[index].size)
        places = [(frame, rect) for frame, rect in zip(batch, rects, strict=True) if rect]
        read = self._body_landmarks.look([(frame.pixels, rect) for frame, rect in places])
        min_score = self.options["min_tracking_confidence"]
        for (frame, rect), outputs in zip(places, read, strict=True):
            frame.body = body.read_pose(outputs, rect, frame.size, min_score=min_score)
        for frame in batch:
            if frame.body is not None:
                frame.body = body.follow(
                    frame.body, frame.state, frame.size, keeps_world=self.options["world"]
                )
            elif frame.state is not None:
                frame.state.lose_person()


def _world_of(found: Sequence[BodyFrame]) -> FloatArray:
    """Return `(frames, 75, 3)` in metres: the body around the hips, hands around their wrists."""
    world = nothing_in_metres(len(found))
    for row, frame in enumerate(found):
        if frame.body is not None and frame.body.world is not None:
            world[row, :_NUM_POINTS] = frame.body.world
        for name, part in frame.parts.items():
            if part.world is not None:
                place = WORLD_LAYOUT.part(name)
                world[row, place.start : place.stop] = around_wrist(part.world)
    return world
