"""What Holistic remembers of a person between the frames of one clip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from posemill.estimators.landmarks.body_state import Arrays, BodyState
from posemill.estimators.landmarks.crop_network import Part
from posemill.records import FloatArray

_PARTS = ("left_hand", "right_hand", "face")


@dataclass
class HolisticState(BodyState):
    """The memory of one person: the body's, and `previous`.

    Args:
        previous: The landmarks of each part in the frame just before, where it was found. Static
            mode, too, remembers them.
    """

    previous: dict[str, FloatArray | None] = field(default_factory=lambda: dict.fromkeys(_PARTS))

    def lose_person(self) -> None:
        """Take note of a frame without pose landmarks."""
        super().lose_person()
        self.previous = dict.fromkeys(_PARTS)

    def remember(self, parts: Mapping[str, Part]) -> None:
        """Take note of the hands and the face of a frame."""
        self.previous = {name: parts[name].points if name in parts else None for name in _PARTS}

    def as_arrays(self) -> dict[str, Any]:
        """Return the state as arrays by name, some of them None."""
        return {**super().as_arrays(), **self.previous}

    def _take(self, arrays: Arrays) -> None:
        super()._take(arrays)
        self.previous = {part: arrays.get(part) for part in _PARTS}
