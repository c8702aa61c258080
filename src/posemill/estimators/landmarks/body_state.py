"""What is remembered of a body between the frames of one clip, and how states become bytes."""

from __future__ import annotations

import dataclasses
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from posemill.errors import FormatError
from posemill.estimators.landmarks.rects import Rect
from posemill.estimators.landmarks.smoothing import OneEuro
from posemill.records import FloatArray

Arrays = dict[str, npt.NDArray[Any]]
_State = TypeVar("_State", bound="BodyState")
_FILTERS = ("body_filter", "world_filter")
_FLAGS = ("follows_pose", "smooths", "num_frames")
# 33 landmarks of the body, and the two that say where it will be: followed more slowly.
_BODY_CUTOFF = np.array([0.05] * 33 + [0.01] * 2, np.float32)[:, None]
_BODY_BETA = np.array([80.0] * 33 + [10.0] * 2)[:, None]


@dataclass
class BodyState:
    """The memory of one clip.

    Args:
        follows_pose: False is the legacy API's static mode: every frame runs the pose detector and
            nothing is smoothed.
        smooths: Whether pose landmarks are filtered over time.
        num_frames: Frames processed so far: the filters' clock.
        next_rect: Where the body is expected in the next frame; None after a frame without a
            person, and where it is not followed.
        visibility: `(33,)` low-passed; kept over frames without a person, as the filter of the
            world landmarks is.
    """

    follows_pose: bool = True
    smooths: bool = True
    num_frames: int = 0
    next_rect: Rect | None = None
    visibility: FloatArray | None = None
    body_filter: OneEuro = field(default_factory=lambda: OneEuro(_BODY_CUTOFF, _BODY_BETA))
    world_filter: OneEuro = field(default_factory=lambda: OneEuro(0.1, 40.0))

    def lose_person(self) -> None:
        """Take note of a frame without pose landmarks."""
        self.next_rect = None
        self.body_filter.reset()

    def copy(self: _State) -> _State:
        """Return a state of its own. Arrays are shared: they are replaced, never changed."""
        filters = {name: dataclasses.replace(getattr(self, name)) for name in _FILTERS}
        return dataclasses.replace(self, **filters)

    def to_bytes(self) -> bytes:
        """Return the state as an npz file without pickles."""
        return pack_arrays(self._as_arrays())

    @classmethod
    def from_bytes(cls: type[_State], data: bytes) -> _State:
        """Return the state that `to_bytes` wrote."""
        arrays = unpack_arrays(data, "header")
        state = cls()
        state._take(arrays)
        return state

    def _as_arrays(self) -> dict[str, Any]:
        header = [getattr(self, name) for name in _FLAGS]
        header += [getattr(self, name).frame for name in _FILTERS]
        arrays = {"header": header, "next_rect": self.next_rect, "visibility": self.visibility}
        for name in _FILTERS:
            one = getattr(self, name)
            arrays |= {f"{name}.{key}": getattr(one, key) for key in ("raw", "smooth", "slope")}
        return arrays

    def _take(self, arrays: Arrays) -> None:
        follows_pose, smooths, self.num_frames, *frames = arrays["header"].tolist()
        self.follows_pose, self.smooths = bool(follows_pose), bool(smooths)
        self.visibility = arrays.get("visibility")
        if "next_rect" in arrays:
            self.next_rect = Rect(*arrays["next_rect"])
        for name, frame in zip(_FILTERS, frames, strict=True):
            one = getattr(self, name)
            one.frame = frame
            one.raw, one.smooth, one.slope = (
                arrays.get(f"{name}.{key}") for key in ("raw", "smooth", "slope")
            )


def pack_arrays(arrays: Mapping[str, Any]) -> bytes:
    """Return arrays as an npz file without pickles; those that are None are left out."""
    buffer = io.BytesIO()
    np.savez(buffer, **{name: value for name, value in arrays.items() if value is not None})
    return buffer.getvalue()


def unpack_arrays(data: bytes, *needed: str) -> Arrays:
    """Return what `pack_arrays` wrote; raise a `FormatError` where a needed array is missing."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise FormatError("not a state of this engine: {error}", error=error) from error
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise FormatError(
            "not a state of this engine: it has no {missing}", missing=", ".join(missing)
        )
    return arrays
