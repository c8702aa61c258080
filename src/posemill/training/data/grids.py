"""Shapes that clips can have, for Multigrid; plain numbers, without torch."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

# Shares of (frames, size) that Multigrid goes through, and of the size from batch to batch.
LONG_CYCLE = ((1 / 4, sqrt(1 / 2)), (1 / 2, sqrt(1 / 2)), (1 / 2, 1.0), (1.0, 1.0))
TIME_ONLY = ((1 / 4, 1.0), (1 / 2, 1.0), (1.0, 1.0))
SHORT_CYCLE = (1 / 2, sqrt(1 / 2))


class Shape(NamedTuple):
    """Clips of one shape.

    Args:
        batch: Clips that cost as much as one of the full shape.
        num_frames: Frames of a clip.
        size: Side of its pictures.
    """

    batch: int
    num_frames: int
    size: int


class Grid(NamedTuple):
    """How clips can become shorter and smaller, for Multigrid.

    Args:
        num_frames: Frames of a whole clip.
        size: Side of its pictures.
        cycle: Shares of both that the long cycle may go through.
        has_short_cycle: Whether the size may change from batch to batch.
        notes: What the user should read about it.
    """

    num_frames: int
    size: int
    cycle: tuple[tuple[float, float], ...]
    has_short_cycle: bool
    notes: tuple[str, ...] = ()
