"""What is remembered between the frames of one clip."""

from __future__ import annotations

import dataclasses
import io
import zipfile
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posemill.errors import FormatError
from posemill.estimators.holistic.rects import Rect
from posemill.estimators.holistic.smoothing import OneEuro
from posemill.records import FloatArray

_PARTS = ("left_hand", "right_hand", "face")
_FILTERS = ("body_filter", "world_filter")
# 33 landmarks of the body, and the two that say where it will be: followed more slowly.
_BODY_CUTOFF = np.array([0.05] * 33 + [0.01] * 2, np.float32)[:, None]
_BODY_BETA = np.array([80.0] * 33 + [10.0] * 2)[:, None]


@dataclass
class HolisticState:
    """The memory of one clip.

    Args:
        follows_pose: False is the legacy API's static mode: every frame runs the pose detector and
            nothing is smoothed, but hands and face still remember the frame before.
        smooths: Whether pose landmarks are filtered over time.
        keeps_world: Whether landmarks in metres are wanted too; the old API gives them.
        num_frames: Frames processed so far: the filters' clock.
        next_rect: Where the body is expected in the next frame; None after a frame without a
            person, and where it is not followed.
        visibility: `(33,)` low-passed; kept over frames without a person, as the filter of the
            world landmarks is.
        previous: The landmarks of each part in the frame just before, where it was found.
    """

    follows_pose: bool = True
    smooths: bool = True
    keeps_world: bool = False
    num_frames: int = 0
    next_rect: Rect | None = None
    visibility: FloatArray | None = None
    previous: dict[str, FloatArray | None] = field(default_factory=lambda: dict.fromkeys(_PARTS))
    body_filter: OneEuro = field(default_factory=lambda: OneEuro(_BODY_CUTOFF, _BODY_BETA))
    world_filter: OneEuro = field(default_factory=lambda: OneEuro(0.1, 40.0))

    def lose_person(self) -> None:
        """Take note of a frame without pose landmarks."""
        self.next_rect = None
        self.body_filter.reset()
        self.previous = dict.fromkeys(_PARTS)

    def copy(self) -> HolisticState:
        """Return a state of its own. Arrays are shared: they are replaced, never changed."""
        filters = {name: dataclasses.replace(getattr(self, name)) for name in _FILTERS}
        return dataclasses.replace(self, **filters)

    def to_bytes(self) -> bytes:
        """Return the state as an npz file without pickles."""
        header = (self.follows_pose, self.smooths, self.keeps_world, self.num_frames,
                  *(getattr(self, name).frame for name in _FILTERS))  # fmt: skip
        arrays: dict[str, Any] = {"header": np.array(header, np.int64)}
        named = {"next_rect": self.next_rect, "visibility": self.visibility, **self.previous}
        for name in _FILTERS:
            one = getattr(self, name)
            named |= {f"{name}.{key}": getattr(one, key) for key in ("raw", "smooth", "slope")}
        arrays |= {name: value for name, value in named.items() if value is not None}
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> HolisticState:
        """Return the state that `to_bytes` wrote."""
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            header = [int(value) for value in arrays["header"]]
            follows_pose, smooths, keeps_world, num_frames = header[:4]
        except (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile) as error:
            raise FormatError(f"not a state of the holistic engine: {error}") from error
        state = cls(bool(follows_pose), bool(smooths), bool(keeps_world), num_frames)
        state.visibility = arrays.get("visibility")
        if "next_rect" in arrays:
            state.next_rect = Rect(*arrays["next_rect"])
        state.previous = {part: arrays.get(part) for part in _PARTS}
        for name, frame in zip(_FILTERS, header[4:], strict=True):
            one = getattr(state, name)
            one.frame = frame
            one.raw, one.smooth, one.slope = (
                arrays.get(f"{name}.{key}") for key in ("raw", "smooth", "slope")
            )
        return state
