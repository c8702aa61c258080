"""A run as the input of a model: `{split}_keypoints.npz` and `{split}_stats.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posemill.errors import FormatError
from posemill.files import atomic_path, remove_leftovers
from posemill.formats.contract import Recipe
from posemill.formats.npz import NpzFormat
from posemill.jobs.convert import Watch, unwatched, writing
from posemill.jobs.inputs import ClipInput
from posemill.jobs.read_ahead import read_ahead
from posemill.jobs.shaping import check_recipe, layout_for, shape_clip
from posemill.jobs.statistics import SplitStats
from posemill.records import PoseClip

_SPLIT_NAME = re.compile(r"[\w.-]{1,100}$")


@dataclass(frozen=True)
class Prepared:
    """One split on the disk."""

    split: str
    path: Path
    stats_path: Path
    stats: dict[str, Any]


def prepare(
    source: ClipInput, out: Path, *, recipe: Recipe | None = None, watch: Watch = unwatched
) -> list[Prepared]:
    """Write the arrays and the statistics of every split; each file is whole or the old one.

    Args:
        source: A run, or a file of any format.
        out: A folder, made if need be. Files of other splits in it stay.
        recipe: Layout 143, no normalisation and zeros for missing points by default.
        watch: Sees every clip pass.
    """
    recipe = check_recipe(recipe or Recipe(), NpzFormat())
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    # A run is unpacked in a second thread while this one shapes and writes.
    clips = watch(read_ahead(source.clips()), source.num_frames)
    with writing(out):
        return [_write_split(split, group, out, recipe) for split, group in _by_split(clips, out)]


def _by_split(
    clips: Iterator[PoseClip], out: Path
) -> Iterator[tuple[str, Iterator[PoseClip]]]:  # fmt: skip
    """Yield each split with its clips, which must follow each other, as those of a run do."""
    done: set[str] = set()
    waiting = next(clips, None)
    while waiting is not None:
        split = waiting.split
        if split in done or not _SPLIT_NAME.match(split):
            raise FormatError(
                f"{out}: clips of split {split!r} come in several places, or its name cannot be a "
                "file's; make a run of them first: posemill import FILE --out RUN"
            )
        done.add(split)
        rest: list[PoseClip] = []
        yield split, _while_same(waiting, clips, rest)
        waiting = rest[0] if rest else None


def _while_same(
    first: PoseClip, clips: Iterator[PoseClip], rest: list[PoseClip]
) -> Iterator[PoseClip]:
    """Yield clips of one split; the first of the next one goes into `rest`."""
    yield first
    for clip in clips:
        if clip.split != first.split:
            rest.append(clip)
            return
        yield clip


def _write_split(split: str, clips: Iterator[PoseClip], out: Path, recipe: Recipe) -> Prepared:
    form, stats = NpzFormat(), SplitStats(split, recipe)

    def shaped() -> Iterator[PoseClip]:
        for clip in clips:
            ready = shape_clip(clip, recipe, layout_for(clip, recipe, form))
            stats.add(ready)
            yield ready

    path, stats_path = out / f"{split}_keypoints.npz", out / f"{split}_stats.json"
    remove_leftovers(path)
    form.write(shaped(), path, recipe=recipe)
    content = stats.to_dict() | {"keypoints_file": path.name, "num_bytes": path.stat().st_size}
    with atomic_path(stats_path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return Prepared(split, path, stats_path, content)
