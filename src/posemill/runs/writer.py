"""Writing shards, and whole runs: temporary name, flush, rename, commit record last."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from posemill.files import atomic_path, readable
from posemill.machine.live_files import now_text
from posemill.places import open_place, uri_of
from posemill.records import PoseClip
from posemill.runs import events
from posemill.runs.home import RunHome
from posemill.runs.log import EventLog
from posemill.runs.manifest import SHARDS_NAME, Manifest
from posemill.runs.queries import Failure, LedgerReader
from posemill.runs.schema import join_tables, table_of
from posemill.runs.shards import as_stored, checksum_of

_RUN_KEY, _NAME_KEY = b"posemill.run", b"posemill.shard"  # what makes its checksum its own
_OWN_NAME = re.compile(r"\.?part-(\d+)-")  # see `shard_stem`; with a dot while it is written
ROWS_PER_GROUP = 512  # about 4 MB of keypoints: what a reader holds at a time


def _found_in(clip: PoseClip) -> str:
    sizes, counts = np.unique(clip.sizes_wh, axis=0, return_counts=True)
    by_size = [[*size, count] for size, count in zip(sizes.tolist(), counts.tolist(), strict=True)]
    return json.dumps([clip.present.sum(0).tolist(), by_size], separators=(",", ":"))


class ShardWriter:
    """Collects pieces of clips and writes them as one shard of the run at a folder or a URI."""

    def __init__(self, place: Path | str, run_id: str) -> None:
        self._place, self._run_id = place, run_id
        self._tables: list[pa.Table] = []
        self._pieces: list[events.Piece] = []
        self.num_rows = 0

    def add(self, clip_no: int, clip: PoseClip, *, unit_no: int | None = None) -> None:
        """Add a piece of a clip: at least one frame, in order of their indices."""
        self._tables.append(table_of(clip))
        first, found = int(clip.frame_indices[0]), _found_in(clip)
        self._pieces.append(events.Piece(clip_no, first, self.num_rows, len(clip), unit_no, found))
        self.num_rows += len(clip)

    def write(self, name: str) -> events.Shard:
        """Write what was collected as the shard of that file name, and start anew."""
        table, pieces = join_tables(self._tables), tuple(self._pieces)
        self._tables, self._pieces, self.num_rows = [], [], 0
        own = {_RUN_KEY: self._run_id.encode(), _NAME_KEY: name.encode()}
        stored = as_stored(table.replace_schema_metadata({**table.schema.metadata, **own}))
        floats = [field.name for field in stored.schema if pa.types.is_nested(field.type)]
        content = io.BytesIO()  # so a full disk is met in one plain write, which leaves nothing
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
        if uri_of(self._place) is not None:
            open_place(self._place).put(f"{SHARDS_NAME}/{name}", content.getvalue())
        else:
            with atomic_path(Path(self._place) / SHARDS_NAME / name) as temporary:
                temporary.write_bytes(content.getbuffer())
        return events.Shard(name, len(content.getbuffer()), pieces, checksum_of(content))


class RunWriter:
    """Writes a run clip by clip, for importers and mergers. Reading order is the order of adding.

    What was not finished is no run and is not continued: the next attempt needs a new folder.
    """

    def __init__(self, folder: Path | str, manifest: Manifest, *, rows_per_shard: int = 4096):
        self.folder = Path(folder)
        self._manifest = manifest
        self._rows_per_shard = rows_per_shard
        (self.folder / SHARDS_NAME).mkdir(parents=True)  # raises where a run is
        self._writer = ShardWriter(self.folder, manifest.run_id)
        self._commits: list[events.Committed] = []
        # Of each clip, by split and id: its frames, and what gave none.
        self._lengths: dict[tuple[str, str], int] = {}
        self._lost: dict[tuple[str, str], list[events.Lost]] = {}

    def replace_manifest(self, manifest: Manifest) -> None:
        """Say something else about the run; it stays the same one."""
        self._manifest = dataclasses.replace(manifest, run_id=self._manifest.run_id)

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
        """Add what gave no keypoints; a clip of which there is nothing else comes behind all."""
        name = readable(failure.split), readable(failure.clip_id)
        self._lost.setdefault(name, []).append(events.Lost(*failure[2:]))

    def _write_shard(self) -> None:
        shard = self._writer.write(f"{shard_stem(0, len(self._commits))}.parquet")
        self._commits.append(events.Committed(shard, ()))

    def finish(self) -> None:
        """Write what is left, the ledger and the manifest: from here on it is a run."""
        if self._writer.num_rows:
            self._write_shard()
        clips, units = [], []
        names = dict.fromkeys([*self._lengths, *self._lost])
        for clip_no, (split, clip_id) in enumerate(names, start=1):
            length = self._lengths.get((split, clip_id))
            lost = tuple(self._lost.get((split, clip_id), ()))
            clips.append(events.PlannedClip(split, clip_id, length))
            rows = length or 0
            units.append(events.UnitProgress(None, clip_no, split, rows, None, True, rows, lost))
        self._commits.append(events.Committed(None, tuple(units)))
        planned = events.Planned(self._manifest.run_id, tuple(clips))
        with closing(EventLog(self.folder)) as log:
            log.record(planned, *self._commits, events.Finished(now_text()))
        self._manifest.write(self.folder)

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.finish()


def remove_uncommitted(home: RunHome, ledger: LedgerReader) -> None:
    """Delete the shards that no commit names: a killed worker's, of this start or an earlier one.

    Their names tell: a writer that was cut off does not know what its successor has committed.
    """
    committed, num_starts = ledger.shard_sizes(), ledger.num_starts()
    for name in home.shard_sizes():
        start = _OWN_NAME.match(name)
        if start and int(start[1]) < num_starts and name not in committed:
            home.place.delete(f"{SHARDS_NAME}/{name}")


def shard_stem(start_no: int, task_no: int) -> str:
    """Return the first part of the names of a task's shards; no two tasks have the same."""
    return f"part-{start_no:03d}-{task_no:07d}"
