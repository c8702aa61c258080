"""Rows out of shards, in blocks of whole clips: which rows make a block, and reading them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
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
from posemill.runs.columns import read_groups
from posemill.runs.home import RunHome
from posemill.runs.manifest import shard_path
from posemill.runs.queries import ShardRows
from posemill.runs.schema import check_schema, join_tables, run_schema, values_of


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
    starts = [0, *accumulate(sizes)]
    end = rows.offset + rows.num_rows
    groups = [
        i for i, start in enumerate(starts[:-1]) if rows.offset < starts[i + 1] and start < end
    ]
    try:
        if end > starts[-1]:
            raise ValueError(f"the ledger counts on {end} rows, the file has {starts[-1]}")
        table = read_groups(file, groups, wanted)
    except (OSError, ValueError, LookupError, pa.ArrowException) as error:
        raise _damaged(path, error) from error
    return table.slice(rows.offset - starts[groups[0]], rows.num_rows)


def checksum_of(shard: BinaryIO) -> str:
    """Return what tells a shard from all others: the digest of its footer.

    That holds the run's id, the shard's name and where every column lies; pages have checksums of
    their own.
    """
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
