"""Two runs measured against each other, and the frames in which they differ most.

Memory does not grow with the number of frames: distances are counted in bins.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from posemill.errors import PosemillError
from posemill.inspection.comparison.pairs import Pairing, Side
from posemill.inspection.summary import ALL_SPLITS, flatten
from posemill.records import BoolArray, FloatArray, IntArray, PoseClip
from posemill.skeletons import get_skeleton

WORST_KEPT = 8  # clips with the frame in them that is worst, of each of the two kinds
_NAMED = 10  # clips that only one run has
_CHUNK = 2048  # frames
# What a run says about its making that decides what is in it.
_DECIDES = ("skeleton_name", "options", "engine", "versions", "format")


@dataclass(frozen=True)
class WorstFrame:
    """The frame of a clip in which two runs differ most.

    Args:
        badness: Mean distance of a part in pixels, or how many parts only one of the runs found.
        parts: Which one is so far apart; which ones only one run found.
    """

    split: str
    clip_id: str
    frame_index: int
    badness: float
    parts: tuple[str, ...]


_Kept = tuple[float, int, WorstFrame]


class Comparison:
    """Two runs of the same clips, counted pair by pair."""

    def __init__(self, pairing: Pairing) -> None:
        self.pairing = pairing
        skeleton = get_skeleton(pairing.layout)
        self._parts = [
            (part.name, np.arange(part.start, part.stop)[pairing.is_shared[part.start : part.stop]])
            for part in skeleton.parts
        ]
        self._parts = [each for each in self._parts if len(each[1])]
        self._splits: dict[str, SplitAgreement] = {}
        self.frames_of_one = self.frames_of_other = 0  # of clips that both have
        self.num_other_size = 0
        self._apart: list[_Kept] = []
        self._one_only: list[_Kept] = []
        self._num_kept = 0

    def add_all(self, pairs: Iterable[tuple[PoseClip, PoseClip]]) -> Comparison:
        """Count pairs of clips; return itself."""
        for one, other in pairs:
            self._add(one, other)
        return self

    def _add(self, one: PoseClip, other: PoseClip) -> None:
        split = self._splits.setdefault(one.split, SplitAgreement(one.split))
        split.num_clips += 1
        rows_one, rows_other = shared_rows(one.frame_indices, other.frame_indices)
        self.frames_of_one += len(one) - len(rows_one)
        self.frames_of_other += len(other) - len(rows_other)
        apart, one_only = _Worst(), _Worst()
        for start in range(0, len(rows_one), _CHUNK):
            rows = rows_one[start : start + _CHUNK], rows_other[start : start + _CHUNK]
            sizes_wh = self._sizes_of(one, other, *rows)
            points = one.points[rows[0], :, :2], other.points[rows[1], :, :2]
            means, differ = [], []
            for name, indices in self._parts:
                has_one, has_other, pixels = part_distances(points, indices, sizes_wh)
                part = split.parts.setdefault(name, PartAgreement())
                part.add(has_one, has_other, pixels[~np.isnan(pixels)])
                means.append(_means(pixels))
                differ.append(has_one != has_other)
            frames = one.frame_indices[rows[0]]
            apart.see(np.max(means, 0), frames, np.array(means) == np.max(means, 0))
            one_only.see(np.sum(differ, 0), frames, np.array(differ))
        self._keep(self._apart, one, apart)
        self._keep(self._one_only, one, one_only)

    def _sizes_of(
        self, one: PoseClip, other: PoseClip, rows_one: IntArray, rows_other: IntArray
    ) -> IntArray:
        """Return `(frames, 2)`: pixels of the first run's pictures, of the other's if unknown."""
        sizes, others = one.sizes_wh[rows_one], other.sizes_wh[rows_other]
        is_known = (sizes > 0).all(1) & (others > 0).all(1)
        self.num_other_size += int((is_known & (sizes != others).any(1)).sum())
        found = np.where(np.asarray((sizes > 0).all(1))[:, None], sizes, others)
        if (found <= 0).any():
            raise PosemillError(
                "clip {clip_id!r}: neither side says how large its pictures are, so there are no "
                "pixels to measure in; give it, for instance: {--size:1280x720}",
                clip_id=one.clip_id,
            )
        return found.astype(np.int64)

    def _keep(self, heap: list[_Kept], clip: PoseClip, worst: _Worst) -> None:
        if not worst.badness:
            return
        parts = [name for (name, _), has in zip(self._parts, worst.parts, strict=True) if has]
        frame = WorstFrame(clip.split, clip.clip_id, worst.frame_index, worst.badness, tuple(parts))
        # The number breaks ties: the earlier clip of equals is kept.
        self._num_kept += 1
        heapq.heappush(heap, (worst.badness, -self._num_kept, frame))
        if len(heap) > WORST_KEPT:
            heapq.heappop(heap)

    @property
    def apart(self) -> list[WorstFrame]:
        """The frames whose points are farthest apart, one of a clip, the worst first."""
        return [frame for *_, frame in sorted(self._apart, reverse=True)]

    @property
    def one_only(self) -> list[WorstFrame]:
        """The frames with most parts that only one run found, one of a clip."""
        return [frame for *_, frame in sorted(self._one_only, reverse=True)]

    @property
    def splits(self) -> list[SplitAgreement]:
        """Every split, and all together where there are several."""
        splits = list(self._splits.values())
        return [*splits, total_of(splits, ALL_SPLITS)] if len(splits) > 1 else splits

    @property
    def total(self) -> SplitAgreement:
        """All splits together."""
        return total_of(list(self._splits.values()), ALL_SPLITS)

    def to_dict(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        pairing = self.pairing
        return {
            "one": _about(pairing, pairing.one, self.frames_of_one),
            "other": _about(pairing, pairing.other, self.frames_of_other),
            "skeleton_name": pairing.layout,
            "num_points": int(pairing.is_shared.sum()),
            "num_clips": sum(each.num_clips for each in self._splits.values()),
            "num_frames": sum(each.num_frames for each in self._splits.values()),
            "differences": [
                dict(zip(("setting", "one", "other"), each, strict=True))
                for each in differences(pairing)
            ],
            "splits": [each.to_dict() for each in self.splits],
            "apart": [asdict(each) for each in self.apart],
            "found_by_one_only": [asdict(each) for each in self.one_only],
        }


class _Worst:
    """The worst frame of one clip so far."""

    def __init__(self) -> None:
        self.badness, self.frame_index = 0.0, -1
        self.parts: BoolArray = np.zeros(0, bool)

    def see(self, badness: FloatArray, frame_indices: IntArray, parts: BoolArray) -> None:
        """Look at more frames: `(frames,)` how bad, and `(parts, frames)` by which parts."""
        row = int(badness.argmax())
        if badness[row] > self.badness:
            self.badness, self.frame_index = float(badness[row]), int(frame_indices[row])
            self.parts = parts[:, row]


def part_distances(
    points: tuple[FloatArray, FloatArray], indices: IntArray, sizes_wh: IntArray
) -> tuple[BoolArray, BoolArray, FloatArray]:
    """Return in which frames each of two clips has a part, and how far its points are apart.

    Args:
        points: `(frames, keypoints, 2)` of the same frames in both.
        indices: Of the part's points.
        sizes_wh: `(frames, 2)`.
    """
    one, other = (each[:, indices] for each in points)
    return _has_any(one[..., 0]), _has_any(other[..., 0]), _distances(one, other, sizes_wh)


def _means(pixels: FloatArray) -> FloatArray:
    """Return `(frames,)`: the mean distance of the points that both have, 0 without any."""
    count = (~np.isnan(pixels)).sum(1)
    found: FloatArray = np.nansum(pixels, 1) / np.maximum(count, 1)
    return found


def _distances(one: FloatArray, other: FloatArray, sizes_wh: IntArray) -> FloatArray:
    """Return `(frames, points)` in pixels, NaN where a point is missing on either side."""
    apart = (one.astype(np.float64) - other) * sizes_wh[:, None]
    found: FloatArray = np.sqrt((apart**2).sum(2)).astype(np.float32)
    return found


def _has_any(x: FloatArray) -> BoolArray:
    """Return `(frames,)`: whether any of `(frames, points)` is not missing."""
    found: BoolArray = np.asarray((~np.isnan(x)).any(1))
    return found


def _about(pairing: Pairing, side: Side, num_frames: int) -> dict[str, Any]:
    only = pairing.only(side)
    run = side.material.run
    return {
        "path": str(side.material.path),
        "kind": side.material.kind,
        "skeleton_name": side.skeleton_name,
        "engine": dict(run.manifest.engine) if run is not None else {},
        "clips_only_here": len(only),
        "first_clips_only_here": ["/".join(name) for name in only[:_NAMED]],
        "frames_only_here": num_frames,  # of clips that both have
    }


def differences(pairing: Pairing) -> list[tuple[str, str, str]]:
    """Return what two runs were made with that is not the same: name, and both values."""
    one, other = (dict(flatten(each.material.facts())) for each in (pairing.one, pairing.other))
    names = [name for name in {**one, **other} if name.partition(".")[0] in _DECIDES]
    return [
        (name, one.get(name, "-"), other.get(name, "-"))
        for name in names
        if one.get(name) != other.get(name)
    ]


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
