"""Removing rows that no longer count, so that the shards alone are the whole and true table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from posemill.stores.commits import CommitLog
from posemill.stores.manifest import Manifest, shard_path
from posemill.stores.shards import read_shard
from posemill.stores.writer import write_table


def compact(folder: Path, log: CommitLog) -> int:
    """Rewrite the shards that hold rows of pieces that were given up; return how many.

    Each one: the new shard first, then the records, then the old one goes. Killed in between, an
    uncommitted shard is left, which `remove_uncommitted` removes.
    """
    # Elsewhere rows that no longer count stay where they are: nobody reads them, and a file that
    # may be replaced would have to be guarded against a writer that was cut off.
    stale = log.stale_shards() if log.records is None else []
    manifest = Manifest.read(folder)
    for shard_no, name, checksum in stale:
        old = shard_path(folder, name)
        pieces = log.pieces_of(shard_no)
        moved: list[tuple[int, int]] = []
        parts, offset = [], 0
        if pieces:
            table = read_shard(old, manifest.skeleton_name, checksum)
            for piece_no, row_offset, num_rows in pieces:
                parts.append(table.slice(row_offset, num_rows))
                moved.append((piece_no, offset))
                offset += num_rows
            new = _next_name(name)
            log.replace_shard(
                shard_no, write_table(pa.concat_tables(parts), folder, new, manifest.run_id), moved
            )
        else:
            log.remove_shard(shard_no)
        old.unlink(missing_ok=True)
    return len(stale)


def _next_name(name: str) -> str:
    stem, _, count = name.removesuffix(".parquet").partition("-r")
    return f"{stem}-r{int(count or 0) + 1}.parquet"
