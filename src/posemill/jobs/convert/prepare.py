"""A run as the input of a model: `{split}_keypoints.npz` and `{split}_stats.json`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill import __version__
from posemill.blocks import ClipBlock, join_clips, join_stream
from posemill.clips.inputs import ClipInput
from posemill.clips.people import choose_person
from posemill.errors import FormatError
from posemill.files import atomic_path, new_folders, remove_leftovers
from posemill.formats.npz import NpzFormat
from posemill.formats.shared.contract import Recipe
from posemill.geometry import longest_gaps
from posemill.jobs.convert.between import Watch, unwatched, writing
from posemill.jobs.convert.shaping import Shaping
from posemill.machine.read_ahead import closing_stream, map_ahead, read_ahead
from posemill.outputs import Outputs
from posemill.records import PoseClip
from posemill.runs.shards import BlockPlan
from posemill.terminal import counted

_MAX_NAME_BYTES = 150  # of a split, so that the files' names stay below the usual 255
_AXES = "xyz"
_COLUMNS = ("mean", "std", "min", "max")


@dataclass(frozen=True, repr=False)
class Prepared:
    """One split on the disk; `losses` says in words which points of the clips are left out."""

    split: str
    path: Path
    stats_path: Path
    stats: dict[str, Any]
    losses: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        paths = {"path": self.path, "stats_path": self.stats_path}
        return {**paths, "losses": self.losses, **self.stats}

    def __repr__(self) -> str:
        clips = counted(self.stats["num_clips"], "clips")
        counts = f"{clips}, {counted(self.stats['num_frames'], 'frames')}"
        return f"Prepared({self.split!r}, {counts}, {str(self.path)!r})"


def prepare(
    source: ClipInput,
    out: Path,
    *,
    recipe: Recipe | None = None,
    people: int = 1,
    overwrite: bool = False,
    watch: Watch = unwatched,
) -> list[Prepared]:
    """Write the arrays and the statistics of every split; each file is whole or the old one.

    Files of other splits in the folder stay. By default layout 143, no normalisation and zeros for
    missing points. With several `people` arrays have an axis of them, the largest first, each
    followed along the clip; the source has to give all of them. `overwrite` replaces files that
    were not prepared from this source, too.
    """
    shaping = Shaping(source, recipe or Recipe(), NpzFormat(), has_room=people > 1)
    outputs = Outputs(source.path, overwrite=overwrite)
    for split in check_splits(source, watch=watch):
        for path in _paths_of(out, split):
            outputs.claim_file(path)
    plans = source.plan_splits()
    # A run is unpacked by threads of its own.
    stream = watch(_read_blocks(source, plans, shaping.layout), source.num_frames)
    with writing(out), closing_stream(stream) as blocks, new_folders(out):
        prepared = []
        for split, group in groupby(blocks, key=lambda block: block.split):
            path, stats_path = _paths_of(out, split)
            shaping.dropped, stats = {}, SplitStats(split, shaping.recipe)
            remove_leftovers(path)
            num_frames = sum(map(len, plans[split])) if split in plans else None
            whole = map(partial(_with_people, people=people), group)
            shaped = map(stats.add, shaping.shape(whole))
            # Shaping and counting go on in a thread of their own while this one writes.
            with closing_stream(read_ahead(shaped, depth=2)) as ready:
                NpzFormat().write_blocks(ready, path, recipe=shaping.recipe, num_frames=num_frames)
            numbers = stats.to_dict()
            numbers |= {"keypoints_file": path.name, "num_bytes": path.stat().st_size}
            with atomic_path(stats_path) as temporary:
                temporary.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
            prepared.append(Prepared(split, path, stats_path, numbers, tuple(shaping.dropped)))
            outputs.record(path)
            outputs.record(stats_path)
        return prepared


def _with_people(block: ClipBlock, people: int) -> ClipBlock:
    """Return the clips of the largest person, with those of the next ones beside them."""
    if people == 1:
        return block
    first, *rest = (
        join_clips([_only(clip, number) for clip in block.clips]) for number in range(1, people + 1)
    )
    return replace(first, beside=tuple(rest))


def _only(clip: PoseClip, number: int) -> PoseClip:
    """Return the clip of one person; nobody where the clip has not so many."""
    if clip.others is not None or number == 1:
        return choose_person(clip, number)
    nobody = np.full_like(clip.points, np.nan)
    return replace(clip, points=nobody, scores=np.zeros_like(clip.scores), world=None)


def _paths_of(out: Path, split: str) -> tuple[Path, Path]:
    return out / f"{split}_keypoints.npz", out / f"{split}_stats.json"


def _read_blocks(
    source: ClipInput, plans: Mapping[str, list[BlockPlan]], layout: str | None
) -> Iterator[ClipBlock]:
    """Yield what `source.clips` does, many clips at a time, read ahead by other threads."""
    if source.run is None:
        return join_stream(read_ahead(source.clips()))
    planned = (plan for each in plans.values() for plan in each)
    return source.chosen(map_ahead(partial(source.read_block, layout=layout), planned))


def check_splits(source: ClipInput, *, watch: Watch = unwatched) -> Sequence[str]:
    """Return the splits; raise if their names do not fit or their clips are not together.

    A file is read through for it: nothing is written before all of its splits are known.
    """
    splits: Sequence[str] = source.splits or ()
    if source.run is None:
        with closing_stream(watch(read_ahead(source.clips()), None)) as clips:
            splits = [split for split, _ in groupby(clips, key=lambda clip: clip.split)]
    for split in splits:
        is_name = split.isprintable() and not {"/", "\\"} & set(split)
        if not (split and is_name and len(split.encode()) <= _MAX_NAME_BYTES):
            raise FormatError(
                "{path}: the name of split {split!r:.200} cannot be part of a file's name; leave "
                "it out by {--splits}, or write one file: posemill export --to npz",
                path=source.path,
                split=split,
            )
        if splits.count(split) > 1:
            raise FormatError(
                "{path}: clips of split {split!r} come in several places; make a run of them "
                "first: posemill import FILE --out RUN",
                path=source.path,
                split=split,
            )
    return splits


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
