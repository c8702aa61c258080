"""The rows of shards: the columns they are stored in, which of them make a block, reading them.

Points of `holistic-543` lie in two parts, as most readers want only the first: `keypoints_143` has
those of `holistic-143`, in its order, `keypoints_other` the 400 others, all of the face, in the
order of the 468; `scores_…` likewise. Other skeletons have `keypoints` and `scores`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from posemill.blocks import BLOCK_FRAMES
from posemill.errors import RunError
from posemill.messages import Message
from posemill.records import IntArray
from posemill.runs.home import RunHome
from posemill.runs.manifest import shard_path
from posemill.runs.queries import ShardRows
from posemill.runs.schema import (
    check_schema,
    join_tables,
    numbers_of,
    run_schema,
    skeleton_of,
    values_of,
)
from posemill.skeletons import get_skeleton, point_map

_FLOATS = ("keypoints", "scores")
_WHOLE, _FIRST = "holistic-543", "holistic-143"


@dataclass(frozen=True)
class BlockPlan:
    """Where the rows of some whole clips of one split are, clip by clip."""

    rows: tuple[ShardRows, ...]

    def __len__(self) -> int:
        return sum(rows.num_rows for rows in self.rows)

    @property
    def names(self) -> list[tuple[str, str]]:
        """Split and id of each clip."""
        return [(split, clip_id) for (_, split, clip_id), _ in self._clips()]

    @property
    def lengths(self) -> list[int]:
        """Frames of each clip."""
        return [sum(piece.num_rows for piece in pieces) for _, pieces in self._clips()]

    def _clips(self) -> Iterator[tuple[tuple[int, str, str], Iterator[ShardRows]]]:
        return groupby(self.rows, key=itemgetter(0, 1, 2))


def plan_blocks(ledger_rows: Iterable[ShardRows]) -> Iterator[BlockPlan]:
    """Yield the blocks of a run, from its rows by clip and frame.

    A block has about `BLOCK_FRAMES` frames, and more if that lets it end with a shard: what lies
    in two blocks is unpacked twice.
    """
    block: list[ShardRows] = []
    size = 0
    for _, pieces in groupby(ledger_rows, key=lambda rows: rows.clip_no):
        clip = list(pieces)
        is_full = size >= BLOCK_FRAMES and (
            block[-1].shard != clip[0].shard or size >= 2 * BLOCK_FRAMES
        )
        if block and (is_full or block[0].split != clip[0].split):
            yield BlockPlan(tuple(block))
            block, size = [], 0
        block += clip
        size += sum(rows.num_rows for rows in clip)
    if block:
        yield BlockPlan(tuple(block))


def middle_row(pieces: Sequence[ShardRows]) -> ShardRows:
    """Return the middle one of a clip's rows."""
    left = sum(piece.num_rows for piece in pieces) // 2
    for piece in pieces:
        if left < piece.num_rows:
            return piece._replace(offset=piece.offset + left, num_rows=1)
        left -= piece.num_rows
    raise ValueError("a clip without rows has no middle")


def read_rows(
    home: RunHome,
    plan: BlockPlan,
    skeleton_name: str,
    columns: Sequence[str] | None = None,
    *,
    part: str | None = None,
) -> pa.Table:
    """Return the rows of a block by clip and frame. Any number of threads may read at once.

    Every shard must have that skeleton; `part` is what is wanted of it, as `columns.part_for` says.
    `frame_index` is always among the columns; None is all of them.
    """

    def read_shard(path: Path, rows: Sequence[ShardRows]) -> list[pa.Table]:
        with _open(home.shard(path), skeleton_name, rows[0].checksum) as file:
            schema = run_schema(part or skeleton_name, file.schema_arrow.names)
            needed = schema.names if columns is None else (*columns, "frame_index")
            names = [name for name in schema.names if name in needed]
            wanted = pa.schema([schema.field(name) for name in names], schema.metadata)
            return [_read(file, path, piece, wanted) for piece in rows]

    tables: list[pa.Table] = []
    for shard, group in groupby(_joined(plan.rows), key=lambda rows: rows.shard):
        rows, path = list(group), shard_path(home.work, shard)
        try:
            tables += read_shard(path, rows)
        except RunError:
            if home.is_here or not path.exists():
                raise
            path.unlink()  # a copy: it is fetched anew
            tables += read_shard(path, rows)
    table = tables[0] if len(tables) == 1 else join_tables(tables)
    # A frame that was tried again later has rows of its own, inside the span of others.
    if len(plan.rows) > len(plan.lengths):
        indices = values_of(table.column("frame_index"), np.int64)
        clips = np.repeat(np.arange(len(plan.lengths)), plan.lengths)
        order: npt.NDArray[np.int64] = np.lexsort((indices, clips))
        if (np.diff(order) != 1).any():
            table = table.take(order)
    return table


def _joined(rows: Sequence[ShardRows]) -> Iterator[ShardRows]:
    """Yield rows that follow each other in a shard, also of several clips, as one."""
    last = rows[0]
    for piece in rows[1:]:
        if piece.shard == last.shard and piece.offset == last.offset + last.num_rows:
            last = last._replace(num_rows=last.num_rows + piece.num_rows)
        else:
            yield last
            last = piece
    yield last


def _read(file: pq.ParquetFile, path: Path, rows: ShardRows, wanted: pa.Schema) -> pa.Table:
    """Return rows of an open shard; only the row groups that hold some are unpacked."""
    sizes = [file.metadata.row_group(index).num_rows for index in range(file.num_row_groups)]
    starts, end = [0, *accumulate(sizes)], rows.offset + rows.num_rows
    spans = enumerate(pairwise(starts))
    groups = [index for index, (first, stop) in spans if rows.offset < stop and first < end]
    try:
        if end > starts[-1]:
            raise ValueError(f"the ledger counts on {end} rows, the file has {starts[-1]}")
        table = read_groups(file, groups, wanted)
    except (OSError, ValueError, LookupError, pa.ArrowException) as error:
        raise _damaged(path, error) from error
    return table.slice(rows.offset - starts[groups[0]], rows.num_rows)


def checksum_of(shard: BinaryIO) -> str:
    """Return the digest of a shard's footer: run, name, places of columns, not what pages hold."""
    end = shard.seek(0, os.SEEK_END)
    shard.seek(max(0, end - 8))
    size = int.from_bytes(shard.read(4), "little")
    shard.seek(max(0, end - 8 - size))
    return hashlib.sha256(shard.read(size)).hexdigest()[:32]


def _open(path: Path, skeleton_name: str, checksum: str) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        shard_skeleton = check_schema(file.schema_arrow, str(path))
        with path.open("rb") as content:
            is_same = checksum_of(content) == checksum
    except FileNotFoundError as error:
        raise RunError("{path} is missing, but the ledger counts on it", path=path) from error
    except (OSError, ValueError, pa.ArrowException) as error:  # or names that are no text
        raise _damaged(path, error) from error
    if shard_skeleton != skeleton_name or not is_same:
        raise _damaged(path, Message("it is not the shard that was committed"))
    return file


def _damaged(path: Path, error: object) -> RunError:
    return RunError(
        "{path} is damaged ({error}); put back a copy of the file, or extract anew into another "
        "folder",
        path=path,
        error=" ".join(str(error).split()),
    )


@cache
def part_for(skeleton_name: str, layout: str) -> str:
    """Return the skeleton to read from a run, whole or the part that lies in columns of its own."""
    if skeleton_name != _WHOLE or layout == _WHOLE:
        return skeleton_name
    first, needed = (
        {index for indices in point_map(_WHOLE, name) for index in indices}
        for name in (_FIRST, layout)
    )
    return _FIRST if needed <= first else _WHOLE


def as_stored(table: pa.Table) -> pa.Table:
    """Return the rows of a run's table in the columns of a shard."""
    is_parted = skeleton_of(table.schema) == _WHOLE
    columns: dict[pa.Field, pa.ChunkedArray] = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        if field.name not in _FLOATS:
            columns[field] = column
            continue
        rows = values_of(column).reshape(len(table), -1)
        parts = _parts_of(field.name) if is_parted else {field.name: None}
        for name, places in parts.items():
            part = rows if places is None else np.take(rows, places, axis=1, mode="clip")
            # That no number is null spares a flag per number: a quarter less work unpacks them.
            number = pa.field("element", pa.float32(), nullable=False)
            kind = pa.list_(number, part.shape[1])
            lists = pa.FixedSizeListArray.from_arrays(pa.array(part.reshape(-1)), type=kind)
            columns[pa.field(name, kind, nullable=False)] = lists
    schema = pa.schema(list(columns), table.schema.metadata)
    return pa.Table.from_arrays(list(columns.values()), schema=schema)


def read_groups(file: pq.ParquetFile, groups: Iterable[int], wanted: pa.Schema) -> pa.Table:
    """Return row groups of a shard as columns of the table; only what they need is read.

    `wanted` is out of `run_schema`, of the shard's own skeleton or the part `part_for` names.
    """
    is_parted, is_part = skeleton_of(file.schema_arrow) == _WHOLE, skeleton_of(wanted) == _FIRST
    sources = {name: [name] for name in wanted.names}
    for name in _FLOATS if is_parted else ():
        if name in sources:
            sources[name] = list(_parts_of(name))[: 1 if is_part else 2]
    needed = [column for columns in sources.values() for column in columns]
    # One at a time: what it takes to unpack them is then used again, not asked for anew.
    table = pa.concat_tables(
        file.read_row_group(group, columns=needed, use_threads=False) for group in groups
    )
    columns = [
        table.column(parts[0]) if len(parts) == 1 else _whole_points(table, name)
        for name, parts in sources.items()
    ]
    # Shards differ in whether their lists may hold nulls; none does, so nothing is copied.
    return pa.Table.from_arrays(columns, names=wanted.names).cast(wanted)


def _whole_points(table: pa.Table, name: str) -> pa.Array:
    """Return `keypoints` or `scores` of 543 points, from the two columns they lie in."""
    parts = _parts_of(name)
    places = np.argsort(np.concatenate(list(parts.values())))
    kinds = [pa.field(part, pa.list_(pa.float32(), len(parts[part]))) for part in parts]
    rows = np.empty((len(table), len(places)), np.float32)
    start = 0
    for batch in table.select(list(parts)).cast(pa.schema(kinds)).to_batches():
        numbers = [numbers_of(column.flatten()).reshape(len(batch), -1) for column in batch.columns]
        whole, out = np.concatenate(numbers, axis=1), rows[start : start + len(batch)]
        np.take(whole, places, axis=1, out=out, mode="clip")  # "raise" would make another copy
        start += len(batch)
    # As `pa.array` does, which would import pandas to know whether this is something of its own.
    flat = pa.Array.from_buffers(pa.float32(), rows.size, [None, pa.py_buffer(rows)])
    return pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])


@cache
def _parts_of(name: str) -> dict[str, IntArray]:
    """Return the columns that hold `keypoints` or `scores`: the places of their numbers in it."""
    first = [index for (index,) in point_map(_WHOLE, _FIRST)]
    others = sorted(set(range(get_skeleton(_WHOLE).num_points)).difference(first))
    size = 3 if name == "keypoints" else 1  # numbers of a point
    return {
        f"{name}_{part}": (np.array(points)[:, None] * size + np.arange(size)).reshape(-1)
        for part, points in (("143", first), ("other", others))
    }
