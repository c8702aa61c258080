"""The ledger of a run, `ledger.sqlite`: what its events add up to, here and elsewhere.

A shard on the disk means nothing until its commit is here, and a commit is written only after its
shard is whole. Counts per split are kept up to date, so that asking for them costs nothing.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple
from pathlib import Path

from posemill.errors import RunError
from posemill.files import atomic_path, readable
from posemill.runs import events
from posemill.runs.queries import COUNTS, PER_CLIP, LedgerReader, check_tables

_TABLES = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE splits (
  split TEXT PRIMARY KEY, {", ".join(f"{name} INTEGER NOT NULL DEFAULT 0" for name in COUNTS)});
CREATE TABLE clips (
  clip_no INTEGER PRIMARY KEY, split TEXT NOT NULL, clip_id TEXT NOT NULL, num_frames INTEGER,
  content TEXT);
CREATE UNIQUE INDEX clips_by_name ON clips (split, clip_id);
CREATE TABLE shards (
  shard_no INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, num_bytes INTEGER NOT NULL,
  checksum TEXT NOT NULL);
CREATE TABLE pieces (
  piece_no INTEGER PRIMARY KEY, clip_no INTEGER NOT NULL, unit_no INTEGER, first_frame INTEGER
  NOT NULL, shard_no INTEGER NOT NULL, row_offset INTEGER NOT NULL, num_rows INTEGER NOT NULL,
  found TEXT);
CREATE INDEX pieces_by_clip ON pieces (clip_no, first_frame);
CREATE TABLE failures (
  failure_no INTEGER PRIMARY KEY, clip_no INTEGER NOT NULL, unit_no INTEGER, frame_index INTEGER,
  num_frames INTEGER NOT NULL, path TEXT NOT NULL, reason TEXT NOT NULL, message TEXT NOT NULL);
CREATE INDEX failures_by_clip ON failures (clip_no);
CREATE TABLE units (
  unit_no INTEGER PRIMARY KEY, clip_no INTEGER NOT NULL, start_frame INTEGER NOT NULL, stop_frame
  INTEGER, is_chain INTEGER NOT NULL, is_video INTEGER NOT NULL, cost INTEGER NOT NULL, next_frame
  INTEGER NOT NULL, state BLOB, is_done INTEGER NOT NULL DEFAULT 0);
CREATE INDEX units_to_do ON units (clip_no) WHERE is_done = 0;
CREATE TABLE crashes (
  unit_no INTEGER NOT NULL, frame_index INTEGER NOT NULL, phase INTEGER NOT NULL, tries INTEGER
  NOT NULL, is_given_up INTEGER NOT NULL DEFAULT 0, message TEXT NOT NULL,
  PRIMARY KEY (unit_no, frame_index, phase)) WITHOUT ROWID;
"""
_ALL_TABLES = ("meta", "splits", "clips", "shards", "pieces", "failures", "units", "crashes")
_ADD_UNIT = (
    "INSERT INTO units (clip_no, start_frame, stop_frame, is_chain, is_video, cost, next_frame) "
)


class Ledger(LedgerReader):
    """An open ledger, made if it is not there. One process writes it at a time, by events alone."""

    def __init__(self, path: Path) -> None:
        if not path.exists():  # whole or not at all: readers may look at any moment
            with atomic_path(path) as temporary, closing(sqlite3.connect(temporary)) as database:
                database.executescript(_TABLES)
        # A connection of its own: a thread may write while another reads what was durable before.
        self._writer = _connect(path)
        self._write = self._writer.execute
        try:
            check_tables(self._writer, path)
            # FULL: a commit that was acknowledged survives a power cut.
            self._writer.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;")
            super().__init__(_connect(path), path)
        except BaseException:
            self._writer.close()
            raise

    @contextmanager
    def transaction(self, number: int) -> Iterator[None]:
        """Let all that is applied inside become durable together, as of that number."""
        self._write("BEGIN IMMEDIATE")
        with self._writer:
            yield
            self._write(f"PRAGMA user_version = {number:d}")

    def apply(self, event: events.Event) -> None:
        """Add an event to the tables: the only writer of them."""
        getattr(self, f"_add_{type(event).__name__.lower()}")(event)

    def _add_planned(self, event: events.Planned) -> None:
        for table in _ALL_TABLES:
            self._write(f"DELETE FROM {table}")
        try:
            self._writer.executemany(
                "INSERT INTO clips (split, clip_id, num_frames, content) VALUES (?, ?, ?, ?)",
                ((readable(clip.split), readable(clip.clip_id), *clip[2:]) for clip in event.clips),
            )
        except sqlite3.IntegrityError as error:
            raise RunError("two clips have the same split and id: {error}", error=error) from error
        self._write(
            "INSERT INTO splits (split, num_clips, frames_known) SELECT split, count(*), "
            "coalesce(sum(num_frames), 0) FROM clips GROUP BY split ORDER BY min(clip_no)"
        )
        self._writer.executemany(
            f"{_ADD_UNIT} VALUES (?, ?, ?, ?, ?, ?, ?)",
            ((*unit, unit.start_frame) for unit in event.units),
        )
        self._write("INSERT INTO meta VALUES ('planned', ?)", (event.run_id,))

    def _add_started(self, event: events.Started) -> None:
        self._write("DELETE FROM meta WHERE key = 'finished_at'")
        self._write(
            "INSERT INTO meta VALUES ('starts', '1') "
            "ON CONFLICT DO UPDATE SET value = CAST(value AS INTEGER) + 1"
        )

    def _add_finished(self, event: events.Finished) -> None:
        self._write("INSERT OR REPLACE INTO meta VALUES ('finished_at', ?)", [event.finished_at])

    def _add_committed(self, event: events.Committed) -> None:
        if (shard := event.shard) is not None:
            cursor = self._write(
                "INSERT INTO shards (name, num_bytes, checksum) VALUES (?, ?, ?)",
                (shard.name, shard.num_bytes, shard.checksum),
            )
            self._writer.executemany(
                "INSERT INTO pieces (clip_no, first_frame, row_offset, num_rows, unit_no, found, "
                "shard_no) VALUES (?, ?, ?, ?, ?, ?, ?)",
                ((*piece, cursor.lastrowid) for piece in shard.pieces),
            )
        self._writer.executemany(
            "UPDATE units SET next_frame = ?, state = ?, is_done = ? WHERE unit_no = ?",
            ((unit.next_frame, unit.state, unit.is_done, unit.unit_no) for unit in event.units),
        )
        self._writer.executemany(
            "INSERT INTO failures (clip_no, unit_no, frame_index, num_frames, path, reason, "
            "message) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (unit.clip_no, unit.unit_no, frame, number, readable(path), reason, readable(text))
                for unit in event.units
                for frame, number, path, reason, text in unit.lost
            ),
        )
        counts = {unit.split: Counter[str]() for unit in event.units}
        for unit in event.units:
            counts[unit.split]["frames_out"] += unit.num_rows
            counts[unit.split]["frames_failed"] += sum(lost.num_frames for lost in unit.lost)
        for unit in {unit.clip_no: unit for unit in event.units if unit.is_done}.values():
            counts[unit.split].update(self._measure_clip(unit.clip_no))
        for split, changes in counts.items():
            added = ", ".join(f"{name} = {name} + ?" for name in changes)
            values = (*changes.values(), readable(split))
            self._write(f"UPDATE splits SET {added} WHERE split = ?", values)

    def _measure_clip(self, clip_no: int) -> dict[str, int]:
        """Return what a clip adds to the counts of which a unit is done, if it was its last one."""
        is_left, known, rows, lost = self._write(
            f"SELECT is_left, num_frames, num_rows, num_lost FROM ({PER_CLIP}) WHERE clip_no = ?",
            (clip_no,),
        ).fetchone()
        if is_left:
            return {}
        counts, num_frames = {"clips_done": 1}, rows + (lost or 0)
        counts["clips_failed"] = not rows and lost is not None
        if known is None or num_frames > known:  # a video that did not say, or said too little
            self._write("UPDATE clips SET num_frames = ? WHERE clip_no = ?", (num_frames, clip_no))
            counts["frames_known"] = num_frames - (known or 0)
        return counts

    def _add_crashed(self, event: events.Crashed) -> None:
        is_given_up = isinstance(event, events.GaveUp)
        self._write(
            "INSERT INTO crashes (unit_no, frame_index, phase, message, is_given_up, tries) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET tries = tries + excluded.tries, "
            "is_given_up = is_given_up OR excluded.is_given_up, message = excluded.message",
            (*astuple(event), is_given_up, not is_given_up),
        )

    _add_gaveup = _add_crashed

    def _add_reset(self, event: events.Reset) -> None:
        """Make what failed to be done again.

        A single picture of an image-mode clip becomes a unit of its own. Where frames depend on
        each other, or a whole rest was lost, the unit starts anew and its rows no longer count.
        The length of a clip stays: a file that ends too early still does.
        """
        for clip in event.clips:  # as it is now: all of it starts anew
            values = (clip.num_frames, clip.content, clip.clip_no)
            if not self._write(
                "UPDATE clips SET num_frames = ?, content = ? WHERE clip_no = ?", values
            ).rowcount:
                raise sqlite3.IntegrityError("a record names a clip that the run does not have")
            self._write("UPDATE units SET next_frame = -1 WHERE clip_no = ?", (clip.clip_no,))
        self._write(
            "UPDATE units SET next_frame = -1 WHERE unit_no IN (SELECT unit_no FROM failures JOIN "
            "units USING (unit_no, clip_no) WHERE is_chain OR is_video OR frame_index IS NULL OR "
            "num_frames != 1)"
        )
        for table in ("pieces", "failures", "crashes"):
            self._write(
                f"DELETE FROM {table} WHERE unit_no IN "
                "(SELECT unit_no FROM units WHERE next_frame = -1)"
            )
        self._write(
            "UPDATE units SET next_frame = start_frame, state = NULL, is_done = 0 "
            "WHERE next_frame = -1"
        )
        self._write(
            "DELETE FROM crashes WHERE (unit_no, frame_index) IN "
            "(SELECT unit_no, frame_index FROM failures)"
        )
        self._write(
            f"{_ADD_UNIT} SELECT clip_no, frame_index, frame_index + 1, 0, 0, 1, frame_index "
            "FROM failures WHERE unit_no IS NOT NULL ORDER BY failure_no"
        )
        self._write("DELETE FROM failures WHERE unit_no IS NOT NULL")
        self._write(
            "DELETE FROM meta WHERE key = 'finished_at' "
            "AND EXISTS (SELECT 1 FROM units WHERE is_done = 0)"
        )
        self._write(
            "UPDATE splits SET (clips_done, frames_known, frames_out, frames_failed, clips_failed) "
            "= (SELECT sum(is_done), coalesce(sum(num_frames), 0), sum(num_rows), "
            "coalesce(sum(num_lost), 0), sum(is_done AND NOT num_rows AND num_lost IS NOT NULL) "
            f"FROM (SELECT *, has_units AND NOT is_left AS is_done FROM ({PER_CLIP})) AS counted "
            "WHERE counted.split = splits.split)"
        )

    def copy_to(self, path: Path) -> None:
        """Write the ledger as it is into a new file."""
        self._write("VACUUM INTO ?", (str(path),))

    def close(self) -> None:
        """Close; a ledger nobody else has open becomes one plain file."""
        self._database.close()
        try:
            self._write("PRAGMA journal_mode=DELETE")
        except sqlite3.OperationalError:
            pass  # someone reads it: the write-ahead file stays beside it, which is as good
        finally:
            self._writer.close()


def _connect(path: Path) -> sqlite3.Connection:
    # Used by one thread at a time: `EventLog` sees to it.
    return sqlite3.connect(path, isolation_level=None, timeout=60, check_same_thread=False)
