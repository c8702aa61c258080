"""Landmarks as old scripts know them: the fields and manners of the original's protobuf messages.

Solutions give them, and scripts make their own for `draw_landmarks`.

Objects are made when `.landmark` is first asked for: whoever takes arrays pays nothing for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from posemill.framework.formats.messages import Descriptor, Field, Message, MessageList, as_float32
from posemill.records import FloatArray

_FIELDS = ("x", "y", "z", "visibility", "presence")


def _field(name: str, doc: str) -> property:
    place = f"_{name}"

    def read(self: Landmark) -> float:
        value: float | None = getattr(self, place)
        return 0.0 if value is None else value

    def assign(self: Landmark, value: float) -> None:
        setattr(self, place, as_float32(value))

    return property(read, assign, doc=doc)


class Landmark(Message):
    """One point: x and y normalised by the picture's size, z in the scale of x.

    All fields can be assigned. One that is not set reads 0.0, and `HasField` tells: the body's
    points have a visibility, hands and face have neither it nor a presence.
    """

    __slots__ = tuple(f"_{name}" for name in _FIELDS)
    _x: float | None
    _y: float | None
    _z: float | None
    _visibility: float | None
    _presence: float | None
    DESCRIPTOR = Descriptor(
        "mediapipe.NormalizedLandmark",
        tuple(Field(name, number) for number, name in enumerate(_FIELDS, start=1)),
    )

    def __init__(  # noqa: PLR0917  the fields, in the original's order
        self,
        x: float | None = None,
        y: float | None = None,
        z: float | None = None,
        visibility: float | None = None,
        presence: float | None = None,
    ) -> None:
        for place, value in zip(self.__slots__, (x, y, z, visibility, presence), strict=True):
            setattr(self, place, None if value is None else as_float32(value))

    @classmethod
    def _of(cls, row: Iterable[float]) -> Landmark:
        """Return the landmark of a row x, y, z and maybe visibility, all of them float32."""
        made = cls.__new__(cls)
        made._x, made._y, made._z, made._visibility, made._presence = (*row, None, None)[:5]
        return made

    x = _field("x", "Share of the picture's width.")
    y = _field("y", "Share of the picture's height.")
    z = _field("z", "Depth in the scale of x, smaller is nearer.")
    visibility = _field("visibility", "How sure it is that the point is not hidden, 0 to 1.")
    presence = _field("presence", "How sure it is that the point is in the picture, 0 to 1.")

    def HasField(self, name: str) -> bool:
        """Return whether the field is set."""
        if name not in _FIELDS:
            self._expect_field(name)
        return getattr(self, f"_{name}") is not None

    def ClearField(self, name: str) -> None:
        """Set a field back: it reads 0.0 and counts as not set."""
        self._expect_field(name)
        setattr(self, f"_{name}", None)

    def MergeFrom(self, other: Landmark) -> None:
        """Take over the fields that are set in another landmark."""
        self._expect_same(other)
        for place in self.__slots__:
            value = getattr(other, place)
            if value is not None:
                setattr(self, place, value)


class LandmarkList(Message):
    """The landmarks of one part, read as `.landmark[i].x` or as an array by `.to_numpy()`.

    Args:
        landmark: Landmarks, which are copied.
    """

    __slots__ = ("_landmarks", "_rows")
    DESCRIPTOR = Descriptor(
        "mediapipe.NormalizedLandmarkList",
        (Field("landmark", 1, "message", is_repeated=True, message_class=Landmark),),
    )

    def __init__(self, landmark: Iterable[Landmark] = ()) -> None:
        self._rows: FloatArray | None = None
        self._landmarks = MessageList(Landmark)
        self._landmarks.extend(landmark)

    @classmethod
    def of_points(cls, points: FloatArray, visibility: FloatArray | None = None) -> LandmarkList:
        """Return the list of points that the engine found.

        Args:
            points: `(points, 3)`: x, y, z. Copied: the engine goes on with its own.
            visibility: `(points,)`; None where the part has none.
        """
        made = cls()
        columns = [points] if visibility is None else [points, visibility[:, None]]
        made._rows = np.hstack(columns)
        return made

    @property
    def landmark(self) -> MessageList[Landmark]:
        """The points in their order; the same objects each time, so that assigning lasts."""
        if self._rows is not None:
            self._landmarks = MessageList(Landmark, map(Landmark._of, self._rows.tolist()))
            self._rows = None
        return self._landmarks

    def HasField(self, name: str) -> bool:
        """Refuse: whether there are landmarks is a question of their number."""
        self._expect_field(name)
        raise ValueError(f"{name!r} is a list, which is always there; ask for its len()")

    def ClearField(self, name: str) -> None:
        """Remove all landmarks."""
        self._expect_field(name)
        self.landmark.clear()

    def MergeFrom(self, other: LandmarkList) -> None:
        """Add copies of the landmarks of another list."""
        self._expect_same(other)
        self.landmark.extend(other.landmark)

    def __len__(self) -> int:
        return len(self._landmarks) if self._rows is None else len(self._rows)

    def __bool__(self) -> bool:
        return True  # as every message; the original has no length

    def __iter__(self) -> Iterator[Landmark]:
        return iter(self.landmark)

    def to_numpy(self) -> FloatArray:
        """Return `(points, 3)` float32: x, y, z, with what was assigned to the landmarks."""
        rows = self._rows
        if rows is None:
            found = [(point.x, point.y, point.z) for point in self._landmarks]
            rows = np.array(found, np.float32).reshape(-1, 3)
        return np.array(rows[:, :3])


# The original has two kinds with the same fields: shares of the picture, and metres.
NormalizedLandmark = Landmark
NormalizedLandmarkList = LandmarkList
