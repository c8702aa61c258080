"""Reading runs: only what the commit records name, clip by clip, in the order of the source."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from posemill.blocks import ClipBlock
from posemill.errors import RunError, import_optional
from posemill.files import readable
from posemill.messages import Message
from posemill.plugins import hint
from posemill.records import PoseClip, fields_of_recipe
from posemill.runs.home import RunHome
from posemill.runs.manifest import Manifest
from posemill.runs.queries import Failure, FoundInPieces, read_ledger
from posemill.runs.schema import CLIP_COLUMNS, arrays_of, block_of, run_schema
from posemill.runs.shards import BlockPlan, middle_row, part_for, plan_blocks, read_rows
from posemill.skeletons import get_skeleton
from posemill.terminal import counted


def open_run(path: Path | str) -> Run:
    """Return the run in a folder or at a URI, finished or not: what was committed to it so far."""
    return Run(RunHome.existing(path))


@dataclass(frozen=True)
class Outline:
    """A clip without its keypoints, or several of which all but the id is the same."""

    split: str
    clip_id: str
    skeleton_name: str
    num_frames: int
    num_present: tuple[int, ...]  # in how many frames each part was found, parts as in the skeleton
    sizes_wh: Mapping[tuple[int, int], int]  # how many frames have each width and height, in pixels
    normalized: str = "none"
    interpolated: int = 0
    smoothed: str = "none"
    num_clips: int = 1


class Run:
    """A run folder, read lazily: a clip's keypoints are in memory only while it is looked at.

    Attributes:
        counts: Clips and frames of every split, as they were when the run was opened.
        num_frames: How many frames have keypoints, in all splits.
        is_finished: Whether everything that was planned was tried.
    """

    def __init__(self, home: RunHome) -> None:
        self._home = home
        self.folder = folder = home.work
        self.manifest = Manifest.read(folder)
        if self.manifest.kind == "frames":
            raise RunError(
                "{folder} holds frames, not keypoints; find them with: posemill "
                "extract {folder!q} --out RUN",
                folder=folder,
            )
        try:
            self._made = fields_of_recipe(self.manifest.options.get("recipe"))
        except ValueError as error:
            raise RunError(
                "{folder}: its manifest has a recipe with {error}", folder=folder, error=error
            ) from error
        self.skeleton_name = self.manifest.skeleton_name
        with read_ledger(folder) as ledger:
            self.counts, self.is_finished = ledger.counts(), ledger.finished_at() is not None
        self.splits = tuple(counts.split for counts in self.counts)
        self.num_frames = sum(counts.frames_out for counts in self.counts)

    def __repr__(self) -> str:
        parts = [f"{each.split} {counted(each.frames_out, 'frames')}" for each in self.counts]
        state = "finished" if self.is_finished else "not finished"
        words = ", ".join([self.skeleton_name, *(parts or ["empty"]), state])
        return f"Run({self._home.name!r}, {words})"

    def _repr_html_(self) -> str:
        return str(import_module("posemill.commands.pictures").run_html(self))

    def __len__(self) -> int:
        return sum(split_counts.num_clips for split_counts in self.counts)

    def __fspath__(self) -> str:
        return str(self.folder)

    def __iter__(self) -> Iterator[PoseClip]:
        return self.clips()

    def __contains__(self, key: object) -> bool:
        split, clip_id = key if isinstance(key, tuple) else (None, key)
        return split in (None, *self.splits) and clip_id in self.clip_ids(split)

    def __getitem__(self, key: str | tuple[str, str]) -> PoseClip:
        """Return a clip by its id, or by split and id where two splits have the same."""
        if isinstance(key, str):
            return self.clip(key)
        if isinstance(key, tuple) and len(key) == 2:
            return self.clip(key[1], key[0])
        raise TypeError(f"expected the id of a clip, or (split, id), got {key!r:.80}")

    def failures(self) -> list[Failure]:
        """Return what gave no keypoints, with the reasons, in the order of clips and frames."""
        with read_ledger(self.folder) as ledger:
            return list(ledger.failures())

    def unfinished_clips(self) -> list[tuple[str, str, int, int | None]]:
        """Return (split, id, frames there, frames there will be or None) of what is not done."""
        with read_ledger(self.folder) as ledger:
            return list(ledger.unfinished())

    def clip_ids(self, split: str | None = None) -> list[str]:
        """Return the ids of all clips that have keypoints, in reading order."""
        self._check_split(split)
        with read_ledger(self.folder) as ledger:
            rows = ledger.execute(
                "SELECT clip_id FROM clips WHERE clip_no IN (SELECT clip_no FROM pieces) "
                "AND (split = ? OR ? IS NULL) ORDER BY clip_no",
                (split, split),
            )
            return [clip_id for (clip_id,) in rows]

    def outlines(self, split: str, *, is_grouped: bool = False) -> Iterator[Outline]:
        """Yield the clips of a split without their keypoints, out of the records alone.

        Grouped, clips whose records are the same come as one, by the id of the first.
        """
        self._check_split(split)
        alike: dict[FoundInPieces, tuple[str, int]] = {}
        with read_ledger(self.folder) as ledger:
            for _, clip_id, found in ledger.found(split):
                if is_grouped:
                    first_id, number = alike.get(found, (clip_id, 0))
                    alike[found] = (first_id, number + 1)
                else:
                    yield self._sum_up(split, clip_id, found)
        for found, (clip_id, number) in alike.items():
            yield self._sum_up(split, clip_id, found, number)

    def _sum_up(self, split: str, clip_id: str, pieces: FoundInPieces, count: int = 1) -> Outline:
        sizes, num_frames = Counter[tuple[int, int]](), 0
        present = [0] * len(get_skeleton(self.skeleton_name).parts)
        try:
            for num_rows, found in pieces:
                num_frames += num_rows
                parts, by_size = json.loads(found)
                present = [int(a) + int(b) for a, b in zip(present, parts, strict=True)]
                for width, height, number in by_size:
                    sizes[int(width), int(height)] += int(number)
        except (ValueError, TypeError, RecursionError) as error:
            raise RunError(
                "{folder}: the ledger does not say what was found in clip {clip_id!r}; put back a "
                "copy of ledger.sqlite",
                folder=self.folder,
                clip_id=clip_id,
            ) from error
        counts = (num_frames, tuple(present), sizes)
        return Outline(split, clip_id, self.skeleton_name, *counts, **self._made, num_clips=count)

    def clips(
        self, split: str | None = None, *, skeleton_name: str | None = None
    ) -> Iterator[PoseClip]:
        """Yield the clips that have keypoints, of one split or of all, in a stable order.

        In the layout `skeleton_name`, if one is given, as by `PoseClip.as_skeleton`. Of a run of
        543 points others need less reading.
        """
        for plan in self.plan_blocks(split):
            for clip in self.read_block(plan, skeleton_name).clips:
                # Its own memory: whoever keeps a clip does not keep its neighbours.
                yield dataclasses.replace(
                    clip,
                    points=clip.points.copy(),
                    scores=clip.scores.copy(),
                    run_folder=str(self.folder),
                )

    def middle_frames(self, split: str) -> Iterator[PoseClip]:
        """Yield of each clip one frame, about its middle one: all that is read of it."""
        for plan in self.plan_blocks(split):
            for _, pieces in groupby(plan.rows, key=lambda rows: rows.clip_no):
                yield from self.read_block(BlockPlan((middle_row(list(pieces)),))).clips

    def plan_blocks(self, split: str | None = None) -> Iterator[BlockPlan]:
        """Yield the parts of a run for `read_block`, of one split or of all, in a stable order."""
        self._check_split(split)
        with read_ledger(self.folder) as ledger:
            yield from plan_blocks(ledger.rows(split))

    def read_block(self, plan: BlockPlan, skeleton_name: str | None = None) -> ClipBlock:
        """Return neighbouring clips in shared arrays. Any number of threads may read at once."""
        wanted = skeleton_name or self.skeleton_name
        part = part_for(self.skeleton_name, wanted)
        table = read_rows(self._home, plan, self.skeleton_name, CLIP_COLUMNS, part=part)
        made = {"skeleton_name": part, **self._made}
        block = block_of(table, plan.names, plan.lengths, made, whole=self.skeleton_name)
        return block.as_skeleton(wanted)

    def clip(self, clip_id: str, split: str | None = None) -> PoseClip:
        """Return one clip; `split` is needed only where two splits have the same id."""
        self._check_split(split)
        with read_ledger(self.folder) as ledger:
            rows = tuple(ledger.rows(split, readable(clip_id)))
        if not rows:
            near = hint(clip_id, self.clip_ids(split)) or Message("; clip_ids() lists them")
            template = "{folder} has no keypoints of a clip {clip_id!r}{near}"
            raise RunError(template, folder=self.folder, clip_id=clip_id, near=near)
        splits = {row.split for row in rows}
        if len(splits) > 1:
            raise RunError(
                "clip {clip_id!r} is in several splits ({splits}): say which, as "
                "run[{split!r}, {clip_id!r}]",
                clip_id=clip_id,
                splits=", ".join(sorted(splits)),
                split=rows[0].split,
            )
        (clip,) = self.read_block(BlockPlan(rows)).clips
        return dataclasses.replace(clip, run_folder=str(self.folder))

    def table(self, split: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """Return all rows as an Arrow table, by clip and frame."""
        schema = run_schema(self.skeleton_name)
        if columns is not None:
            if unknown := [name for name in columns if name not in schema.names]:
                raise ValueError(f"no columns {unknown}; a run has {', '.join(schema.names)}")
            schema = pa.schema([schema.field(name) for name in columns], schema.metadata)
        tables = (
            read_rows(self._home, plan, self.skeleton_name, columns)
            for plan in self.plan_blocks(split)
        )
        return pa.concat_tables([schema.empty_table(), *(t.select(schema.names) for t in tables)])

    def to_pandas(self, split: str | None = None, columns: Sequence[str] | None = None) -> Any:
        """Return the rows as a pandas DataFrame, by clip and frame.

        The keypoints of a million frames are 9 GB: give `columns` to leave them on the disk.
        """
        import_optional("pandas")
        return self.table(split, columns).to_pandas()

    def to_numpy(self, split: str | None = None) -> dict[str, Any]:
        """Return the keypoints of all clips, one after the other.

        Keys: `points (N, K, 3)`, `scores (N, K)`, `sizes_wh (N, 2)`, `frame_indices (N,)`,
        `clip_starts (clips + 1,)` (clip i is rows `clip_starts[i]:clip_starts[i + 1]`), and
        `clip_ids`, a list. Memory is taken once, for the result.
        """
        plans = list(self.plan_blocks(split))
        empty = arrays_of(run_schema(self.skeleton_name).empty_table(), self.skeleton_name)
        arrays: dict[str, Any] = {
            name: np.empty((sum(map(len, plans)), *values.shape[1:]), values.dtype)
            for name, values in empty.items()
        }
        columns, start = ("width", "height", "keypoints", "scores"), 0
        for plan in plans:
            table = read_rows(self._home, plan, self.skeleton_name, columns)
            for name, values in arrays_of(table, self.skeleton_name).items():
                arrays[name][start : start + len(plan)] = values
            start += len(plan)
        lengths = [length for plan in plans for length in plan.lengths]
        clip_ids = [clip_id for plan in plans for _, clip_id in plan.names]
        clip_starts = np.cumsum([0, *lengths], dtype=np.int64)
        return {**arrays, "clip_starts": clip_starts, "clip_ids": clip_ids}

    def to_torch(self, split: str | None = None) -> dict[str, Any]:
        """Return what `to_numpy` does, the arrays as tensors that share its memory."""
        from_numpy = import_optional("torch").from_numpy
        arrays = self.to_numpy(split)
        return {
            name: values if name == "clip_ids" else from_numpy(values)
            for name, values in arrays.items()
        }

    def _check_split(self, split: str | None) -> None:
        if split not in (None, *self.splits):
            raise RunError(
                "{folder} has no split {split!r}; it has {splits}{hint}",
                folder=self.folder,
                split=split,
                splits=", ".join(self.splits) or "none",
                hint=hint(str(split), self.splits),
            )
