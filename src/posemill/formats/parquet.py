"""Parquet in one file: a row per frame, for pandas, polars, DuckDB and the like.

`keypoints` (K x 3) are flat, like `world` (75 x 3, NaN where not found). The first person of a
frame stands for it. `person_id` is 0 where nobody knows, empty where one was looked for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from posemill.errors import ContentError
from posemill.files import atomic_path
from posemill.formats.shared import contract
from posemill.formats.shared.contract import ClipStream, Format, Recipe, Size
from posemill.formats.shared.json_text import info_text, read_info
from posemill.formats.shared.losses import EMPTY_CLIPS
from posemill.formats.shared.people import clip_of_rows
from posemill.geometry import fill_missing
from posemill.machine.limits import free_memory
from posemill.messages import Message
from posemill.npz.clips import expect_new, read_object
from posemill.records import PoseClip, fields_of_recipe, nothing_in_metres
from posemill.skeletons import WORLD_LAYOUT, get_skeleton
from posemill.terminal import warn_once

_GROUP_FRAMES = 4096
_BATCH_ROWS = 1024
_BOMB_BYTES, _BOMB_RATIO = 1 << 26, 300
_MEMORY_SHARE = 0.7  # of what is free
_COPIES = 5  # of a clip's rows, at most, until it is a `PoseClip`
_KEY = b"posemill"
_WORDS = ("split", "clip_id", "clip_info")


def _schema(skeleton_name: str, optional: Mapping[str, bool], header: str = "") -> pa.Schema:
    count = get_skeleton(skeleton_name).num_points
    types = {
        **dict.fromkeys(_WORDS, pa.string()),
        "frame_index": pa.int64(),
        "image_path": pa.string(),
        "width": pa.int32(),
        "height": pa.int32(),
        "keypoints": pa.list_(pa.float32(), 3 * count),
        "scores": pa.list_(pa.float32(), count),
        "mask": pa.list_(pa.bool_(), count),
        "world": pa.list_(pa.float32(), 3 * WORLD_LAYOUT.num_points),
        "person_id": pa.int32(),
    }
    names = [name for name in types if optional.get(name, True)]
    return pa.schema([(name, types[name]) for name in names], {_KEY: header.encode()})


class ParquetFormat(Format):
    """One Parquet file."""

    name = "parquet"
    suffix = ".parquet"
    first_bytes = b"PAR1"
    layouts: tuple[str, ...] = ("holistic-543", contract.ANY)
    has_mask = True
    holds_world = True
    holds_people = True
    needs_unicode = True
    may_lose = (EMPTY_CLIPS,)
    damage = (pa.ArrowException,)

    def write_clips(self, clips: ClipStream, path: Path) -> None:
        """Write one file, a row group per few thousand frames."""
        with atomic_path(path) as temporary, ExitStack() as files:
            for clip in clips:
                if clips.is_first:
                    has_people = clips.asked.has_people or clip.others is not None
                    optional = {"world": clips.keeps_world, "person_id": has_people}
                    schema = _schema(clips.skeleton_name, optional, json.dumps(clips.header()))
                    floats = [n for n in ("keypoints", "scores", "world") if n in schema.names]
                    lists = [f"{name}.list.element" for name in floats]
                    table = TableWriter(
                        temporary,
                        schema,
                        compression_level=3,
                        use_dictionary=[*_WORDS, "image_path", "width", "height"],
                        column_encoding=dict.fromkeys(lists, "BYTE_STREAM_SPLIT"),
                    )
                    files.enter_context(table)
                table.add(_batch_of(clip, schema, clips.asked), len(clip))

    def read_clips(self, path: Path, size_wh: Size | None) -> Iterator[PoseClip]:
        """Yield the clips: rows of one split and clip id that follow each other."""
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            header = header_of(file)
            optional = {name: name in file.schema_arrow.names for name in ("world", "person_id")}
            expect_columns(path, file, _schema(str(header["skeleton"]), optional))
            seen: set[tuple[str, str]] = set()
            for name, group in groupby(_rows(path, file), key=lambda row: row[0]):
                expect_new(name, seen)
                pieces = _gather(name[1], (piece for _, piece in group))
                yield _clip_of(pieces, header, split=name[0], clip_id=name[1])


class TableWriter(ExitStack):
    """Writes a Parquet file; rows wait until there are enough frames for a row group."""

    def __init__(self, path: Path, schema: pa.Schema, **options: Any) -> None:
        super().__init__()
        options |= {"compression": "zstd", "write_page_checksum": True}
        self._writer = self.enter_context(pq.ParquetWriter(path, schema, **options))
        self.callback(self._flush)
        self.schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._frames = 0

    def add(self, rows: pa.RecordBatch, num_frames: int) -> None:
        """Add rows that hold so many frames."""
        self._waiting.append(rows)
        self._frames += num_frames
        if self._frames >= _GROUP_FRAMES:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting))
        self._waiting, self._frames = [], 0


def _batch_of(clip: PoseClip, schema: pa.Schema, recipe: Recipe) -> pa.RecordBatch:
    keeps_people = "person_id" in schema.names
    people = (clip if keeps_people else replace(clip, others=None)).everybody()
    frames, rows = people.frames, len(people.frames)
    sizes = clip.sizes_wh[frames].astype(np.int32)
    columns = {
        "split": pa.repeat(clip.split, rows),
        "clip_id": pa.repeat(clip.clip_id, rows),
        "clip_info": pa.repeat(info_text(clip), rows),
        "frame_index": clip.frame_indices[frames].astype(np.int64),
        "image_path": [clip.image_paths[frame] if clip.image_paths else None for frame in frames],
        "width": sizes[:, 0],
        "height": sizes[:, 1],
        "keypoints": fill_missing(people.points, recipe.fill or "zero"),
        "scores": people.scores,
        "mask": ~np.isnan(people.points[..., 0]),
        "world": nothing_in_metres(rows) if people.world is None else people.world,
        "person_id": pa.array(people.ids, mask=np.full(rows, clip.others is None)).cast(pa.int32()),
    }

    def as_arrow(values: Any, kind: pa.DataType) -> pa.Array:
        if pa.types.is_fixed_size_list(kind):
            return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), kind.list_size)
        return values if isinstance(values, pa.Array) else pa.array(values, kind)

    arrays = [as_arrow(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def header_of(file: pq.ParquetFile) -> dict[str, Any]:
    """Return what a file of ours says about itself; its skeleton is known."""
    header = read_object(((file.schema_arrow.metadata or {}).get(_KEY) or b"{}").decode())
    if not header:
        raise ContentError(
            "expected a table that posemill exported, got one without its header; of a run, name "
            "the folder, not a shard"
        )
    contract.known_skeleton(str(header.get("skeleton")))
    return header


def expect_columns(path: Path, file: pq.ParquetFile, expected: pa.Schema) -> None:
    """Raise if a column is missing or of another type, or the file would grow without measure."""
    schema, metadata = file.schema_arrow, file.metadata
    for field in expected:
        got = schema.field(field.name).type if field.name in schema.names else "no such column"
        if got != field.type:
            raise ValueError(f"expected column '{field.name}' {field.type}, got {got}")
    for index in range(metadata.num_row_groups):
        # No rows are read, but a footer that contradicts itself is an error here. Asked for a
        # column of one, pyarrow ends the process.
        next(file.reader.iter_batches(0, [index]), None)
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    values = [sum(g.column(i).num_values for i in range(g.num_columns)) for g in groups]
    size, free = path.stat().st_size, free_memory()
    if 4 * max(values, default=0) > max(_BOMB_BYTES, _MEMORY_SHARE * free):
        raise ContentError(
            "a row group would unpack to {largest} bytes, and {free} are free; write it with "
            "smaller row groups",
            largest=4 * max(values),
            free=free,
        )
    if 4 * sum(values) > max(_BOMB_BYTES, _BOMB_RATIO * size):
        raise ValueError(f"{size} bytes would unpack to {sum(values)} values; refused")


def _rows(path: Path, file: pq.ParquetFile) -> Iterator[tuple[tuple[str, str], pa.RecordBatch]]:
    """Yield runs of rows of one clip, at most a batch long; rows without an id are of none."""
    num_lost = 0
    for batch in file.iter_batches(_BATCH_ROWS):
        keys = list(zip(batch["split"].to_pylist(), batch["clip_id"].to_pylist(), strict=True))
        start = 0
        for key, run in groupby(keys):
            length = sum(1 for _ in run)
            if key[1] is None:
                num_lost += length
            else:
                yield (key[0] or "", key[1]), batch.slice(start, length)
            start += length
    warn_of_lost_rows(path, num_lost)


def warn_of_lost_rows(path: Path, num_lost: int) -> None:
    """Say how many rows have no clip_id, if some have none."""
    template = "{path}: {num_lost} rows have no clip_id; they are left out"
    if num_lost:
        warn_once(Message(template, path=path, num_lost=num_lost))


def _gather(clip_id: str, group: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return the rows of a clip; raise before they take more memory than there is."""
    pieces: list[pa.RecordBatch] = []
    num_bytes = 0
    for piece in group:
        pieces.append(piece)
        num_bytes += piece.nbytes
        free = free_memory() if _COPIES * num_bytes > _BOMB_BYTES else math.inf
        if _COPIES * num_bytes > _MEMORY_SHARE * (free + num_bytes):
            raise ContentError(
                "clip {clip_id!r} has so many frames that {free} bytes of free memory are too few "
                "for them; divide it into several clips",
                clip_id=clip_id[:80],
                free=free,
            )
    return pieces


def _clip_of(
    pieces: list[pa.RecordBatch], header: dict[str, Any], *, split: str, clip_id: str
) -> PoseClip:
    table = pa.Table.from_batches(pieces).combine_chunks()
    skeleton = str(header["skeleton"])
    rows, count = table.num_rows, get_skeleton(skeleton).num_points

    def column(name: str, *row: int) -> npt.NDArray[Any]:
        numbers = numbers_of(table[name].combine_chunks(), name, clip_id)
        return np.reshape(numbers, (rows, *row))

    has_world = "world" in table.schema.names
    has_people = "person_id" in table.schema.names and table["person_id"].null_count < rows
    indices = column("frame_index").astype(np.int64)
    # Without people every row is a frame, whatever its number.
    is_first = np.r_[True, indices[1:] != indices[:-1]] | (not has_people)
    paths = np.array(table["image_path"].to_pylist(), object)[is_first].tolist()
    ids = column("person_id").astype(np.int64) if has_people else np.zeros(rows, np.int64)
    return clip_of_rows(
        np.cumsum(is_first) - 1,
        column("keypoints", count, 3),
        column("scores", count),
        column("mask", count),
        ids=ids if ids.any() else None,
        keeps_people=has_people,
        skeleton_name=skeleton,
        split=split,
        clip_id=clip_id,
        sizes_wh=np.stack([column("width"), column("height")], axis=1)[is_first].astype(np.int32),
        frame_indices=indices[is_first],
        image_paths=() if None in paths else tuple(paths),
        world=column("world", WORLD_LAYOUT.num_points, 3) if has_world else None,
        **read_info(table["clip_info"][0].as_py()),
        **fields_of_recipe(header.get("recipe")),
    )


def numbers_of(values: pa.Array, name: str, clip_id: str) -> npt.NDArray[Any]:
    """Return the numbers in a column, those of lists behind each other; each must be there."""
    while not values.null_count and pa.types.is_nested(values.type):
        values = values.flatten()
    if values.null_count:
        raise ValueError(f"clip {clip_id[:80]!r} has empty cells in '{name}'")
    numbers: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return numbers
