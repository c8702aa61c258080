"""What the functions take: a path as text or `Path`, one split or several, a size of pictures."""

from __future__ import annotations

import os
from collections.abc import Iterable

from posemill.errors import ConfigError

AnyPath = os.PathLike[str] | str
Names = str | Iterable[str] | None
Size = str | tuple[int, int] | None


def names_of(names: Names) -> list[str] | None:
    """Return the names as a list; a single one is one name, not its letters."""
    if names is None:
        return None
    return [names] if isinstance(names, str) else list(names)


def parse_size(size: Size) -> tuple[int, int] | None:
    """Return width and height in pixels of `(1280, 720)` or `"1280x720"`; None for None."""
    if size is None:
        return None
    sides = size.lower().split("x") if isinstance(size, str) else [str(side) for side in size]
    if len(sides) != 2 or not all(side.isdecimal() and int(side) for side in sides):
        raise ConfigError(f"size: expected WIDTHxHEIGHT such as 1280x720, got {size!r}")
    return int(sides[0]), int(sides[1])
