"""Removing rows that no longer count, so that the shards alone are the whole and true table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from posemill.errors import RunError
from posemill.stores.commits import CommitLog
from posemill.stores.manifest import SHARDS_NAME
from posemill.stores.shards import damage_message
from posemill.stores.writer import write_table


def compact(folder: Path, log: CommitLog) -> int:
    """Rewrite the shards that hold rows of pieces that were given up; return how many.

    Each one: the new shard first, then the records, then the old one goes. Killed in between, an
    uncommitted shard is left, which `remove_uncommitted` removes.
    """
    stale = log.stale_shards()
    for shard_no, name in stale:
        old = folder / SHARDS_NAME / name
        pieces = log.pieces_of(shard_no)
        moved: list[tuple[int, int]] = []
        parts, offset = [], 0
        if pieces:
            table = _read(old)
            for piece_no, row_offset, num_rows in pieces:
                parts.append(table.slice(row_offset, num_rows))
                moved.append((piece_no, offset))
                offset += num_rows
            new = _next_name(name)
            num_bytes = write_table(pa.concat_tables(parts), folder / SHARDS_NAME / new)
            log.replace_shard(shard_no, new, (offset, num_bytes), moved)
        else:
            log.remove_shard(shard_no)
        old.unlink(missing_ok=True)
    return len(stale)


def _read(path: Path) -> pa.Table:
    try:
        return pq.read_table(path, use_threads=False, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        raise RunError(damage_message(path, error)) from error


def _next_name(name: str) -> str:
    stem, _, count = name.removesuffix(".parquet").partition("-r")
    return f"{stem}-r{int(count or 0) + 1}.parquet"
