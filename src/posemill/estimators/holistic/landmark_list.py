"""Landmarks as old scripts know them: the fields and manners of the original's protobuf messages.

Objects are made when `.landmark` is first asked for: whoever takes arrays pays nothing for them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posemill.records import FloatArray

_FIELDS = ("x", "y", "z", "visibility", "presence")


class Landmark:
    """One point: x and y normalised by the picture's size, z in the scale of x.

    All fields can be assigned. `visibility` and `presence` read 0.0 where they are not set, and
    `HasField` tells: the body's points have a visibility, hands and face have neither.
    """

    __hash__ = None  # type: ignore[assignment]  # as of every object whose fields can be assigned
    __slots__ = ("_presence", "_visibility", "x", "y", "z")

    def __init__(  # noqa: PLR0917  the fields, in the original's order
        self,
        x: float = 0.0,
        y: float = 0.0,
        z: float = 0.0,
        visibility: float | None = None,
        presence: float | None = None,
    ) -> None:
        self.x = x
        self.y = y
        self.z = z
        self._visibility = visibility
        self._presence = presence

    @property
    def visibility(self) -> float:
        """How sure it is that the point is not hidden, 0 to 1; 0.0 where it is not set."""
        return 0.0 if self._visibility is None else self._visibility

    @visibility.setter
    def visibility(self, value: float) -> None:
        self._visibility = float(value)

    @property
    def presence(self) -> float:
        """How sure it is that the point is in the picture, 0 to 1; 0.0 where it is not set."""
        return 0.0 if self._presence is None else self._presence

    @presence.setter
    def presence(self, value: float) -> None:
        self._presence = float(value)

    def HasField(self, name: str) -> bool:
        """Return whether the field is set; x, y and z always are."""
        if name not in _FIELDS:
            raise ValueError(f"a landmark has no field {name!r}; it has {', '.join(_FIELDS)}")
        return name in ("x", "y", "z") or getattr(self, f"_{name}") is not None

    def ClearField(self, name: str) -> None:
        """Set a field back: it reads 0.0, and `visibility` and `presence` count as not set."""
        self.HasField(name)  # knows the names
        if name in ("x", "y", "z"):
            setattr(self, name, 0.0)
        else:
            setattr(self, f"_{name}", None)

    def CopyFrom(self, other: Landmark) -> None:
        """Take over all fields of another landmark."""
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Landmark):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        lines = [f"{name}: {getattr(self, name)}\n" for name in _FIELDS if self.HasField(name)]
        return "".join(lines)


class LandmarkList:
    """The landmarks of one part, read as `.landmark[i].x` or as an array by `.to_numpy()`.

    Args:
        points: `(points, 3)`: x, y, z. Copied: the engine goes on with its own.
        visibility: `(points,)`; None where the part has none.
    """

    def __init__(self, points: FloatArray, visibility: FloatArray | None = None) -> None:
        columns = [points] if visibility is None else [points, visibility[:, None]]
        self._rows: FloatArray = np.hstack(columns)
        self._landmarks: list[Landmark] | None = None

    @property
    def landmark(self) -> list[Landmark]:
        """The points in their order; the same objects each time, so that assigning lasts."""
        if self._landmarks is None:
            self._landmarks = [Landmark(*row) for row in self._rows.tolist()]
        return self._landmarks

    def __len__(self) -> int:
        return len(self._rows) if self._landmarks is None else len(self._landmarks)

    def __iter__(self) -> Iterator[Landmark]:
        return iter(self.landmark)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LandmarkList):
            return NotImplemented
        return self.landmark == other.landmark

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        blocks = (repr(point).replace("\n", "\n  ").rstrip() for point in self.landmark)
        return "".join(f"landmark {{\n  {block}\n}}\n" for block in blocks)

    def to_numpy(self) -> FloatArray:
        """Return `(points, 3)` float32: x, y, z, with what was assigned to the landmarks."""
        if self._landmarks is None:
            return self._rows[:, :3].copy()
        rows = [(point.x, point.y, point.z) for point in self._landmarks]
        return np.array(rows, np.float32).reshape(-1, 3)
