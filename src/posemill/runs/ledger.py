"""The ledger of a run, `ledger.sqlite`: what its events add up to, here and elsewhere.

A shard on the disk means nothing until its commit is here, and a commit is written only after its
shard is whole: killed at any instant, the two agree. Counts per split are kept up to date in the
same transactions, so that asking for them costs nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

from posemill.errors import RunError
from posemill.files import atomic_path, readable
from posemill.runs.events import (
    ChangedClip,
    Committed,
    Crashed,
    Event,
    Finished,
    GaveUp,
    Planned,
    PlannedClip,
    PlannedUnit,
    Reset,
    Shard,
    Started,
    UnitProgress,
)
from posemill.runs.queries import LedgerReader, check_tables

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS splits (
  split TEXT PRIMARY KEY, num_clips INTEGER NOT NULL DEFAULT 0, clips_done INTEGER NOT NULL
  DEFAULT 0, frames_known INTEGER NOT NULL DEFAULT 0, frames_out INTEGER NOT NULL DEFAULT 0,
  frames_failed INTEGER NOT NULL DEFAULT 0, clips_failed INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS clips (
  clip_no INTEGER PRIMARY KEY, split TEXT NOT NULL, clip_id TEXT NOT NULL, num_frames INTEGER,
  content TEXT);
CREATE UNIQUE INDEX IF NOT EXISTS clips_by_name ON clips (split, clip_id);
CREATE TABLE IF NOT EXISTS shards (
  shard_no INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, num_rows INTEGER NOT NULL,
  num_bytes INTEGER NOT NULL, checksum TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS pieces (
  piece_no INTEGER PRIMARY KEY, clip_no INTEGER NOT NULL, unit_no INTEGER, first_frame INTEGER
  NOT NULL, shard_no INTEGER NOT NULL, row_offset INTEGER NOT NULL, num_rows INTEGER NOT NULL,
  found TEXT);
CREATE INDEX IF NOT EXISTS pieces_by_clip ON pieces (clip_no, first_frame);
CREATE INDEX IF NOT EXISTS pieces_by_shard ON pieces (shard_no);
CREATE TABLE IF NOT EXISTS failures (
  failure_no INTEGER PRIMARY KEY, clip_no INTEGER NOT NULL, unit_no INTEGER, frame_index INTEGER,
  num_frames INTEGER NOT NULL, path TEXT NOT NULL, reason TEXT NOT NULL, message TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS failures_by_unit ON failures (unit_no);
CREATE INDEX IF NOT EXISTS failures_by_clip ON failures (clip_no);
CREATE TABLE IF NOT EXISTS units (
  unit_no INTEGER PRIMARY KEY, clip_no INTEGER NOT NULL, start_frame INTEGER NOT NULL, stop_frame
  INTEGER, is_chain INTEGER NOT NULL, is_video INTEGER NOT NULL, cost INTEGER NOT NULL, next_frame
  INTEGER NOT NULL, state BLOB, is_done INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS units_to_do ON units (clip_no) WHERE is_done = 0;
CREATE TABLE IF NOT EXISTS crashes (
  unit_no INTEGER NOT NULL, frame_index INTEGER NOT NULL, phase INTEGER NOT NULL, tries INTEGER
  NOT NULL, is_given_up INTEGER NOT NULL DEFAULT 0, message TEXT NOT NULL,
  PRIMARY KEY (unit_no, frame_index, phase)) WITHOUT ROWID;
"""
_ALL_TABLES = ("meta", "splits", "clips", "shards", "pieces", "failures", "units", "crashes")


class Ledger(LedgerReader):
    """An open ledger. One process writes it at a time; events are all that is written.

    Writing and reading have a connection each: another thread may write while this one reads what
    was durable before.

    Args:
        path: Of the file; made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():  # whole or not at all: readers may look at any moment
            with atomic_path(path) as temporary, closing(sqlite3.connect(temporary)) as database:
                database.executescript(_TABLES)
        self._writer = _connect(path)
        try:
            check_tables(self._writer, path)
            # FULL: a commit that was acknowledged survives a power cut.
            self._writer.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;")
            super().__init__(_connect(path), path)
        except BaseException:
            self._writer.close()
            raise
        self._changes: dict[str, dict[str, int]] = {}  # of counts, by split, in this transaction
        self._folds: Mapping[type, Callable[[Any], None]] = {
            Planned: self._plan,
            Started: self._start,
            Committed: self._commit,
            Crashed: self._note_crash,
            GaveUp: self._note_crash,
            Reset: self._reset,
            Finished: self._finish,
        }

    @contextmanager
    def transaction(self, number: int) -> Iterator[None]:
        """Let all that is applied inside become durable together, as of that number."""
        self._changes = {}
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._write_counts()
            self._writer.execute(f"PRAGMA user_version = {number:d}")
            self._writer.execute("COMMIT")
        except BaseException:
            self._writer.rollback()
            raise

    def apply(self, event: Event) -> None:
        """Add an event to the tables: the only writer of them."""
        self._folds[type(event)](event)

    def _count(self, split: str, **changes: int) -> None:
        """Add to the counts of a split, by column name."""
        counts = self._changes.setdefault(split, {})
        for column, number in changes.items():
            counts[column] = counts.get(column, 0) + number

    def _write_counts(self) -> None:
        for split, changes in self._changes.items():
            columns = list(changes)
            self._writer.execute(
                f"INSERT INTO splits (split, {', '.join(columns)}) "
                f"VALUES (?{', ?' * len(columns)}) ON CONFLICT (split) DO UPDATE SET "
                + ", ".join(f"{column} = {column} + excluded.{column}" for column in columns),
                (readable(split), *changes.values()),
            )
        self._changes = {}

    def _set_meta(self, key: str, value: str | None) -> None:
        if value is None:
            self._writer.execute("DELETE FROM meta WHERE key = ?", (key,))
        else:
            self._writer.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def _plan(self, event: Planned) -> None:
        self._changes = {}
        for table in _ALL_TABLES:
            self._writer.execute(f"DELETE FROM {table}")
        self._add_clips(event.clips)
        self._add_units(event.units)
        self._set_meta("planned", event.run_id)

    def _add_clips(self, clips: Sequence[PlannedClip]) -> None:
        try:
            self._writer.executemany(
                "INSERT INTO clips (split, clip_id, num_frames, content) VALUES (?, ?, ?, ?)",
                ((readable(clip.split), readable(clip.clip_id), *clip[2:]) for clip in clips),
            )
        except sqlite3.IntegrityError as error:
            raise RunError("two clips have the same split and id: {error}", error=error) from error
        for split, in_split in groupby(clips, key=lambda clip: clip.split):
            lengths = [clip.num_frames or 0 for clip in in_split]
            self._count(split, num_clips=len(lengths), frames_known=sum(lengths))

    def _add_units(self, units: Sequence[PlannedUnit]) -> None:
        self._writer.executemany(
            "INSERT INTO units (clip_no, start_frame, stop_frame, is_chain, is_video, cost, "
            "next_frame) VALUES (?, ?, ?, ?, ?, ?, ?)",
            ((*unit, unit.start_frame) for unit in units),
        )

    def _start(self, event: Started) -> None:
        self._writer.execute(
            "INSERT INTO meta VALUES ('starts', '1') "
            "ON CONFLICT (key) DO UPDATE SET value = CAST(value AS INTEGER) + 1"
        )
        self._set_meta("finished_at", None)

    def _finish(self, event: Finished) -> None:
        self._set_meta("finished_at", event.finished_at)

    def _commit(self, event: Committed) -> None:
        if event.clips:
            self._add_clips(event.clips)
        if event.shard is not None:
            self._add_shard(event.shard)
        self._writer.executemany(
            "UPDATE units SET next_frame = ?, state = ?, is_done = ? WHERE unit_no = ?",
            [(unit.next_frame, unit.state, unit.is_done, unit.unit_no) for unit in event.units],
        )
        for unit in event.units:
            self._count_progress(unit)
        for unit in {unit.clip_no: unit for unit in event.units if unit.is_done}.values():
            self._measure_clip(unit)

    def _add_shard(self, shard: Shard) -> None:
        old_no = "(SELECT shard_no FROM shards WHERE name = ?)"
        for table in ("pieces", "shards") if shard.replaces else ():
            self._writer.execute(f"DELETE FROM {table} WHERE shard_no = {old_no}", [shard.replaces])
        if not shard.name:
            return
        cursor = self._writer.execute(
            "INSERT INTO shards (name, num_rows, num_bytes, checksum) VALUES (?, ?, ?, ?)",
            (shard.name, shard.num_rows, shard.num_bytes, shard.checksum),
        )
        self._writer.executemany(
            "INSERT INTO pieces (clip_no, first_frame, row_offset, num_rows, unit_no, found, "
            "shard_no) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(*piece, cursor.lastrowid) for piece in shard.pieces],
        )

    def _count_progress(self, unit: UnitProgress) -> None:
        """Count what a unit gave since its last commit."""
        for frame_index, num_frames, path, reason, message in unit.lost:
            texts = (readable(path), reason, readable(message))
            self._writer.execute(
                "INSERT INTO failures (clip_no, unit_no, frame_index, num_frames, path, reason, "
                "message) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (unit.clip_no, unit.unit_no, frame_index, num_frames, *texts),
            )
        failed = sum(lost.num_frames for lost in unit.lost) if unit.lost else 0
        self._count(unit.split, frames_out=unit.num_rows, frames_failed=failed)

    def _measure_clip(self, unit: UnitProgress) -> None:
        """Count the clip of a unit that is done, if it was its last one."""
        is_left, known, rows, lost = self._writer.execute(
            "SELECT EXISTS (SELECT 1 FROM units WHERE clip_no = :n AND is_done = 0), num_frames, "
            "(SELECT coalesce(sum(num_rows), 0) FROM pieces WHERE clip_no = :n), (SELECT "
            "sum(num_frames) FROM failures WHERE clip_no = :n) FROM clips WHERE clip_no = :n",
            {"n": unit.clip_no},
        ).fetchone()
        if is_left:
            return
        has_failed = not rows and lost is not None
        self._count(unit.split, clips_done=1, clips_failed=has_failed)
        num_frames = rows + (lost or 0)
        if known is None or num_frames > known:  # a video that did not say, or said too little
            self._writer.execute(
                "UPDATE clips SET num_frames = ? WHERE clip_no = ?", (num_frames, unit.clip_no)
            )
            self._count(unit.split, frames_known=num_frames - (known or 0))

    def _note_crash(self, event: Crashed | GaveUp) -> None:
        is_given_up = isinstance(event, GaveUp)
        self._writer.execute(
            "INSERT INTO crashes VALUES (:unit_no, :frame_index, :phase, :tries, :is_given_up, "
            ":message) ON CONFLICT DO UPDATE SET tries = tries + excluded.tries, "
            "is_given_up = is_given_up OR excluded.is_given_up, message = excluded.message",
            {**vars(event), "tries": not is_given_up, "is_given_up": is_given_up},
        )

    def _reset(self, event: Reset) -> None:
        """Make what failed to be done again.

        A single picture of an image-mode clip becomes a unit of its own. Where frames depend on
        each other, or a whole rest was lost, the unit starts anew and its rows no longer count.
        The length of a clip stays: a file that ends too early still does.
        """
        rows = self._writer.execute(
            "SELECT failure_no, unit_no, clip_no, frame_index, is_chain OR is_video OR "
            "frame_index IS NULL OR num_frames != 1 "
            "FROM failures JOIN units USING (unit_no, clip_no) ORDER BY failure_no"
        ).fetchall()
        if rows or event.clips:
            self._set_meta("finished_at", None)
        restarted = {row[1] for row in rows if row[4]}
        for clip in event.clips:
            restarted |= self._replace_clip(clip)
        for unit_no in sorted(restarted):
            self._restart_unit(unit_no)
        for failure_no, unit_no, clip_no, frame, _ in rows:
            if unit_no in restarted:
                continue
            self._writer.execute("DELETE FROM failures WHERE failure_no = ?", (failure_no,))
            self._writer.execute(
                "DELETE FROM crashes WHERE unit_no = ? AND frame_index = ?", (unit_no, frame)
            )
            self._add_units([PlannedUnit(clip_no, frame, frame + 1, False, False, 1)])
        self._recount()

    def _replace_clip(self, clip: ChangedClip) -> set[int]:
        """Take a clip as it is now for the one the run is about; return its units."""
        cursor = self._writer.execute(
            "UPDATE clips SET num_frames = ?, content = ? WHERE clip_no = ?",
            (clip.num_frames, clip.content, clip.clip_no),
        )
        if not cursor.rowcount:
            raise sqlite3.IntegrityError("a record names a clip that the run does not have")
        units = self._writer.execute("SELECT unit_no FROM units WHERE clip_no = ?", (clip.clip_no,))
        return {unit_no for (unit_no,) in units}

    def _restart_unit(self, unit_no: int) -> None:
        for table in ("pieces", "failures", "crashes"):
            self._writer.execute(f"DELETE FROM {table} WHERE unit_no = ?", (unit_no,))
        self._writer.execute(
            "UPDATE units SET next_frame = start_frame, state = NULL, is_done = 0 "
            "WHERE unit_no = ?",
            (unit_no,),
        )

    def _recount(self) -> None:
        """Count what every split has anew, from the tables."""
        self._write_counts()
        self._writer.execute(
            "WITH counted AS (SELECT split, coalesce(num_frames, 0) AS known, clip_no IN (SELECT "
            "clip_no FROM units) AND clip_no NOT IN (SELECT clip_no FROM units WHERE is_done = 0) "
            "AS is_done, (SELECT coalesce(sum(num_rows), 0) FROM pieces WHERE clip_no = "
            "clips.clip_no) AS made, (SELECT sum(num_frames) FROM failures WHERE clip_no = "
            "clips.clip_no) AS lost FROM clips) UPDATE splits SET (clips_done, frames_known, "
            "frames_out, frames_failed, clips_failed) = (SELECT sum(is_done), sum(known), "
            "sum(made), coalesce(sum(lost), 0), sum(is_done AND NOT made AND lost IS NOT NULL) "
            "FROM counted WHERE counted.split = splits.split)"
        )

    def copy_to(self, path: Path) -> None:
        """Write the ledger as it is into a new file."""
        self._writer.execute("VACUUM INTO ?", (str(path),))

    def close(self) -> None:
        """Close; a ledger nobody else has open becomes one plain file."""
        self._database.close()
        try:
            self._writer.execute("PRAGMA journal_mode=DELETE")
        except sqlite3.OperationalError:
            pass  # someone reads it: the write-ahead file stays beside it, which is as good
        finally:
            self._writer.close()


def _connect(path: Path) -> sqlite3.Connection:
    # Used by one thread at a time: `EventLog` sees to it.
    return sqlite3.connect(path, isolation_level=None, timeout=60, check_same_thread=False)
