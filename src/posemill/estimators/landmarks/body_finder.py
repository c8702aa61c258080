"""Finds the body in each frame of a batch: what Holistic and pose begin with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from posemill.estimators.landmarks import body
from posemill.estimators.landmarks.body_state import BodyState
from posemill.estimators.landmarks.crop_network import CropNetwork
from posemill.estimators.landmarks.detection import Detector
from posemill.estimators.landmarks.rects import Rect, Size, f32
from posemill.records import Frame

# By `model_complexity`.
_NETWORKS = ("pose_landmark_lite", "pose_landmark_full", "pose_landmark_heavy")


@dataclass
class BodyFrame:
    """One frame on its way through an engine, and the body in it.

    `state` is None for a frame that stands alone. `body` is None where nobody was found.
    """

    pixels: Frame
    state: BodyState | None
    body: body.PoseLandmarks | None = None
    size: Size = field(init=False)

    def __post_init__(self) -> None:
        self.size = f32(self.pixels.shape[1]), f32(self.pixels.shape[0])


class BodyFinder:
    """The pose detector, and the network of the body's landmarks.

    Args:
        open_network: Opens a network with its crops.
        model_complexity: 0, 1 or 2.
        min_detection_confidence: Of the detector.
        min_tracking_confidence: Of the landmarks; below it nobody is there.
        with_masks: Whether masks of people are wanted: they take a third of the network's time.
    """

    def __init__(
        self,
        open_network: Callable[..., CropNetwork],
        *,
        model_complexity: int,
        min_detection_confidence: float,
        min_tracking_confidence: float,
        with_masks: bool = False,
    ) -> None:
        network = _NETWORKS[model_complexity]
        self._detector = open_network("pose_detection", repeats_border=False)
        self._landmarks = open_network(f"{network}_with_mask" if with_masks else network)
        self._find = Detector(
            body.DETECTOR_SIZE, body.DETECTOR_STRIDES, min_score=min_detection_confidence
        )
        self._min_score = min_tracking_confidence

    def find(self, batch: Sequence[BodyFrame]) -> None:
        """Find the body in each frame, where there is one, and go on in its state."""
        rects: list[Rect | None] = []
        for frame in batch:
            if frame.state is not None:
                frame.state.num_frames += 1
            rects.append(frame.state.next_rect if frame.state else None)
        unknown = [index for index, rect in enumerate(rects) if rect is None]
        seen = self._detector.look([(batch[index].pixels, None) for index in unknown])
        for index, (boxes, logits) in zip(unknown, seen, strict=True):
            detection = self._find.best(boxes[0], logits.reshape(-1))
            if detection is not None:
                rects[index] = body.rect_from_detection(detection, batch[index].size)
        places = [(frame, rect) for frame, rect in zip(batch, rects, strict=True) if rect]
        read = self._landmarks.look([(frame.pixels, rect) for frame, rect in places])
        for (frame, rect), outputs in zip(places, read, strict=True):
            frame.body = body.read_pose(outputs, rect, frame.size, min_score=self._min_score)
        for frame in batch:
            if frame.body is not None:
                frame.body = body.follow(frame.body, frame.state, frame.size)
            elif frame.state is not None:
                frame.state.lose_person()
