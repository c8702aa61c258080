"""The commit records of a run: which rows of which shards count. An SQLite file, `ledger.sqlite`.

A shard on the disk means nothing until its record is here, and a record is written only after its
shard is whole on the disk: killed at any instant, the two agree. Counts per split are kept up to
date in the same transactions, so that asking for them costs nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posemill.errors import RunError
from posemill.files import atomic_path
from posemill.stores.manifest import LEDGER_NAME, check_ledger_is_there
from posemill.stores.names import valid_unicode
from posemill.stores.records import RecordLog

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS splits (
  split TEXT PRIMARY KEY, num_clips INTEGER NOT NULL DEFAULT 0, clips_done INTEGER NOT NULL
  DEFAULT 0, frames_known INTEGER NOT NULL DEFAULT 0, frames_out INTEGER NOT NULL DEFAULT 0,
  frames_failed INTEGER NOT NULL DEFAULT 0);
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
"""
LEDGER_TABLES = ("splits", "clips", "shards", "pieces", "failures", "meta")
# What is left to do, of runs that are worked on: see `posemill.jobs.extract.ledger`.
UNIT_TABLES = """
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


@dataclass(frozen=True)
class Piece:
    """Rows of one clip inside a shard: `num_rows` from `row_offset`, in frame order.

    Args:
        found: JSON: in how many frames each part was found, and `[width, height, frames]` for each
            size of frames. `view` counts by it, without reading a shard.
    """

    clip_no: int
    first_frame: int
    row_offset: int
    num_rows: int
    unit_no: int | None = None
    found: str | None = None


@dataclass(frozen=True)
class Shard:
    """A shard that is whole on the disk, and what it holds.

    Args:
        checksum: By which a reader knows that it is this one: `shards.checksum_of`. Empty where the
            name is that of no file.
    """

    name: str
    num_rows: int
    num_bytes: int
    pieces: tuple[Piece, ...]
    checksum: str = ""


@dataclass(frozen=True)
class Failure:
    """A frame (or, with `frame_index` None, a clip or the rest of one) that gave no keypoints.

    Args:
        num_frames: How many frames were lost with it; 0 for a clip whose length is not known.
        path: The file.
        reason: A few words that are the same for all failures of a sort.
        message: All that is known.
    """

    clip_id: str
    split: str
    frame_index: int | None
    num_frames: int
    path: str
    reason: str
    message: str


@dataclass(frozen=True)
class SplitCounts:
    """How far a split is.

    Args:
        frames_known: Frames of clips whose length is known.
        clips_failed: Those of the clips done that gave no keypoints at all. Their frames are among
            `frames_failed` where their length is known.
    """

    split: str
    num_clips: int
    clips_done: int
    frames_known: int
    frames_out: int
    frames_failed: int
    clips_failed: int = 0


class CommitLog:
    """The open ledger of a run, to be written by one process at a time.

    Writing happens inside `with log.transaction():`; everything in it is durable when it ends, or
    did not happen.

    Args:
        folder: The run's.
        records: Where each commit goes first, of a run that lies elsewhere; None for one that is
            here, whose ledger is the record.
    """

    def __init__(self, folder: Path, records: RecordLog | None = None) -> None:
        self.path = folder / LEDGER_NAME
        self.records = records
        if not self.path.exists():
            create_ledger(self.path)
        self._database = sqlite3.connect(self.path, isolation_level=None, timeout=60)
        try:
            _check_tables(self._database, self.path)
        except BaseException:
            self._database.close()
            raise
        # FULL: a record that was acknowledged survives a power cut.
        self._database.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;")
        if records is not None:
            records.watch(self._database)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write all or nothing; inside another transaction it is part of that one."""
        if self._database.in_transaction:
            yield
            return
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._publish()
        except BaseException:
            self._database.rollback()
            raise
        self._database.commit()

    def _publish(self) -> None:
        """Write what the open transaction changed where others see it, if that is elsewhere."""
        if self.records is not None:
            self.records.publish(self._database)

    def add_clip(
        self, split: str, clip_id: str, num_frames: int | None, *, content: str | None = None
    ) -> int:
        """Return the number of a new clip; the order of numbers is the order of reading.

        Args:
            split: Its split.
            clip_id: Unique within the split.
            num_frames: None if not known yet.
            content: A digest of what the clip is, to notice a change of the source.
        """
        cursor = self._database.execute(
            "INSERT INTO clips (split, clip_id, num_frames, content) VALUES (?, ?, ?, ?)",
            (valid_unicode(split), valid_unicode(clip_id), num_frames, content),
        )
        self.count(split, num_clips=1, frames_known=num_frames or 0)
        return int(cursor.lastrowid or 0)

    def count(self, split: str, **changes: int) -> None:
        """Add to the counts of a split, by column name."""
        split = valid_unicode(split)
        columns, values = list(changes), list(changes.values())
        self._database.execute(
            f"INSERT INTO splits (split, {', '.join(columns)}) VALUES (?{', ?' * len(columns)}) "
            "ON CONFLICT (split) DO UPDATE SET "
            + ", ".join(f"{column} = {column} + excluded.{column}" for column in columns),
            (split, *values),
        )

    def add_shard(self, shard: Shard) -> int:
        """Record a shard that is whole on the disk; return its number."""
        cursor = self._database.execute(
            "INSERT INTO shards (name, num_rows, num_bytes, checksum) VALUES (?, ?, ?, ?)",
            (shard.name, shard.num_rows, shard.num_bytes, shard.checksum),
        )
        shard_no = int(cursor.lastrowid or 0)
        self._database.executemany(
            "INSERT INTO pieces (clip_no, unit_no, first_frame, shard_no, row_offset, num_rows, "
            "found) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (piece.clip_no, piece.unit_no, piece.first_frame, shard_no, piece.row_offset,
                 piece.num_rows, piece.found)
                for piece in shard.pieces
            ],
        )  # fmt: skip
        return shard_no

    def add_failure(self, clip_no: int, failure: Failure) -> None:
        """Record what gave no keypoints; the clip becomes longer by the frames that were lost."""
        self._database.execute(
            "INSERT INTO failures (clip_no, frame_index, num_frames, path, reason, message) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (clip_no, failure.frame_index, failure.num_frames, valid_unicode(failure.path),
             failure.reason, valid_unicode(failure.message)),
        )  # fmt: skip
        lost = failure.num_frames
        if lost:
            self._database.execute(
                "UPDATE clips SET num_frames = coalesce(num_frames, 0) + ? WHERE clip_no = ?",
                (lost, clip_no),
            )
            self.count(failure.split, frames_known=lost, frames_failed=lost)

    def num_starts(self) -> int:
        """Return how often the run was started."""
        row = self._database.execute("SELECT value FROM meta WHERE key = 'starts'").fetchone()
        return 0 if row is None else int(row[0])

    def shard_names(self) -> set[str]:
        """Return the file names of all shards that count."""
        return {name for (name,) in self._database.execute("SELECT name FROM shards")}

    def stale_shards(self) -> list[tuple[int, str, str]]:
        """Return number, name and checksum of shards that hold rows of no piece."""
        return self._database.execute(
            "SELECT shard_no, name, checksum FROM shards WHERE num_rows > (SELECT "
            "coalesce(sum(num_rows), 0) FROM pieces WHERE pieces.shard_no = shards.shard_no)"
        ).fetchall()

    def pieces_of(self, shard_no: int) -> list[tuple[int, int, int]]:
        """Return number, offset and rows of a shard's pieces, in the order of their rows."""
        return self._database.execute(
            "SELECT piece_no, row_offset, num_rows FROM pieces WHERE shard_no = ? "
            "ORDER BY row_offset",
            (shard_no,),
        ).fetchall()

    def replace_shard(self, shard_no: int, new: Shard, moved: list[tuple[int, int]]) -> None:
        """Record that a shard's rows are now in another file: numbers and offsets of its pieces."""
        with self.transaction():
            self._database.execute(
                "UPDATE shards SET name = ?, num_rows = ?, num_bytes = ?, checksum = ? "
                "WHERE shard_no = ?",
                (new.name, new.num_rows, new.num_bytes, new.checksum, shard_no),
            )
            self._database.executemany(
                "UPDATE pieces SET row_offset = ? WHERE piece_no = ?",
                [(offset, piece_no) for piece_no, offset in moved],
            )

    def remove_shard(self, shard_no: int) -> None:
        """Forget a shard without pieces."""
        with self.transaction():
            self._database.execute("DELETE FROM shards WHERE shard_no = ?", (shard_no,))

    def remove_all(self) -> None:
        """Forget everything."""
        for table in LEDGER_TABLES:
            self._database.execute(f"DELETE FROM {table}")

    def insert(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Add rows of another ledger as they are."""
        places = ", ".join("?" * len(rows[0]))
        self._database.executemany(f"INSERT INTO {table} VALUES ({places})", rows)

    def rename_shards(self, names: Mapping[str, str]) -> None:
        """Record that shards have other names: the new ones by the old ones."""
        pairs = [(new, old) for old, new in names.items()]
        self._database.executemany("UPDATE shards SET name = ? WHERE name = ?", pairs)

    def set_meta(self, **values: str) -> None:
        """Remember words by name."""
        self._database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())

    def close(self) -> None:
        """Close; a ledger nobody else has open becomes one plain file."""
        try:
            self._database.execute("PRAGMA journal_mode=DELETE")
        except sqlite3.OperationalError:
            pass  # someone reads it: the write-ahead file stays beside it, which is as good
        finally:
            self._database.close()


def create_ledger(path: Path, *, has_units: bool = False) -> None:
    """Make an empty ledger, whole or not at all: readers may look at any moment."""
    with atomic_path(path) as temporary, closing(sqlite3.connect(temporary)) as database:
        database.executescript(_TABLES + UNIT_TABLES * has_units)


def _check_tables(database: sqlite3.Connection, path: Path) -> None:
    """Raise where a ledger holds more than plain tables: a stranger's view could run for ever."""
    row = database.execute(
        "SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index') "
        "OR sql LIKE 'CREATE VIRTUAL%' LIMIT 1"
    ).fetchone()
    if row is not None:
        raise RunError(
            f"{path} is not a ledger of posemill: it holds the {row[0]} {str(row[1])[:80]!r}; "
            "nothing of it is read"
        )


@contextmanager
def read_ledger(folder: Path) -> Iterator[sqlite3.Connection]:
    """Yield a read-only connection to a run's ledger, also while another process writes it."""
    path = folder / LEDGER_NAME
    check_ledger_is_there(folder)
    if not path.exists():
        raise RunError(f"{folder}: the run has no {LEDGER_NAME} yet; nothing was committed to it")
    uri = path.resolve().as_uri()
    database = sqlite3.connect(f"{uri}?mode=ro", uri=True, isolation_level=None, timeout=60)
    try:
        try:
            _check_tables(database, path)
        except sqlite3.OperationalError:
            # A folder that may not be written cannot hold SQLite's side files.
            database.close()
            database = sqlite3.connect(f"{uri}?immutable=1", uri=True, isolation_level=None)
            _check_tables(database, path)
        yield database
    except sqlite3.DatabaseError as error:
        raise RunError(f"{path} cannot be read: {error}") from error
    finally:
        database.close()


def read_counts(
    database: sqlite3.Connection, clips_failed: Mapping[str, int] | None = None
) -> list[SplitCounts]:
    """Return the counts of every split, in the order of the source.

    Args:
        database: The ledger.
        clips_failed: What `read_clips_failed` said, where it is known already.
    """
    failed = read_clips_failed(database) if clips_failed is None else clips_failed
    rows: Iterable[Sequence[Any]] = database.execute(
        "SELECT split, num_clips, clips_done, frames_known, frames_out, frames_failed "
        "FROM splits ORDER BY rowid"
    )
    return [SplitCounts(*(*row, failed.get(row[0], 0))) for row in rows]


def read_clips_failed(database: sqlite3.Connection) -> dict[str, int]:
    """Return how many clips gave no keypoints at all, by split. Takes time for each failure."""
    rows = database.execute(
        "SELECT split, count(*) FROM (SELECT clip_no, sum(num_frames) AS lost FROM failures "
        "GROUP BY clip_no) JOIN clips USING (clip_no) WHERE lost >= coalesce(clips.num_frames, 0) "
        "AND NOT EXISTS (SELECT 1 FROM pieces WHERE pieces.clip_no = clips.clip_no) GROUP BY split"
    )
    return {str(split): int(count) for split, count in rows}


def read_failures(database: sqlite3.Connection) -> Iterator[Failure]:
    """Yield the failures in the order of clips and frames."""
    for row in database.execute(
        "SELECT clip_id, split, frame_index, failures.num_frames, path, reason, message "
        "FROM failures JOIN clips USING (clip_no) ORDER BY clip_no, frame_index"
    ):
        yield Failure(*row)


def read_reasons(database: sqlite3.Connection) -> list[tuple[str, int, int]]:
    """Return reasons, how many failures each has and how many frames, most frequent first."""
    return database.execute(
        "SELECT reason, count(*), sum(num_frames) FROM failures GROUP BY reason "
        "ORDER BY count(*) DESC, reason"
    ).fetchall()


def read_unfinished(database: sqlite3.Connection) -> Iterator[tuple[str, str, int, int | None]]:
    """Yield (split, clip id, rows, length or None) of clips that lack rows and reasons for it."""
    rows = database.execute(
        "WITH made AS (SELECT clip_no, sum(num_rows) AS num FROM pieces GROUP BY clip_no), "
        "lost AS (SELECT clip_no, sum(num_frames) AS num FROM failures GROUP BY clip_no) "
        "SELECT split, clip_id, coalesce(made.num, 0), num_frames FROM clips "
        "LEFT JOIN made USING (clip_no) LEFT JOIN lost USING (clip_no) "
        "WHERE CASE WHEN num_frames IS NULL THEN lost.num IS NULL "
        "ELSE coalesce(made.num, 0) + coalesce(lost.num, 0) < num_frames END ORDER BY clip_no"
    )
    yield from rows


# Which clips lie in several shards, or in rows of one that are apart.
IN_PARTS = "clip_no IN (SELECT clip_no FROM pieces GROUP BY clip_no HAVING count(*) > 1)"


def read_meta(database: sqlite3.Connection) -> dict[str, str]:
    """Return the words remembered by name."""
    return dict(_rows(database.execute("SELECT key, value FROM meta")))


def _rows(rows: Iterable[Sequence[Any]]) -> Iterator[tuple[str, str]]:
    return ((str(key), str(value)) for key, value in rows)
