"""Agreement and distances of one part, in memory that does not grow with the number of frames."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from posemill.records import BoolArray, FloatArray, IntArray

# A bin is a float32 without the last 13 of its 23 bits: quantiles are exact to 0.1 %. From 2^-20 px
# (all below is one bin, and called 0) to 2^20 px.
_DROPPED_BITS = 13
_PER_OCTAVE = 1 << (23 - _DROPPED_BITS)
_FIRST = (127 - 20) * _PER_OCTAVE
_NUM_BINS = 40 * _PER_OCTAVE + 2
# Upper ends, in pixels, of the bars of a histogram; the last bar is open.
BARS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


def bar_labels() -> list[str]:
    """Return what each bar is called: `<0.01`, `<0.03`, … `>100`."""
    return [*(f"<{end:g}" for end in BARS), f">{BARS[-1]:g}"]


class Distances:
    """Distances in pixels, counted in fine bins."""

    def __init__(self) -> None:
        self._counts = np.zeros(_NUM_BINS, np.int64)
        self.max = 0.0

    def add(self, pixels: FloatArray) -> None:
        """Count distances, of any shape, none of them NaN."""
        if not pixels.size:
            return
        bits = np.ascontiguousarray(pixels.ravel(), np.float32).view(np.int32) >> _DROPPED_BITS
        self._counts += np.bincount(
            np.clip(bits - (_FIRST - 1), 0, _NUM_BINS - 1), minlength=_NUM_BINS
        )
        self.max = max(self.max, float(pixels.max()))

    def merge(self, other: Distances) -> None:
        """Count what another has counted."""
        self._counts += other._counts
        self.max = max(self.max, other.max)

    def __len__(self) -> int:
        return int(self._counts.sum())

    def quantile(self, share: float) -> float | None:
        """Return the distance that a share of all is below, as numpy's; None without any."""
        total = len(self)
        if not total:
            return None
        place = share * (total - 1)
        ranks = [math.floor(place), math.ceil(place)]
        rows = np.searchsorted(np.cumsum(self._counts), ranks, side="right").tolist()
        low, high = (min(_middle_of(row), self.max) for row in rows)
        return low + (high - low) * (place - ranks[0])

    def bars(self) -> list[int]:
        """Return how many are in each of the bars that `bar_labels` names."""
        edges = [0, *(_bin_of(end) for end in BARS), _NUM_BINS]
        return [int(self._counts[a:b].sum()) for a, b in pairwise(edges)]


def _bin_of(pixels: float) -> int:
    bits = int(np.array(pixels, np.float32).view(np.int32))
    return (bits >> _DROPPED_BITS) - (_FIRST - 1)


def _middle_of(row: int) -> float:
    if row == 0:
        return 0.0
    bits = ((row + _FIRST - 1) << _DROPPED_BITS) + (1 << (_DROPPED_BITS - 1))
    return float(np.array(bits, np.int32).view(np.float32))


@dataclass
class PartAgreement:
    """One part over all frames of a split.

    Args:
        one_has: Frames in which the first run has it.
        other_has: Frames in which the second run has it.
        both: Frames in which both have it.
        distances: Of every point that both have, in such frames.
    """

    num_frames: int = 0
    one_has: int = 0
    other_has: int = 0
    both: int = 0
    distances: Distances = field(default_factory=Distances)

    def add(self, has_one: BoolArray, has_other: BoolArray, pixels: FloatArray) -> None:
        """Count frames, `(frames,)`, and the distances of their points."""
        self.num_frames += len(has_one)
        self.one_has += int(has_one.sum())
        self.other_has += int(has_other.sum())
        self.both += int((has_one & has_other).sum())
        self.distances.add(pixels)

    def merge(self, other: PartAgreement) -> None:
        """Count what another has counted."""
        for name in ("num_frames", "one_has", "other_has", "both"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.distances.merge(other.distances)

    @property
    def agree(self) -> float | None:
        """The share of frames in which both found the part or both missed it."""
        differ = self.one_has + self.other_has - 2 * self.both
        return 1 - differ / self.num_frames if self.num_frames else None

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, for JSON; distances in pixels, None where no frame has both."""
        return {
            "num_frames": self.num_frames,
            "one_has": self.one_has,
            "other_has": self.other_has,
            "both": self.both,
            "agree": self.agree,
            "median": self.distances.quantile(0.5),
            "p95": self.distances.quantile(0.95),
            "max": self.distances.max if len(self.distances) else None,
        }


@dataclass
class SplitAgreement:
    """All parts of a split."""

    split: str
    num_clips: int = 0
    parts: dict[str, PartAgreement] = field(default_factory=dict)

    def merge(self, other: SplitAgreement) -> None:
        """Count what another split has counted."""
        self.num_clips += other.num_clips
        for name, part in other.parts.items():
            self.parts.setdefault(name, PartAgreement()).merge(part)

    @property
    def num_frames(self) -> int:
        """Frames that both runs have."""
        return next((part.num_frames for part in self.parts.values()), 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, for JSON."""
        return {
            "split": self.split,
            "num_clips": self.num_clips,
            "num_frames": self.num_frames,
            "parts": {name: part.to_dict() for name, part in self.parts.items()},
        }


def total_of(splits: Sequence[SplitAgreement], name: str) -> SplitAgreement:
    """Return the sum of several splits under a name of its own."""
    total = SplitAgreement(name)
    for each in splits:
        total.merge(each)
    return total


def shared_rows(one: IntArray, other: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows of two clips that are the same frames, by their indices in the source."""
    if np.array_equal(one, other):
        rows = np.arange(len(one))
        return rows, rows
    _, rows_one, rows_other = np.intersect1d(one, other, return_indices=True)
    return rows_one, rows_other
