"""Two runs measured against each other, and the frames in which they differ most.

Memory does not grow with the number of frames: distances are counted in bins.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from posemill.errors import PosemillError
from posemill.inspection.comparison.pairs import Pairing
from posemill.inspection.summary import ALL_SPLITS, flatten
from posemill.records import BoolArray, FloatArray, IntArray, PoseClip
from posemill.skeletons import get_skeleton

WORST_KEPT = 8  # clips with the frame in them that is worst, of each of the two kinds
_NAMED = 10  # clips that only one run has
_CHUNK = 2048  # frames
# What a run says about its making that decides what is in it.
_DECIDES = ("skeleton_name", "options", "engine", "versions", "format")
# Bins are so narrow that quantiles are exact to 0.1 %; they go from 2^-20 px (all below is one bin,
# and called 0) to 2^20 px.
_PER_OCTAVE, _OCTAVES = 1000, 20
_NUM_BINS = 2 * _OCTAVES * _PER_OCTAVE + 2
# Upper ends, in pixels, of the bars of a histogram; the last bar is open.
BARS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
BAR_LABELS = (*(f"<{end:g}" for end in BARS), f">{BARS[-1]:g}")


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


@dataclass
class PartAgreement:
    """One part over some frames, or over all of a split.

    Args:
        counts: Frames: all, those in which the first run has it, the second run, and both.
        bins: How many distances of points that both have fall into each.
    """

    counts: IntArray = field(default_factory=lambda: np.zeros(4, np.int64))
    bins: IntArray = field(default_factory=lambda: np.zeros(_NUM_BINS, np.int64))
    largest: float = 0.0

    @classmethod
    def of(cls, in_one: BoolArray, in_other: BoolArray, pixels: FloatArray) -> PartAgreement:
        """Return the agreement in frames as `part_frames` yields them."""
        pixels = pixels[~np.isnan(pixels)]
        both = in_one & in_other
        return cls(
            np.array([len(both), in_one.sum(), in_other.sum(), both.sum()]),
            np.bincount(_bins_of(pixels), minlength=_NUM_BINS),
            float(pixels.max(initial=0)),
        )

    def __iadd__(self, other: PartAgreement) -> PartAgreement:
        self.counts += other.counts
        self.bins += other.bins
        self.largest = max(self.largest, other.largest)
        return self

    def quantile(self, share: float) -> float | None:
        """Return the distance that a share of all is below, as numpy's; None without any."""
        total = int(self.bins.sum())
        if not total:
            return None
        place = share * (total - 1)
        ranks = [math.floor(place), math.ceil(place)]
        bins = np.searchsorted(np.cumsum(self.bins), ranks, side="right")
        pixels = np.where(bins > 0, 2.0 ** ((bins - 0.5) / _PER_OCTAVE - _OCTAVES), 0)
        return float(np.interp(place, ranks, np.minimum(pixels, self.largest)))

    def bars(self) -> list[int]:
        """Return how many distances are in each of the bars that `BAR_LABELS` names."""
        edges = [0, *_bins_of(np.array(BARS)).tolist(), _NUM_BINS]
        return [int(self.bins[start:stop].sum()) for start, stop in pairwise(edges)]

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, for JSON; distances in pixels, None where no frame has both.

        `agree` is the share of frames in which both found the part or both missed it.
        """
        num_frames, one_has, other_has, both = self.counts.tolist()
        return {
            "num_frames": num_frames,
            "one_has": one_has,
            "other_has": other_has,
            "both": both,
            "agree": 1 - (one_has + other_has - 2 * both) / num_frames if num_frames else None,
            "median": self.quantile(0.5),
            "p95": self.quantile(0.95),
            "max": self.largest if self.bins.any() else None,
        }


def _bins_of(pixels: FloatArray) -> IntArray:
    octaves = np.log2(np.maximum(pixels, 2.0 ** (-_OCTAVES - 1)))
    bins = np.clip((octaves + _OCTAVES) * _PER_OCTAVE + 1, 0, _NUM_BINS - 1)
    return np.asarray(bins.astype(np.int64))


@dataclass
class SplitAgreement:
    """All parts of a split."""

    split: str
    num_clips: int = 0
    num_frames: int = 0  # that both runs have
    parts: dict[str, PartAgreement] = field(default_factory=lambda: defaultdict(PartAgreement))

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, for JSON."""
        return {**vars(self), "parts": {name: part.to_dict() for name, part in self.parts.items()}}


class Comparison:
    """Two runs of the same clips, counted pair by pair.

    `apart` are the frames whose points are farthest apart, `one_only` those with most parts that
    only one run found: one of a clip, the worst first. `frames_only` are the frames, of clips that
    both have, that are in the first run only, and in the second.
    """

    def __init__(self, pairing: Pairing, pairs: Iterable[tuple[PoseClip, PoseClip]]) -> None:
        self.pairing = pairing
        self.total = SplitAgreement(ALL_SPLITS)
        self._splits: dict[str, SplitAgreement] = {}
        self.frames_only = [0, 0]
        self.num_other_size = 0
        self.apart: list[WorstFrame] = []
        self.one_only: list[WorstFrame] = []
        for one, other in pairs:
            self._add(one, other)

    def _add(self, one: PoseClip, other: PoseClip) -> None:
        split = self._splits.setdefault(one.split, SplitAgreement(one.split))
        rows_one, rows_other = shared_rows(one.frame_indices, other.frame_indices)
        for agreement in (split, self.total):
            agreement.num_clips += 1
            agreement.num_frames += len(rows_one)
        self.frames_only[0] += len(one) - len(rows_one)
        self.frames_only[1] += len(other) - len(rows_other)
        apart: list[WorstFrame] = []
        one_only: list[WorstFrame] = []
        for start in range(0, len(rows_one), _CHUNK):
            rows = rows_one[start : start + _CHUNK], rows_other[start : start + _CHUNK]
            sizes, others = one.sizes_wh[rows[0]], other.sizes_wh[rows[1]]
            is_known, is_known_of_other = (sizes > 0).all(1), (others > 0).all(1)
            is_other = is_known & is_known_of_other & (sizes != others).any(1)
            self.num_other_size += int(is_other.sum())
            if not (is_known | is_known_of_other).all():
                raise PosemillError(
                    "clip {clip_id!r}: neither side says how large its pictures are, so there are "
                    "no pixels to measure in; give it, for instance: {--size:1280x720}",
                    clip_id=one.clip_id,
                )
            means, differs = {}, {}
            parts = part_frames(one, other, self.pairing.is_shared, rows)
            for name, in_one, in_other, pixels in parts:
                part = PartAgreement.of(in_one, in_other, pixels)
                split.parts[name] += part
                self.total.parts[name] += part
                count = (~np.isnan(pixels)).sum(1)
                means[name] = np.nansum(pixels, 1) / np.maximum(count, 1)
                differs[name] = in_one != in_other
            farthest = np.max([*means.values()], 0)
            is_farthest = {name: values == farthest for name, values in means.items()}
            apart += _worst_of(one, rows[0], farthest, is_farthest)
            one_only += _worst_of(one, rows[0], np.sum([*differs.values()], 0), differs)
        self.apart = _worst([*self.apart, *_worst(apart, 1)], WORST_KEPT)
        self.one_only = _worst([*self.one_only, *_worst(one_only, 1)], WORST_KEPT)

    @property
    def splits(self) -> list[SplitAgreement]:
        """Every split, and all together where there are several."""
        splits = list(self._splits.values())
        return [*splits, self.total] if len(splits) > 1 else splits

    def to_dict(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        pairing, total = self.pairing, self.total
        names = ("setting", "one", "other")
        return {
            "one": self._about(0),
            "other": self._about(1),
            "skeleton_name": pairing.layout,
            "num_points": int(pairing.is_shared.sum()),
            "num_clips": total.num_clips,
            "num_frames": total.num_frames,
            "differences": [dict(zip(names, row, strict=True)) for row in differences(pairing)],
            "splits": [split.to_dict() for split in self.splits],
            "apart": [asdict(frame) for frame in self.apart],
            "found_by_one_only": [asdict(frame) for frame in self.one_only],
        }

    def _about(self, number: int) -> dict[str, Any]:
        side, only = self.pairing.sides[number], self.pairing.only(number)
        run = side.material.run
        return {
            "path": str(side.material.path),
            "kind": side.material.kind,
            "skeleton_name": side.skeleton_name,
            "engine": dict(run.manifest.engine) if run is not None else {},
            "clips_only_here": len(only),
            "first_clips_only_here": ["/".join(name) for name in only[:_NAMED]],
            "frames_only_here": self.frames_only[number],  # of clips that both have
        }


def _worst(frames: list[WorstFrame], count: int) -> list[WorstFrame]:
    return heapq.nlargest(count, frames, key=lambda frame: frame.badness)  # of equals the earlier


def _worst_of(
    clip: PoseClip, rows: IntArray, badness: FloatArray, is_bad: dict[str, BoolArray]
) -> Iterator[WorstFrame]:
    """Yield the worst of some frames, if any is bad: `badness` of each, and by which parts."""
    place = int(badness.argmax())
    if badness[place] > 0:
        number = int(clip.frame_indices[rows[place]])
        parts = tuple(name for name, flags in is_bad.items() if flags[place])
        yield WorstFrame(clip.split, clip.clip_id, number, float(badness[place]), parts)


def part_frames(
    one: PoseClip, other: PoseClip, is_shared: BoolArray, rows: tuple[IntArray, IntArray]
) -> Iterator[tuple[str, BoolArray, BoolArray, FloatArray]]:
    """Yield each part that both clips can have, in some frames of them.

    By name, with `(frames,)`: whether the first clip has it, and the second, and with
    `(frames, points)` how far its points are apart, NaN where one is missing on either side. Pixels
    are those of the first clip's pictures; of the other's where that does not know them.
    """
    rows_one, rows_other = rows
    sizes = one.sizes_wh[rows_one]
    sizes = np.where((sizes > 0).all(1, keepdims=True), sizes, other.sizes_wh[rows_other])
    for part in get_skeleton(one.skeleton_name).parts:
        indices = np.arange(part.start, part.stop)[is_shared[part.start : part.stop]]
        if len(indices):
            first, second = np.ix_(rows_one, indices), np.ix_(rows_other, indices)
            apart = one.points[first].astype(np.float64) - other.points[second]
            pixels = np.linalg.norm(apart[..., :2] * sizes[:, None], axis=2).astype(np.float32)
            in_one = np.asarray(one.mask[first].any(1))
            yield part.name, in_one, np.asarray(other.mask[second].any(1)), pixels


def shared_rows(one: IntArray, other: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows of two clips that are the same frames, by their indices in the source."""
    if np.array_equal(one, other):
        rows = np.arange(len(one))
        return rows, rows
    _, rows_one, rows_other = np.intersect1d(one, other, return_indices=True)
    return rows_one, rows_other


def differences(pairing: Pairing) -> list[tuple[str, str, str]]:
    """Return what two runs were made with that is not the same: name, and both values."""
    one, other = (dict(flatten(side.material.facts())) for side in pairing.sides)
    return [
        (name, one.get(name, "-"), other.get(name, "-"))
        for name in {**one, **other}
        if name.partition(".")[0] in _DECIDES and one.get(name) != other.get(name)
    ]
