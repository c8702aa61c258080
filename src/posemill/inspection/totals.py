"""The quality of a whole run, clip after clip, in memory that does not grow with its length."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from posemill.inspection.quality import ClipQuality

# Upper ends (frames, inclusive) of the bins of longest gaps; the last bin is open.
GAP_BINS = (0, 1, 2, 4, 8, 16, 32, 64, 128)
_PRESENCE_BINS = 10


@dataclass
class PartTotals:
    """One part, over all clips of a split.

    Args:
        clips_by_presence: How many clips have the part in 0-10 %, …, 90-100 % of their frames.
        clips_by_gap: How many clips have a longest gap in each bin of `GAP_BINS`.
    """

    num_present: int = 0
    num_jumps: int = 0
    clips_with_jumps: int = 0
    clips_by_presence: list[int] = field(default_factory=lambda: [0] * _PRESENCE_BINS)
    clips_by_gap: list[int] = field(default_factory=lambda: [0] * (len(GAP_BINS) + 1))


@dataclass
class SplitTotals:
    """All clips of one split."""

    num_frames: int = 0
    num_swaps: int = 0
    clips_with_swaps: int = 0
    num_doubled: int = 0
    clips_with_doubled: int = 0
    num_frozen: int = 0
    clips_with_frozen: int = 0
    parts: dict[str, PartTotals] = field(default_factory=dict)


class RunQuality:
    """Sums by split, and the worst clips.

    Args:
        keep: How many of the worst clips are kept whole.
    """

    def __init__(self, keep: int) -> None:
        self.splits: dict[str, SplitTotals] = {}
        self._keep = keep
        self._heap: list[tuple[float, int, ClipQuality]] = []
        self.num_clips = 0

    @property
    def num_frames(self) -> int:
        """Frames of all clips."""
        return sum(totals.num_frames for totals in self.splits.values())

    @property
    def worst(self) -> list[ClipQuality]:
        """The kept clips, the worst first; among equals the earlier."""
        return [quality for _, _, quality in sorted(self._heap, key=lambda e: (-e[0], -e[1]))]

    def add(self, quality: ClipQuality) -> None:
        """Count a clip."""
        self.num_clips += 1
        totals = self.splits.setdefault(quality.split, SplitTotals())
        totals.num_frames += quality.num_frames
        totals.num_swaps += quality.num_swaps
        totals.clips_with_swaps += quality.num_swaps > 0
        totals.num_doubled += quality.num_doubled
        totals.clips_with_doubled += quality.num_doubled > 0
        totals.num_frozen += quality.num_frozen
        totals.clips_with_frozen += quality.num_frozen > 0
        for part in quality.parts:
            sums = totals.parts.setdefault(part.name, PartTotals())
            sums.num_present += part.num_present
            sums.num_jumps += part.num_jumps
            sums.clips_with_jumps += part.num_jumps > 0
            if quality.num_frames:
                share = part.num_present / quality.num_frames
                sums.clips_by_presence[min(int(share * _PRESENCE_BINS), _PRESENCE_BINS - 1)] += 1
                sums.clips_by_gap[gap_bin(part.longest_gap)] += 1
        # The number in the middle breaks ties, and keeps the earlier clip of equals.
        entry = (quality.badness, -self.num_clips, quality)
        if len(self._heap) < self._keep:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)


def gap_bin(gap: int) -> int:
    """Return the bin of `GAP_BINS` a gap of so many frames is in."""
    return next((number for number, end in enumerate(GAP_BINS) if gap <= end), len(GAP_BINS))


def gap_labels() -> list[str]:
    """Return what each bin of gaps is called: `0`, `1`, `2`, `3-4` … `>128`."""
    labels = []
    for low, high in zip((-1, *GAP_BINS), GAP_BINS, strict=False):
        labels.append(str(high) if high - low == 1 else f"{low + 1}-{high}")
    return [*labels, f">{GAP_BINS[-1]}"]
