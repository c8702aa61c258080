"""Numbers about a split, gathered clip by clip while it is written."""

from __future__ import annotations

from typing import Any

import numpy as np

from posemill import __version__
from posemill.formats.contract import Recipe
from posemill.geometry import longest_gaps
from posemill.records import PoseClip

_AXES = "xyz"


class SplitStats:
    """Counts, missing rates, ranges and gaps of the clips of one split."""

    def __init__(self, split: str, recipe: Recipe) -> None:
        self.split, self.recipe = split, recipe
        self._lengths: list[int] = []
        self._skeleton = ""
        self._part_names: tuple[str, ...] = ()
        self._frames_without: np.ndarray[Any, Any] = np.zeros(0)
        self._longest: list[tuple[int, str]] = []
        self._num_found = self._num_points = 0
        self._sums, self._squares = np.zeros(3), np.zeros(3)
        self._low, self._high = np.full(3, np.inf), np.full(3, -np.inf)
        self._empty_clips: list[str] = []

    def add(self, clip: PoseClip) -> None:
        """Count a clip."""
        if not self._skeleton:
            self._skeleton = clip.skeleton_name
            self._part_names = clip.skeleton.part_names
            self._frames_without = np.zeros(len(self._part_names), np.int64)
            self._longest = [(0, "")] * len(self._part_names)
        self._lengths.append(len(clip))
        mask = clip.mask
        present = clip.present
        self._frames_without += (~present).sum(axis=0)
        if not present.any():
            self._empty_clips.append(clip.clip_id)
        for index, gap in enumerate(longest_gaps(present).tolist()):
            if gap > self._longest[index][0]:
                self._longest[index] = (gap, clip.clip_id)
        self._num_points += mask.size
        self._num_found += int(np.count_nonzero(mask))
        if not mask.any():
            return
        for axis in range(3):
            # One axis at a time: sums over contiguous numbers are several times faster.
            values = clip.points[..., axis][mask]
            self._sums[axis] += values.sum(dtype=np.float64)
            self._squares[axis] += float(np.dot(values, values))
            self._low[axis] = min(self._low[axis], values.min())
            self._high[axis] = max(self._high[axis], values.max())

    def to_dict(self) -> dict[str, Any]:
        """Return everything, for JSON; rates in 0..1, gaps in frames."""
        frames = sum(self._lengths)
        return {
            "split": self.split,
            "posemill": __version__,
            "skeleton": self._skeleton,
            "options": self.recipe.to_dict(),
            "num_clips": len(self._lengths),
            "num_frames": frames,
            "clip_frames": {
                "min": min(self._lengths, default=0),
                "mean": round(frames / max(len(self._lengths), 1), 3),
                "max": max(self._lengths, default=0),
            },
            "missing_rate": round(1 - self._num_found / max(self._num_points, 1), 6),
            "parts": {
                name: {
                    "missing_rate": round(int(without) / max(frames, 1), 6),
                    "longest_gap": gap,
                    "longest_gap_clip": clip_id,
                }
                for name, without, (gap, clip_id) in zip(
                    self._part_names, self._frames_without, self._longest, strict=True
                )
            },
            "longest_gap": max((gap for gap, _ in self._longest), default=0),
            "coordinates": self._coordinates(),
            "clips_without_points": len(self._empty_clips),
            "clips_without_points_sample": self._empty_clips[:20],
        }

    def _coordinates(self) -> dict[str, dict[str, float | None]]:
        """Return mean, deviation and range of x, y and z over the found points."""
        if not self._num_found:
            return {axis: dict.fromkeys(("mean", "std", "min", "max")) for axis in _AXES}
        mean = self._sums / self._num_found
        spread = np.sqrt(np.maximum(self._squares / self._num_found - mean**2, 0))
        columns = zip(mean, spread, self._low, self._high, strict=True)
        return {
            axis: {
                name: round(float(value), 6)
                for name, value in zip(("mean", "std", "min", "max"), column, strict=True)
            }
            for axis, column in zip(_AXES, columns, strict=True)
        }
