"""How good the keypoints of a clip are, in numbers, and how much that makes it worth a look."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from posemill.inspection.drawing.placing import model_bounds
from posemill.inspection.motion import (
    BLOCK_FRAMES,
    JUMP_FLOOR,
    Motion,
    find_jumps,
    measure_motion,
    usual_step,
)
from posemill.messages import Message
from posemill.records import BoolArray, PoseClip
from posemill.skeletons.palette import BODY_PARTS, part_label

STRIP_BINS = 240
_MAX_LISTED = 10  # frame numbers kept per kind of finding


@dataclass(frozen=True)
class PartQuality:
    """One part of a clip.

    Args:
        name: As in the skeleton.
        num_present: Frames in which any point of it was found.
        longest_gap: Most frames in a row without it.
        num_jumps: Times it moved too far from one frame to the next.
        num_frozen: Frames in which it has exactly the points of the frame before.
        outside: Share of its found points outside of the picture; NaN where none was found or
            where the coordinates are not those of a picture.
        jump_frames: Numbers of the first frames with a jump.
        strip: `(bins,)` uint8: presence over time, 255 for all frames of the bin.
    """

    name: str
    num_present: int
    longest_gap: int
    num_jumps: int
    num_frozen: int
    outside: float
    jump_frames: tuple[int, ...]
    strip: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class ClipQuality:
    """One clip.

    Args:
        num_no_hands: Frames with neither hand; 0 for a skeleton without hands.
        num_swaps: Frames where left and right look exchanged.
        num_doubled: Frames with both hands on the same spot.
        num_frozen: Frames in which every part found is frozen.
        is_continuous: False for independent pictures: then nothing was compared between frames.
        badness: 0 (nothing to say) to 1 (nothing found); see `reasons` for its grounds.
        reasons: In words, the weightiest first.
    """

    split: str
    clip_id: str
    num_frames: int
    parts: tuple[PartQuality, ...]
    num_no_hands: int
    num_swaps: int
    num_doubled: int
    num_frozen: int
    is_continuous: bool
    swap_frames: tuple[int, ...]
    badness: float
    reasons: tuple[str, ...]

    @property
    def num_jumps(self) -> int:
        """Jumps of all parts together."""
        return sum(part.num_jumps for part in self.parts)


def measure(clip: PoseClip) -> ClipQuality:
    """Return the quality of one clip."""
    present = _present(clip)
    motion = measure_motion(clip)
    is_continuous = _is_continuous(clip, motion)
    if is_continuous:
        fps = clip.fps or 25.0 / usual_step(clip)
        jumps, frozen = find_jumps(motion.moved, fps), motion.frozen
        swapped = motion.swapped
    else:
        jumps, frozen = np.zeros_like(present), np.zeros_like(present)
        swapped = np.zeros(len(clip), bool)
    outside = _outside_shares(clip)
    parts = tuple(
        PartQuality(
            name=part.name,
            num_present=int(present[:, number].sum()),
            longest_gap=longest_run(~present[:, number]),
            num_jumps=int(jumps[:, number].sum()),
            num_frozen=int(frozen[:, number].sum()),
            outside=outside[number],
            jump_frames=_listed(clip, jumps[:, number]),
            strip=squeeze(present[:, number]),
        )
        for number, part in enumerate(clip.skeleton.parts)
    )
    counts = {
        "num_no_hands": _count_without_hands(clip, present),
        "num_swaps": int(swapped.sum()),
        "num_doubled": int(motion.doubled.sum()),
        "num_frozen": int((frozen.any(1) & ~(present & ~frozen).any(1)).sum()),
    }
    badness, reasons = _judge(parts, counts, len(clip))
    return ClipQuality(
        split=clip.split,
        clip_id=clip.clip_id,
        num_frames=len(clip),
        parts=parts,
        is_continuous=is_continuous,
        swap_frames=_listed(clip, swapped),
        badness=badness,
        reasons=reasons,
        **counts,
    )


def longest_run(flags: BoolArray) -> int:
    """Return the most True values in a row."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def squeeze(flags: BoolArray, bins: int = STRIP_BINS) -> npt.NDArray[np.uint8]:
    """Return at most `bins` values: the share of True in equal stretches, 255 for all."""
    if not len(flags):
        return np.zeros(0, np.uint8)
    edges = np.linspace(0, len(flags), min(bins, len(flags)) + 1).round().astype(np.int64)
    sums = np.concatenate([[0], np.cumsum(flags)])
    shares = (sums[edges[1:]] - sums[edges[:-1]]) / np.diff(edges)
    # A single frame that is missing must show, and one that is there too.
    levels = np.clip(np.rint(255 * shares), shares > 0, 255 - (shares < 1))
    return np.asarray(levels, np.uint8)


def _present(clip: PoseClip) -> BoolArray:
    blocks = [np.zeros((0, len(clip.skeleton.parts)), bool)]
    for start in range(0, len(clip), BLOCK_FRAMES):
        there = ~np.isnan(clip.points[start : start + BLOCK_FRAMES, :, 0])
        columns = [there[:, part.start : part.stop].any(1) for part in clip.skeleton.parts]
        blocks.append(np.stack(columns, 1))
    return np.concatenate(blocks)


def _is_continuous(clip: PoseClip, motion: Motion) -> bool:
    """Whether the frames are of one take: loose pictures have many sizes, or people all over."""
    if len(clip) > 1 and (clip.sizes_wh != clip.sizes_wh[0]).any():
        return False
    moved = motion.moved[np.isfinite(motion.moved)]
    return not (len(moved) > 2 and float(np.median(moved)) > JUMP_FLOOR)


def _outside_shares(clip: PoseClip) -> list[float]:
    if model_bounds(clip) is not None:
        return [float("nan")] * len(clip.skeleton.parts)  # no picture around it
    found = np.zeros(len(clip.skeleton.parts))
    outside = np.zeros(len(clip.skeleton.parts))
    for start in range(0, len(clip), BLOCK_FRAMES):
        points = clip.points[start : start + BLOCK_FRAMES, :, :2]
        there = ~np.isnan(points[..., 0])
        with np.errstate(invalid="ignore"):
            out = there & ~((points >= 0) & (points <= 1)).all(-1)
        for number, part in enumerate(clip.skeleton.parts):
            found[number] += there[:, part.start : part.stop].sum()
            outside[number] += out[:, part.start : part.stop].sum()
    return [
        float(out / all_found) if all_found else float("nan")
        for out, all_found in zip(outside, found, strict=True)
    ]


def _count_without_hands(clip: PoseClip, present: BoolArray) -> int:
    names = clip.skeleton.part_names
    hands = [number for number, name in enumerate(names) if name.endswith("_hand")]
    return int((~present[:, hands].any(1)).sum()) if hands else 0


def _listed(clip: PoseClip, flags: BoolArray) -> tuple[int, ...]:
    return tuple(int(number) for number in clip.frame_indices[flags][:_MAX_LISTED])


def _say_frozen(count: int) -> str:
    return Message("{num_frames:frozen frame|frozen frames}", num_frames=count)


def _judge(
    parts: tuple[PartQuality, ...], counts: dict[str, int], num_frames: int
) -> tuple[float, tuple[str, ...]]:
    """Return the badness and its grounds.

    Each finding takes away a share of what is still good: 1 - product of (1 - weight * amount).
    """
    if not num_frames:
        return 1.0, (Message("no frames"),)
    findings: list[tuple[float, str]] = []
    for part in parts:
        share = 1 - part.num_present / num_frames
        is_body, is_hand = part.name in BODY_PARTS, part.name.endswith("_hand")
        if not is_hand and part.name != "feet":
            weight = 1.0 if is_body else 0.6
            findings.append(
                (
                    weight * share,
                    Message(
                        "{part} missing in {share:.0%}",
                        part=part_label(part.name),
                        share=share,
                    ),
                )
            )
        if part.num_jumps:
            words = Message(
                "{num_jumps:jump|jumps} of {part}",
                num_jumps=part.num_jumps,
                part=part_label(part.name),
            )
            findings.append((0.6 * min(1.0, 20 * part.num_jumps / num_frames), words))
        if not is_body and part.outside > 0.02:
            words = Message(
                "{part} {outside:.0%} outside the picture",
                part=part_label(part.name),
                outside=part.outside,
            )
            findings.append((0.4 * part.outside, words))
    shares = {name: count / num_frames for name, count in counts.items()}
    without, frozen = shares["num_no_hands"], shares["num_frozen"]
    swaps, doubled = counts["num_swaps"], counts["num_doubled"]
    findings += [
        (0.3 * without, Message("no hands in {without:.0%}", without=without)),
        (
            0.7 * min(1.0, 10 * shares["num_swaps"]),
            Message("left/right suspect in {num_frames:frame|frames}", num_frames=swaps),
        ),
        (
            0.7 * min(1.0, 10 * shares["num_doubled"]),
            Message("both hands on one spot in {num_frames:frame|frames}", num_frames=doubled),
        ),
        (0.4 * frozen, _say_frozen(counts["num_frozen"])),
    ]
    findings = sorted((each for each in findings if each[0] > 0.004), reverse=True)
    good = float(np.prod([1 - amount for amount, _ in findings])) if findings else 1.0
    return 1 - good, tuple(words for _, words in findings)


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
