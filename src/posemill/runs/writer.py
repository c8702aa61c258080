"""Writing shards, and whole runs: temporary name, flush, rename, commit record last."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from posemill.files import atomic_path, readable
from posemill.machine.live_files import now_text
from posemill.places import open_place, uri_of
from posemill.records import PoseClip
from posemill.runs.columns import as_stored
from posemill.runs.events import (
    Committed,
    Finished,
    Lost,
    Piece,
    Planned,
    PlannedClip,
    Shard,
    UnitProgress,
)
from posemill.runs.home import RunHome
from posemill.runs.log import EventLog
from posemill.runs.manifest import SHARDS_NAME, Manifest, shard_path
from posemill.runs.queries import Failure, ShardRows
from posemill.runs.schema import join_tables, table_of
from posemill.runs.shards import BlockPlan, checksum_of, read_rows

_RUN_KEY, _NAME_KEY = b"posemill.run", b"posemill.shard"  # what makes its checksum its own
ROWS_PER_GROUP = 512  # about 4 MB of keypoints: what a reader holds at a time


def write_shard(
    place: Path | str, name: str, table: pa.Table, *, pieces: Sequence[Piece], run_id: str
) -> Shard:
    """Write the rows of pieces that lie behind each other as one shard, whole or not at all.

    It is compressed in memory first: a full disk is met in one plain write, which leaves nothing.
    """
    metadata = {**table.schema.metadata, _RUN_KEY: run_id.encode(), _NAME_KEY: name.encode()}
    stored, content = as_stored(table.replace_schema_metadata(metadata)), io.BytesIO()
    floats = [field.name for field in stored.schema if pa.types.is_nested(field.type)]
    pq.write_table(
        stored,
        content,
        row_group_size=ROWS_PER_GROUP,
        compression="zstd",
        compression_level=3,
        # What a disk or a copy changes later is noticed, not read as keypoints.
        write_page_checksum=True,
        # Words repeat from row to row, floats do not: their bytes are sorted by significance.
        use_dictionary=[name for name in stored.column_names if name not in floats],
        column_encoding={f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in floats},
    )
    if uri_of(place) is not None:
        open_place(place).put(f"{SHARDS_NAME}/{name}", content.getvalue())
    else:
        with atomic_path(Path(place) / SHARDS_NAME / name) as temporary:
            temporary.write_bytes(content.getbuffer())
    offsets = itertools.accumulate((piece.num_rows for piece in pieces), initial=0)
    placed = tuple(
        piece._replace(row_offset=offset) for piece, offset in zip(pieces, offsets, strict=False)
    )
    return Shard(name, len(table), len(content.getbuffer()), placed, checksum_of(content))


def _found_in(clip: PoseClip) -> str:
    sizes, counts = np.unique(clip.sizes_wh, axis=0, return_counts=True)
    by_size = [[*size, count] for size, count in zip(sizes.tolist(), counts.tolist(), strict=True)]
    return json.dumps([clip.present.sum(0).tolist(), by_size], separators=(",", ":"))


class ShardWriter:
    """Collects pieces of clips and writes them as one shard of the run at a folder or a URI."""

    def __init__(self, place: Path | str, run_id: str) -> None:
        self._place, self._run_id = place, run_id
        self._tables: list[pa.Table] = []
        self._pieces: list[Piece] = []
        self.num_rows = 0

    def add(self, clip_no: int, clip: PoseClip, *, unit_no: int | None = None) -> None:
        """Add a piece of a clip: at least one frame, in order of their indices."""
        self._tables.append(table_of(clip))
        first, found = int(clip.frame_indices[0]), _found_in(clip)
        self._pieces.append(Piece(clip_no, first, 0, len(clip), unit_no, found))
        self.num_rows += len(clip)

    def write(self, name: str) -> Shard:
        """Write what was collected as the shard of that file name, and start anew."""
        table, pieces = join_tables(self._tables), self._pieces
        self._tables, self._pieces, self.num_rows = [], [], 0
        return write_shard(self._place, name, table, pieces=pieces, run_id=self._run_id)


class RunWriter:
    """Writes a run clip by clip, for importers and mergers. Reading order is the order of adding.

    A run that was not finished is not continued: the next attempt needs a new folder.
    """

    def __init__(self, folder: Path | str, manifest: Manifest, *, rows_per_shard: int = 4096):
        self.folder = Path(folder)
        self._manifest = manifest
        self._rows_per_shard = rows_per_shard
        (self.folder / SHARDS_NAME).mkdir(parents=True)  # raises where a run is
        manifest.write(self.folder)
        self._events = EventLog(self.folder)
        self._events.record(Planned(manifest.run_id))
        self._writer = ShardWriter(self.folder, manifest.run_id)
        self._num_shards = 0
        # Of each clip, by split and id: its frames, and what gave none.
        self._lengths: dict[tuple[str, str], int] = {}
        self._lost: dict[tuple[str, str], list[Lost]] = {}

    def replace_manifest(self, manifest: Manifest) -> None:
        """Say something else about the run; it stays the same one."""
        dataclasses.replace(manifest, run_id=self._manifest.run_id).write(self.folder)

    def add(self, clip: PoseClip) -> None:
        """Add a whole clip."""
        if clip.skeleton_name != self._manifest.skeleton_name:
            raise ValueError(
                f"clip {clip.clip_id!r} has skeleton {clip.skeleton_name}, the run has "
                f"{self._manifest.skeleton_name}; convert it with as_skeleton"
            )
        name = readable(clip.split), readable(clip.clip_id)
        if name in self._lengths:
            raise ValueError(f"clip {clip.clip_id!r} of split {clip.split!r} was added before")
        if len(clip):  # first: what cannot be written is not counted
            self._writer.add(len(self._lengths) + 1, clip)
        self._lengths[name] = len(clip)
        if self._writer.num_rows >= self._rows_per_shard:
            self._write_shard()

    def add_failure(self, failure: Failure) -> None:
        """Add what gave no keypoints: of a clip of this run, added before or after, or of another.

        A clip of which there is nothing but failures comes behind all others.
        """
        name = readable(failure.split), readable(failure.clip_id)
        self._lost.setdefault(name, []).append(Lost(*failure[2:]))

    def _write_shard(self) -> None:
        shard = self._writer.write(f"{shard_stem(0, self._num_shards)}.parquet")
        self._events.record(Committed(shard, ()))
        self._num_shards += 1

    def finish(self) -> None:
        """Write what is left and mark the run as finished: from here on its clips are there."""
        if self._writer.num_rows:
            self._write_shard()
        clips, units = [], []
        names = dict.fromkeys([*self._lengths, *self._lost])
        for clip_no, (split, clip_id) in enumerate(names, start=1):
            length = self._lengths.get((split, clip_id))
            lost = tuple(self._lost.get((split, clip_id), ()))
            clips.append(PlannedClip(split, clip_id, length))
            rows = length or 0
            units.append(UnitProgress(None, clip_no, split, rows, None, True, rows, lost))
        self._events.record(Committed(None, tuple(units), tuple(clips)), Finished(now_text()))
        self._events.close()

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.finish()
        else:
            self._events.close()


def remove_uncommitted(home: RunHome, events: EventLog) -> None:
    """Delete the shards that no commit names: a killed worker's, and those that `compact` replaced.

    Where others may work on the same run, only those of this start or of an earlier one, which
    their names tell: a writer that was cut off does not know what its successor has committed.
    """
    committed = events.ledger.shard_sizes()
    for name in home.shard_sizes():
        if name in committed or not name.endswith((".parquet", ".tmp")):
            continue
        start = name.partition("-")[2].partition("-")[0]  # see `shard_stem`; 0 in another name
        start_no = int(start) if start.isdecimal() else 0
        if events.records is None or start_no < events.ledger.num_starts():
            home.place.delete(f"{SHARDS_NAME}/{name}")


def compact(home: RunHome, events: EventLog) -> None:
    """Rewrite the shards that hold rows that no longer count: each first, then the event of it.

    Then the old one goes: a disk needs room for one, not for all. Killed in between, what is left
    is a shard for `remove_uncommitted`.
    """
    # Elsewhere rows that no longer count stay where they are: nobody reads them, and a file that
    # may be replaced would have to be guarded against a writer that was cut off.
    stale = events.ledger.stale_shards() if events.records is None else []
    manifest = Manifest.read(home.work)
    for old in stale:
        shard = Shard("", 0, 0, ())
        if old.pieces:
            rows = tuple(
                ShardRows(number, "", "", old.name, piece.row_offset, piece.num_rows, old.checksum)
                for number, piece in enumerate(old.pieces)
            )
            table = read_rows(home, BlockPlan(rows), manifest.skeleton_name)
            stem, _, count = old.name.removesuffix(".parquet").partition("-r")
            name, run_id = f"{stem}-r{int(count or 0) + 1}.parquet", manifest.run_id
            shard = write_shard(home.address, name, table, pieces=old.pieces, run_id=run_id)
        events.record(Committed(dataclasses.replace(shard, replaces=old.name), ()))
        shard_path(home.work, old.name).unlink(missing_ok=True)


def shard_stem(start_no: int, task_no: int) -> str:
    """Return the first part of the names of a task's shards; no two tasks have the same."""
    return f"part-{start_no:03d}-{task_no:07d}"
