"""`posemill view`: counts, sizes and presence by split, sample rows, and clips in detail."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from posemill.clips.inputs import ClipInput, Outline
from posemill.inspection.quality import COUNTED, ClipQuality
from posemill.records import PoseClip
from posemill.runs.queries import Failure
from posemill.skeletons import get_skeleton

ALL_SPLITS = "all splits"  # name of the row that sums up the others
_SIZES_SHOWN = 5
_MAX_FACT = 2000  # characters of one setting


@dataclass
class SplitSummary:
    """The clips of one split, or of all, counted."""

    split: str
    num_frames: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    present: Counter[str] = field(default_factory=Counter)
    skeleton_names: dict[str, None] = field(default_factory=dict)
    normalized: dict[str, None] = field(default_factory=dict)
    interpolated: int = 0

    def add(self, outline: Outline) -> None:
        """Count a clip."""
        self.skeleton_names[outline.skeleton_name] = None
        self.normalized[outline.normalized] = None
        self.interpolated = max(self.interpolated, outline.interpolated)
        number = outline.num_clips
        self.lengths[outline.num_frames] += number
        self.num_frames += number * outline.num_frames
        # One by one: `Counter.update` takes several times as long for a few.
        for size_wh, count in outline.sizes_wh.items():
            self.sizes[size_wh] += number * count
        part_names = get_skeleton(outline.skeleton_name).part_names
        for name, count in zip(part_names, outline.num_present, strict=True):
            self.present[name] += number * count

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, for JSON: presence as shares of frames, sizes by frames."""
        lengths = np.repeat(list(self.lengths) or [0], list(self.lengths.values()) or [1])
        return {
            "split": self.split,
            "num_clips": self.lengths.total(),
            "num_frames": self.num_frames,
            "frames_per_clip": {
                "min": int(lengths.min()),
                "median": float(np.median(lengths)),
                "max": int(lengths.max()),
            },
            "presence": {
                name: count / self.num_frames if self.num_frames else None
                for name, count in self.present.items()
            },
            "sizes_wh": [
                {"width": width, "height": height, "num_frames": count}
                for (width, height), count in self.sizes.most_common(_SIZES_SHOWN)
            ],
            "num_sizes": len(self.sizes),
        }


def describe(
    material: ClipInput, outlines: Iterable[Outline], *, num_rows: int = 5
) -> dict[str, Any]:
    """Return what `posemill view` shows, for JSON."""
    facts, failed = material.facts(), material.num_failed()
    # A split of which nothing could be read has no outlines, and must show all the same.
    summaries = summarize(outlines, failed)
    total = summaries[-1] if summaries else SplitSummary(ALL_SPLITS)
    rows = [summary.to_dict() for summary in summaries]
    for key, counts in (("clips_failed", material.num_failed("clips")), ("frames_failed", failed)):
        for row in rows if failed else ():
            row[key] = counts.get(row["split"], sum(counts.values()))
    skeleton_names = list(total.skeleton_names)
    if not skeleton_names and "skeleton_name" in facts:  # what the run is for
        skeleton_names = [str(facts["skeleton_name"])]
    return {
        "path": material.name,
        "kind": material.kind,
        "skeleton_names": skeleton_names,
        # What was done to the clips; several words where a folder's files differ.
        "normalized": list(total.normalized),
        "interpolated": total.interpolated,
        **({"is_finished": facts["is_finished"]} if "is_finished" in facts else {}),
        "splits": rows,
        "reasons": group_failures(material.failures()),
        "sample_rows": sample_rows(material.samples(), num_rows) if num_rows else [],
    }


def group_failures(failures: Iterable[Failure]) -> list[dict[str, Any]]:
    """Return why frames and clips gave no keypoints, with counts, the most frequent first."""
    by_reason: dict[str, list[Failure]] = {}
    for failure in failures:
        by_reason.setdefault(failure.reason, []).append(failure)
    reasons = [
        {
            "reason": reason,
            "failures": len(group),
            "frames": sum(failure.num_frames or 0 for failure in group),
            "clips": len({(failure.split, failure.clip_id) for failure in group}),
        }
        for reason, group in by_reason.items()
    ]
    return sorted(reasons, key=lambda reason: -reason["failures"])


def summarize(outlines: Iterable[Outline], splits: Iterable[str] = ()) -> list[SplitSummary]:
    """Return the summary of every split in order, and of all together where there are several.

    `splits` are listed even where they have no clips.
    """
    by_split = {split: SplitSummary(split) for split in splits}
    total = SplitSummary(ALL_SPLITS)
    for outline in outlines:
        by_split.setdefault(outline.split, SplitSummary(outline.split)).add(outline)
        total.add(outline)
    return [*by_split.values(), total] if len(by_split) > 1 else [*by_split.values()]


def sample_rows(clips: Iterable[PoseClip], count: int) -> list[dict[str, Any]]:
    """Return what frames look like, one from the middle of each of the first `count` clips."""
    middles = ((clip, len(clip) // 2) for clip in islice(filter(len, clips), count))
    return [
        {
            "split": clip.split,
            "clip_id": clip.clip_id,
            "frame_index": int(clip.frame_indices[row]),
            "size_wh": clip.sizes_wh[row].tolist(),
            "num_found": {
                part.name: int(clip.mask[row, part.start : part.stop].sum())
                for part in clip.skeleton.parts
            },
            "mean_score": round(float(clip.scores[row].mean()), 3),
            "image_path": clip.image_paths[row] if clip.image_paths else None,
        }
        for clip, row in middles
    ]


def percent(share: float | None) -> str:
    """Return a share as a percentage: `99.9%`, and `<100%` where it is not quite all."""
    if share is None:
        return "-"
    if share < 1 and f"{share:.1%}" == "100.0%":
        return "<100%"  # a part that is missing once must not look complete
    return "100%" if share == 1 else f"{share:.1%}"


def clip_row(quality: ClipQuality) -> dict[str, Any]:
    """Return the quality of a clip, for JSON and for tables."""
    frames = max(1, quality.num_frames)
    return {
        "split": quality.split,
        "clip_id": quality.clip_id,
        "num_frames": quality.num_frames,
        "badness": round(quality.badness, 4),
        "reasons": list(quality.reasons),
        **{name: getattr(quality, name) for name in ("num_jumps", *COUNTED, "is_continuous")},
        "parts": {
            part.name: {
                "presence": round(part.num_present / frames, 4),
                "longest_gap": part.longest_gap,
                "num_jumps": part.num_jumps,
                "jump_frames": list(part.jump_frames),
                "num_frozen": part.num_frozen,
                "outside": None if np.isnan(part.outside) else round(part.outside, 4),
            }
            for part in quality.parts
        },
    }


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the `outer.inner` names of what is known of a run, with their values as text."""
    for key, value in values.items():
        if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            value = {str(number): item for number, item in enumerate(value, start=1)}
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{prefix}{key}.")
        else:
            plain = value if isinstance(value, str) else json.dumps(value, default=str)
            yield f"{prefix}{key}", plain[:_MAX_FACT]
