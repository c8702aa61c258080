"""What a layout of points is made of: parts, named points, bones, left and right."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

Bone = tuple[int, int]


@dataclass(frozen=True)
class Part:
    """A run of points that is found or missing as one: indices `start` to `stop` (exclusive)."""

    name: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Skeleton:
    """A layout of points.

    Args:
        name: As users spell it.
        parts: In order, covering every point.
        point_names: One per point; `left_…` and `right_…` are the subject's own sides.
        bones: Pairs of indices to draw a line between.
        mirror: For each point the index of its counterpart on the other side (itself if midline).
    """

    name: str
    parts: tuple[Part, ...]
    point_names: tuple[str, ...]
    bones: tuple[Bone, ...]
    mirror: tuple[int, ...]

    def __post_init__(self) -> None:
        points = range(len(self.point_names))
        covered = [index for part in self.parts for index in range(part.start, part.stop)]
        wrong = {
            "parts: expected every point once, in order": covered != list(points),
            "parts: expected names that differ": len({*self.part_names}) != len(self.parts),
            "point_names: expected names that differ": len({*self.point_names}) != len(points),
            "bones: expected indices of points": any(
                index not in points for bone in self.bones for index in bone
            ),
            "mirror: expected each point's counterpart, whose counterpart is the point": (
                len(self.mirror) != len(points)
                or any(
                    other not in points or self.mirror[other] != index
                    for index, other in enumerate(self.mirror)
                )
            ),
        }
        if problems := [text for text, is_wrong in wrong.items() if is_wrong]:
            raise ValueError(f"skeleton {self.name!r}: {problems[0]}")

    @property
    def num_points(self) -> int:
        """How many points a frame has."""
        return len(self.point_names)

    @cached_property
    def part_names(self) -> tuple[str, ...]:
        """Names of the parts, in order."""
        return tuple(part.name for part in self.parts)

    def part(self, name: str) -> Part:
        """Return the part of that name."""
        for part in self.parts:
            if part.name == name:
                return part
        raise ValueError(f"{self.name} has no part {name!r}; it has {', '.join(self.part_names)}")
