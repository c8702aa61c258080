"""What is remembered of bodies between the frames of one clip, and how states become bytes."""

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
_FLAGS = ("follows_pose", "smooths", "num_frames", "num_missing")
# 33 landmarks of the body, and the two that say where it will be: followed more slowly.
_BODY_CUTOFF = np.array([0.05] * 33 + [0.01] * 2, np.float32)[:, None]
_BODY_BETA = np.array([80.0] * 33 + [10.0] * 2)[:, None]


@dataclass
class BodyState:
    """The memory of one person in one clip.

    Args:
        follows_pose: False is the legacy API's static mode: every frame runs the pose detector and
            nothing is smoothed.
        smooths: Whether pose landmarks are filtered over time.
        num_frames: Frames processed so far: the filters' clock.
        num_missing: Frames since the person was seen last.
        next_rect: Where the body is expected in the next frame; None after a frame without the
            person, and where it is not followed.
        last_rect: Where it was last expected; None for somebody who was never seen.
        visibility: `(33,)` low-passed; kept over frames without a person, as the filter of the
            world landmarks is.
    """

    follows_pose: bool = True
    smooths: bool = True
    num_frames: int = 0
    num_missing: int = 0
    next_rect: Rect | None = None
    last_rect: Rect | None = None
    visibility: FloatArray | None = None
    body_filter: OneEuro = field(default_factory=lambda: OneEuro(_BODY_CUTOFF, _BODY_BETA))
    world_filter: OneEuro = field(default_factory=lambda: OneEuro(0.1, 40.0))

    def lose_person(self) -> None:
        """Take note of a frame without pose landmarks."""
        self.num_missing += 1
        self.next_rect = None
        self.body_filter.reset()

    def expect(self, rect: Rect) -> None:
        """Take note of where the body will be in the next frame."""
        self.num_missing = 0
        self.next_rect = self.last_rect = rect

    def for_newcomer(self: _State) -> _State:
        """Return the memory of somebody who was not seen before, in the same clip."""
        return type(self)(self.follows_pose, self.smooths, self.num_frames)

    def copy(self: _State) -> _State:
        """Return a state of its own. Arrays are shared: they are replaced, never changed."""
        filters = {name: dataclasses.replace(getattr(self, name)) for name in _FILTERS}
        return dataclasses.replace(self, **filters)

    @classmethod
    def from_arrays(cls: type[_State], arrays: Arrays) -> _State:
        """Return the state that `as_arrays` gave."""
        if "header" not in arrays:
            raise FormatError("not a state of this engine: a person has no header")
        state = cls()
        state._take(arrays)
        return state

    def as_arrays(self) -> dict[str, Any]:
        """Return the state as arrays by name, some of them None."""
        header = [getattr(self, name) for name in _FLAGS]
        header += [getattr(self, name).frame for name in _FILTERS]
        arrays: dict[str, Any] = {"header": header, "visibility": self.visibility}
        arrays |= {"next_rect": self.next_rect, "last_rect": self.last_rect}
        for name in _FILTERS:
            one = getattr(self, name)
            arrays |= {f"{name}.{key}": getattr(one, key) for key in ("raw", "smooth", "slope")}
        return arrays

    def _take(self, arrays: Arrays) -> None:
        follows_pose, smooths, *numbers = arrays["header"].tolist()
        self.num_frames, self.num_missing, *frames = numbers
        self.follows_pose, self.smooths = bool(follows_pose), bool(smooths)
        self.visibility = arrays.get("visibility")
        for name in ("next_rect", "last_rect"):
            if name in arrays:
                setattr(self, name, Rect(*arrays[name]))
        for name, frame in zip(_FILTERS, frames, strict=True):
            one = getattr(self, name)
            one.frame = frame
            one.raw, one.smooth, one.slope = (
                arrays.get(f"{name}.{key}") for key in ("raw", "smooth", "slope")
            )


@dataclass
class PeopleState:
    """The memory of one clip: of each person who is followed, or was lost not long ago.

    Args:
        people: At least one; where `next_rect` is None the person is lost, or was never seen.
        num_frames: Frames processed so far.
    """

    people: list[BodyState]
    num_frames: int = 0

    def forget(self, max_missing: int) -> None:
        """Forget people who are lost for longer; the last one stays, as stock's filters do."""
        recent = [person for person in self.people if person.num_missing <= max_missing]
        self.people = recent or self.people[:1]

    def copy(self) -> PeopleState:
        """Return a state of its own."""
        return PeopleState([person.copy() for person in self.people], self.num_frames)

    def to_bytes(self) -> bytes:
        """Return the state as an npz file without pickles."""
        arrays: dict[str, Any] = {"clip": [len(self.people), self.num_frames]}
        for number, person in enumerate(self.people):
            named = person.as_arrays().items()
            arrays |= {f"{number}.{name}": value for name, value in named}
        return pack_arrays(arrays)

    @classmethod
    def from_bytes(cls, data: bytes, person_class: type[BodyState]) -> PeopleState:
        """Return the state that `to_bytes` wrote."""
        arrays = unpack_arrays(data, "clip")
        num_people, num_frames = arrays["clip"].tolist()
        people = []
        for number in range(num_people):
            prefix = f"{number}."
            named = {
                name.removeprefix(prefix): value
                for name, value in arrays.items()
                if name.startswith(prefix)
            }
            people.append(person_class.from_arrays(named))
        return cls(people, num_frames)


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
