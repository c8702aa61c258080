"""How good the keypoints of a clip are, in numbers, and how much that makes it worth a look."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.geometry import longest_gaps
from posemill.inspection.drawing.placing import model_bounds
from posemill.inspection.motion import JUMP_FLOOR, find_jumps, measure_motion, usual_step
from posemill.messages import Message
from posemill.records import BoolArray, FloatArray, PoseClip
from posemill.skeletons.palette import BODY_PARTS, part_label

STRIP_BINS = 240
COUNTED = ("num_swaps", "num_doubled", "num_frozen")  # fields of a clip that are summed up
_MAX_LISTED = 10  # frame numbers kept per kind of finding


@dataclass(frozen=True)
class PartQuality:
    """One part of a clip.

    Args:
        longest_gap: Most frames in a row without it.
        outside: Share of its found points outside of the picture; NaN where none was found or
            where the coordinates are not those of a picture.
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
        num_frozen: Frames in which every part found is frozen.
        is_continuous: False for independent pictures: then nothing was compared between frames.
        badness: 0 (nothing to say) to 1 (nothing found); `reasons` has the weightiest first.
    """

    split: str
    clip_id: str
    num_frames: int
    parts: tuple[PartQuality, ...]
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
    present, has_picture = clip.present, model_bounds(clip) is None
    motion = measure_motion(clip)
    # Frames of one take: loose pictures have many sizes, or people all over.
    moved = motion.moved[np.isfinite(motion.moved)]
    is_near = len(moved) <= 2 or float(np.median(moved)) <= JUMP_FLOOR
    is_continuous = is_near and not (clip.sizes_wh != clip.sizes_wh[:1]).any()
    jumps, frozen = np.zeros_like(present), np.zeros_like(present)
    swapped = np.zeros(len(clip), bool)
    if is_continuous:
        jumps = find_jumps(motion.moved, clip.fps or 25.0 / usual_step(clip))
        frozen, swapped = motion.frozen, motion.swapped
    (gaps,) = longest_gaps(present, np.array([len(clip)]))
    parts = tuple(
        PartQuality(
            name=part.name,
            num_present=int(present[:, number].sum()),
            longest_gap=int(gaps[number]),
            num_jumps=int(jumps[:, number].sum()),
            num_frozen=int(frozen[:, number].sum()),
            outside=_outside_share(clip.part(part.name)) if has_picture else float("nan"),
            jump_frames=_listed(clip, jumps[:, number]),
            strip=squeeze(present[:, number]),
        )
        for number, part in enumerate(clip.skeleton.parts)
    )
    hands = [number for number, part in enumerate(parts) if part.name.endswith("_hand")]
    num_no_hands = int((~present[:, hands].any(1)).sum()) if hands else 0
    counts = {
        "num_swaps": int(swapped.sum()),
        "num_doubled": int(motion.doubled.sum()),
        "num_frozen": int((frozen.any(1) & ~(present & ~frozen).any(1)).sum()),
    }
    badness, reasons = _judge(parts, {"num_no_hands": num_no_hands, **counts}, len(clip))
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


def bin_means(values: npt.NDArray[Any], bins: int) -> npt.NDArray[np.float64]:
    """Return at most `bins` values: the means of equal stretches."""
    edges = np.linspace(0, len(values), min(bins, len(values)) + 1).astype(np.int64)
    means: npt.NDArray[np.float64] = np.add.reduceat(values, edges[:-1], dtype=float)
    return means / np.diff(edges)


def squeeze(flags: BoolArray, bins: int = STRIP_BINS) -> npt.NDArray[np.uint8]:
    """Return at most `bins` values: the share of True in equal stretches, 255 for all."""
    shares = bin_means(flags, bins)
    # A single frame that is missing must show, and one that is there too.
    levels = np.clip(np.rint(255 * shares), shares > 0, 255 - (shares < 1))
    return np.asarray(levels, np.uint8)


def _outside_share(points: FloatArray) -> float:
    """Return which share of the found points lies outside of the picture; NaN without any."""
    places = points[~np.isnan(points[..., 0])][:, :2]
    return float(((places < 0) | (places > 1)).any(1).mean()) if len(places) else float("nan")


def _listed(clip: PoseClip, flags: BoolArray) -> tuple[int, ...]:
    return tuple(int(number) for number in clip.frame_indices[flags][:_MAX_LISTED])


def _judge(
    parts: tuple[PartQuality, ...], counts: dict[str, int], num_frames: int
) -> tuple[float, tuple[str, ...]]:
    """Return the badness and its grounds.

    Each finding takes away a share of what is still good: 1 - product of (1 - weight * amount).
    """
    if not num_frames:
        return 1.0, (Message("no frames"),)
    findings: list[tuple[float, str]] = []

    def note(weight: float, amount: float, template: str, **values: object) -> None:
        findings.append((weight * min(1.0, amount), Message(template, **values)))

    for part in parts:
        share, label = 1 - part.num_present / num_frames, part_label(part.name)
        is_body, is_hand = part.name in BODY_PARTS, part.name.endswith("_hand")
        if not is_hand and part.name != "feet":
            weight = 1.0 if is_body else 0.6
            note(weight, share, "{part} missing in {share:.0%}", part=label, share=share)
        jumps, template = part.num_jumps, "{num_jumps:jump|jumps} of {part}"
        note(0.6, 20 * jumps / num_frames, template, num_jumps=jumps, part=label)
        if not is_body and part.outside > 0.02:
            template = "{part} {outside:.0%} outside the picture"
            note(0.4, part.outside, template, part=label, outside=part.outside)
    without, frozen = (counts[name] / num_frames for name in ("num_no_hands", "num_frozen"))
    note(0.3, without, "no hands in {without:.0%}", without=without)
    note(0.4, frozen, "{num_frames:frozen frame|frozen frames}", num_frames=counts["num_frozen"])
    for name, template in (
        ("num_swaps", "left/right suspect in {num_frames:frame|frames}"),
        ("num_doubled", "both hands on one spot in {num_frames:frame|frames}"),
    ):
        note(0.7, 10 * counts[name] / num_frames, template, num_frames=counts[name])
    findings = sorted((finding for finding in findings if finding[0] > 0.004), reverse=True)
    good = math.prod(1 - amount for amount, _ in findings)
    return 1 - good, tuple(words for _, words in findings)


@dataclass
class SplitTotals:
    """All clips of one split.

    `sums` are of the counts in `ClipQuality`, by name; `clips` how many clips have any. Each part
    has sums of `num_present` and `num_jumps` likewise, and `clips_with_jumps`.
    """

    num_frames: int = 0
    sums: Counter[str] = field(default_factory=Counter)
    clips: Counter[str] = field(default_factory=Counter)
    parts: dict[str, Counter[str]] = field(default_factory=dict)


class RunQuality:
    """Sums by split, and the `keep` worst clips, the worst first; of equals the earlier."""

    def __init__(self, keep: int) -> None:
        self.splits: dict[str, SplitTotals] = {}
        self.worst: list[ClipQuality] = []
        self._keep = keep
        self.num_clips = 0

    def add(self, quality: ClipQuality) -> None:
        """Count a clip."""
        self.num_clips += 1
        totals = self.splits.setdefault(quality.split, SplitTotals())
        totals.num_frames += quality.num_frames
        for name in COUNTED:
            totals.sums[name] += getattr(quality, name)
            totals.clips[name] += getattr(quality, name) > 0
        for part in quality.parts:
            sums = totals.parts.setdefault(part.name, Counter())
            sums["num_present"] += part.num_present
            sums["num_jumps"] += part.num_jumps
            sums["clips_with_jumps"] += part.num_jumps > 0
        self.worst = sorted([*self.worst, quality], key=lambda clip: -clip.badness)[: self._keep]
