"""Numbers about a split, gathered while it is written."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill import __version__
from posemill.blocks import ClipBlock
from posemill.formats.shared.contract import Recipe
from posemill.geometry import longest_gaps

_AXES = "xyz"
_COLUMNS = ("mean", "std", "min", "max")


class SplitStats:
    """Counts, missing rates, ranges and gaps of the clips of one split."""

    def __init__(self, split: str, recipe: Recipe) -> None:
        self.split, self.recipe = split, recipe
        self._lengths: list[int] = []
        self._skeleton = ""
        self._frames_without = Counter[str]()  # by part
        self._longest: dict[str, tuple[int, str]] = {}  # gap of each part, and its clip
        self._num_found = self._num_points = 0
        self._sums, self._squares = np.zeros(3), np.zeros(3)
        self._low, self._high = np.full(3, np.inf), np.full(3, -np.inf)
        self._empty_clips: list[str] = []

    def add(self, block: ClipBlock) -> ClipBlock:
        """Count the clips of a block; return it."""
        frames, present = block.frames, block.frames.present
        self.recipe, self._skeleton = self.recipe.after(frames), frames.skeleton_name
        self._lengths += block.lengths.tolist()
        self._num_points += frames.mask.size
        self._num_found += int(np.count_nonzero(frames.mask))
        gaps = longest_gaps(present, block.lengths)  # (clips, parts)
        is_empty = (gaps == block.lengths[:, None]).all(axis=1)
        self._empty_clips += [block.clips[index].clip_id for index in np.flatnonzero(is_empty)]
        for part, name in enumerate(frames.skeleton.part_names):
            self._frames_without[name] += int((~present[:, part]).sum())
            clip_index = int(gaps[:, part].argmax())
            gap = int(gaps[clip_index, part])
            if gap > self._longest.setdefault(name, (0, ""))[0]:
                self._longest[name] = gap, block.clips[clip_index].clip_id
        # Whole rows at a time, x, y and z of all points side by side: several times faster than
        # picking the found ones. Zeros for missing points add nothing to a sum.
        rows = block.zeroed.reshape(len(block), -1)  # (T, 3 K)
        self._sums += _per_axis(np.add, rows.sum(axis=0, dtype=np.float64))
        self._squares += _per_axis(np.add, np.einsum("tk,tk->k", rows, rows, dtype=np.float64))
        rows = block.frames.points.reshape(len(block), -1)
        self._low = np.fmin(self._low, _per_axis(np.fmin, np.fmin.reduce(rows, initial=np.inf)))
        self._high = np.fmax(self._high, _per_axis(np.fmax, np.fmax.reduce(rows, initial=-np.inf)))
        return block

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
                    "missing_rate": round(self._frames_without[name] / max(frames, 1), 6),
                    "longest_gap": gap,
                    "longest_gap_clip": clip_id,
                }
                for name, (gap, clip_id) in self._longest.items()
            },
            "longest_gap": max((gap for gap, _ in self._longest.values()), default=0),
            "coordinates": self._coordinates(),
            "clips_without_points": len(self._empty_clips),
            "clips_without_points_sample": self._empty_clips[:20],
        }

    def _coordinates(self) -> dict[str, dict[str, float | None]]:
        """Return mean, deviation and range of x, y and z over the found points."""
        if not self._num_found:
            return {axis: dict.fromkeys(_COLUMNS) for axis in _AXES}
        mean = self._sums / self._num_found
        spread = np.sqrt(np.maximum(self._squares / self._num_found - mean**2, 0))
        rows = np.stack([mean, spread, self._low, self._high], axis=1).round(6).tolist()
        return {
            axis: dict(zip(_COLUMNS, row, strict=True))
            for axis, row in zip(_AXES, rows, strict=True)
        }


def _per_axis(reduce: np.ufunc, columns: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return x, y and z of what each of `(3 K,)` columns, x, y, z of the first point …, gave."""
    reduced: npt.NDArray[np.float64] = reduce.reduce(columns.reshape(-1, 3).astype(np.float64))
    return reduced
