"""Finds several hands or faces in each frame of a batch, and follows them through clips."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from posemill.estimators.landmarks.body_state import pack_arrays, unpack_arrays
from posemill.estimators.landmarks.crop_network import CropNetwork, LandmarkEngine
from posemill.estimators.landmarks.detection import Detection, Detector
from posemill.estimators.landmarks.rects import Rect, Size, f32, overlap
from posemill.records import FloatArray, Frame

Instance = TypeVar("Instance")
_MAX_OVERLAP = 0.5


@dataclass
class InstanceState:
    """The memory of one clip: where each hand or face is expected in the next frame."""

    rects: tuple[Rect, ...] = ()

    def copy(self) -> InstanceState:
        """Return a state of its own."""
        return InstanceState(self.rects)

    def to_bytes(self) -> bytes:
        """Return the state as an npz file without pickles."""
        return pack_arrays({"rects": np.array(self.rects, np.float32).reshape(-1, 5)})

    @classmethod
    def from_bytes(cls, data: bytes) -> InstanceState:
        """Return the state that `to_bytes` wrote."""
        return cls(tuple(Rect(*row) for row in unpack_arrays(data, "rects")["rects"]))


@dataclass
class InstanceFrame(Generic[Instance]):
    """One frame on its way through the engine, and the hands or faces in it."""

    pixels: Frame
    state: InstanceState | None
    rects: list[Rect] = field(default_factory=list)
    found: list[Instance] = field(default_factory=list)
    size: Size = field(init=False)

    def __post_init__(self) -> None:
        self.size = f32(self.pixels.shape[1]), f32(self.pixels.shape[0])

    @property
    def tracked(self) -> tuple[Rect, ...]:
        """Where those of the frame before are expected."""
        return self.state.rects if self.state else ()


def associate(detected: Iterable[Rect], tracked: Iterable[Rect]) -> list[Rect]:
    """Return where to look: new ones before those that are tracked.

    Each one takes the place of all before it with which it shares more than half of their union: a
    tracked one that of its detection, and of two detections the worse one that of the better.
    """
    places: list[Rect] = []
    for rect in (*detected, *tracked):
        places = [place for place in places if not overlap(place, rect) > _MAX_OVERLAP]
        places.append(rect)
    return places


class InstanceFinder(LandmarkEngine[InstanceFrame[Instance]], Generic[Instance]):
    """An engine of several instances: detector, association, landmarks.

    A subclass opens `_detector` and `_landmarks`, makes `_find` and says what a detection and the
    outputs of the second network mean. The detector runs while fewer than `max_instances` are
    followed. More can be found: those that are followed and as many new ones.
    """

    _detector: CropNetwork
    _landmarks: CropNetwork
    _find: Detector
    max_instances: int

    @abstractmethod
    def _rect_from_detection(self, detection: Detection, size: Size) -> Rect:
        """Return where to look by a detection in the square around the whole picture."""

    @abstractmethod
    def _read(self, outputs: list[FloatArray], rect: Rect, size: Size) -> Instance | None:
        """Return what the network found at `rect`, None if nothing."""

    @abstractmethod
    def _next_rect(self, instance: Instance, size: Size) -> Rect:
        """Return where it is expected in the next frame."""

    def new_state(self) -> InstanceState:
        """Return the state before a clip's first frame."""
        return InstanceState()

    def load_state(self, data: bytes) -> InstanceState:
        """Return the state `InstanceState.to_bytes` wrote."""
        return InstanceState.from_bytes(data)

    def find(
        self, frames: Sequence[Frame], states: Sequence[InstanceState] | None = None
    ) -> list[list[Instance]]:
        """Return what is found in each frame of a batch, in the order of stock's lists.

        Args:
            frames: `(height, width, 3)` RGB uint8 each.
            states: One per frame, each of another clip, changed in place; None: frames stand alone.
        """
        return [frame.found for frame in self._look_at(frames, states)]

    def _begin(self, pixels: Frame, state: InstanceState | None) -> InstanceFrame[Instance]:
        return InstanceFrame(pixels, state)

    def _find_in(self, batch: list[InstanceFrame[Instance]]) -> None:
        searched = [frame for frame in batch if len(frame.tracked) < self.max_instances]
        seen = self._detector.look([(frame.pixels, None) for frame in searched])
        for frame, outputs in zip(searched, seen, strict=True):
            frame.rects = list(self._detect(outputs, frame.size))
        for frame in batch:
            frame.rects = associate(frame.rects, frame.tracked)
        places = [(frame, rect) for frame in batch for rect in frame.rects]
        read = self._landmarks.look([(frame.pixels, rect) for frame, rect in places])
        for (frame, rect), outputs in zip(places, read, strict=True):
            instance = self._read(outputs, rect, frame.size)
            if instance is not None:
                frame.found.append(instance)
        for frame in batch:
            if frame.state is not None:
                frame.state.rects = tuple(self._next_rect(it, frame.size) for it in frame.found)

    def _detect(self, outputs: list[FloatArray], size: Size) -> Iterator[Rect]:
        detections = self._find.find(outputs[0][0], outputs[1].reshape(-1))
        for _, detection in zip(range(self.max_instances), detections, strict=False):
            yield self._rect_from_detection(detection, size)
