"""A run as the input of a model: `{split}_keypoints.npz` and `{split}_stats.json`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from posemill.blocks import ClipBlock, join_clips, join_stream
from posemill.clips.inputs import ClipInput
from posemill.clips.people import choose_person
from posemill.errors import FormatError
from posemill.files import atomic_path, new_folders, remove_leftovers
from posemill.formats.npz import NpzFormat
from posemill.formats.shared.contract import Recipe
from posemill.jobs.convert.between import Watch, unwatched, writing
from posemill.jobs.convert.shaping import Shaping
from posemill.jobs.convert.statistics import SplitStats
from posemill.machine.read_ahead import closing_stream, map_ahead, read_ahead
from posemill.outputs import Outputs
from posemill.records import PoseClip
from posemill.runs.shards import BlockPlan
from posemill.terminal import counted

_MAX_NAME_BYTES = 150  # of a split, so that the files' names stay below the usual 255


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

    Args:
        source: A run, or a file of any format.
        out: A folder, made if need be. Files of other splits in it stay.
        recipe: Layout 143, no normalisation and zeros for missing points by default.
        people: Of more than one, arrays have an axis of people, the largest first, each followed
            along the clip; `source` has to give all of them.
        overwrite: Replace files that were not prepared from this source.
        watch: Sees every clip pass.
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
            shaped = map(stats.add, shaping.shape(_with_people(group, people)))
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


def _with_people(blocks: Iterator[ClipBlock], people: int) -> Iterator[ClipBlock]:
    """Yield the clips of the largest person, with those of the next ones beside them."""
    for block in blocks:
        if people == 1:
            yield block
            continue
        first, *rest = (
            join_clips([_only(clip, number) for clip in block.clips])
            for number in range(1, people + 1)
        )
        yield replace(first, beside=tuple(rest))


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
    for split in sorted(set(splits)):
        if splits.count(split) > 1:
            raise FormatError(
                "{path}: clips of split {split!r} come in several places; make a run of them "
                "first: posemill import FILE --out RUN",
                path=source.path,
                split=split,
            )
    return splits
