"""How Holistic finds hands and faces: where the body says they are, then where they really are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import cast

from posemill.estimators.holistic.state import HolisticState
from posemill.estimators.landmarks.body import PoseLandmarks
from posemill.estimators.landmarks.body_finder import BodyFrame
from posemill.estimators.landmarks.crop_network import CropNetwork, Part
from posemill.estimators.landmarks.rects import Rect, Size
from posemill.records import FloatArray


class PartFinder(ABC):
    """Finds one kind of parts of bodies, in four steps.

    Networks push pictures out of the processor's caches, so the steps of all kinds take turns: all
    crops of a stage are cut before its networks run.

    Args:
        locator: Sees the region by the body, and says where the part is.
        reader: Sees the part, and gives its landmarks.
    """

    def __init__(self, locator: CropNetwork, reader: CropNetwork) -> None:
        self._locator, self._reader = locator, reader
        self._places: list[tuple[BodyFrame, str, Rect]] = []

    @abstractmethod
    def _rects_from_body(self, body: PoseLandmarks, size: Size) -> Iterable[tuple[str, Rect]]:
        """Return the names of parts that a body may have, and roughly where each is."""

    @abstractmethod
    def _rect_from_locator(self, outputs: list[FloatArray], rect: Rect, size: Size) -> Rect | None:
        """Return where the part is, None if there is none."""

    @abstractmethod
    def _rect_to_read(self, rect: Rect, previous: FloatArray | None, size: Size) -> Rect:
        """Return where to read it: there, or where it was in the frame before."""

    @abstractmethod
    def _read(self, outputs: list[FloatArray], rect: Rect, size: Size) -> Part | None:
        """Return the part that the reader saw, None if it saw none."""

    def begin(self, people: Sequence[BodyFrame]) -> None:
        """Cut where the bodies say that their parts are."""
        self._places = [
            (frame, name, rect)
            for frame in people
            if frame.body is not None
            for name, rect in self._rects_from_body(frame.body, frame.size)
        ]
        self._cut(self._locator)

    def locate(self) -> None:
        """Let the first network say where the parts are."""
        located = []
        for (frame, name, rough), outputs in zip(self._places, self._locator.run(), strict=True):
            rect = self._rect_from_locator(outputs, rough, frame.size)
            if rect is not None:
                state = cast("HolisticState | None", frame.state)
                previous = state.previous[name] if state is not None else None
                located.append((frame, name, self._rect_to_read(rect, previous, frame.size)))
        self._places = located

    def cut(self) -> None:
        """Cut where the parts are."""
        self._cut(self._reader)

    def read(self) -> None:
        """Let the second network read their landmarks into the frames."""
        for (frame, name, rect), outputs in zip(self._places, self._reader.run(), strict=True):
            part = self._read(outputs, rect, frame.size)
            if part is not None:
                frame.parts[name] = part

    def _cut(self, network: CropNetwork) -> None:
        network.cut([(frame.pixels, rect) for frame, _, rect in self._places])
