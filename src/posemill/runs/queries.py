"""Questions to the ledger of a run, for who reads it: read-only, at any moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from posemill.errors import RunError
from posemill.messages import Message
from posemill.runs.manifest import LEDGER_NAME, check_ledger_is_there

_MOST_REASONS = 50  # one by one: an engine may have another one for every frame


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


def check_tables(database: sqlite3.Connection, path: Path) -> None:
    """Raise where a ledger holds more than plain tables: a stranger's view could run for ever."""
    row = database.execute(
        "SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index') "
        "OR sql LIKE 'CREATE VIRTUAL%' LIMIT 1"
    ).fetchone()
    if row is not None:
        raise RunError(
            "{path} is not a ledger of posemill: it holds the {kind} {name!r}; "
            "nothing of it is read",
            path=path,
            kind=row[0],
            name=str(row[1])[:80],
        )


@contextmanager
def read_ledger(folder: Path) -> Iterator[sqlite3.Connection]:
    """Yield a read-only connection to a run's ledger, also while another process writes it."""
    path = folder / LEDGER_NAME
    check_ledger_is_there(folder)
    if not path.exists():
        raise RunError(
            "{folder}: the run has no ledger.sqlite yet; nothing was committed to it", folder=folder
        )
    uri = path.resolve().as_uri()
    database = sqlite3.connect(f"{uri}?mode=ro", uri=True, isolation_level=None, timeout=60)
    try:
        try:
            check_tables(database, path)
        except sqlite3.OperationalError:
            # A folder that may not be written cannot hold SQLite's side files.
            database.close()
            database = sqlite3.connect(f"{uri}?immutable=1", uri=True, isolation_level=None)
            check_tables(database, path)
        yield database
    except sqlite3.DatabaseError as error:
        raise RunError("{path} cannot be read: {error}", path=path, error=error) from error
    finally:
        database.close()


def read_counts(database: sqlite3.Connection) -> list[SplitCounts]:
    """Return the counts of every split, in the order of the source."""
    rows = database.execute(
        "SELECT split, num_clips, clips_done, frames_known, frames_out, frames_failed, "
        "clips_failed FROM splits ORDER BY rowid"
    ).fetchall()
    if wrong := [row for row in rows if not all(isinstance(number, int) for number in row[1:])]:
        raise RunError(
            "the ledger is damaged: it counts {counts}; put back a copy of it", counts=wrong[0]
        )
    return [SplitCounts(*row) for row in rows]


def read_failures(database: sqlite3.Connection) -> Iterator[Failure]:
    """Yield the failures in the order of clips and frames."""
    for row in database.execute(
        "SELECT clip_id, split, frame_index, failures.num_frames, path, reason, message "
        "FROM failures JOIN clips USING (clip_no) ORDER BY clip_no, frame_index"
    ):
        yield Failure(*row)


def read_reasons(database: sqlite3.Connection) -> list[tuple[str, int, int]]:
    """Return reasons, how many failures each has and how many frames, most frequent first.

    Behind the first `_MOST_REASONS` all others are one row.
    """
    rows: list[tuple[str, int, int]] = database.execute(
        "SELECT reason, count(*), sum(num_frames) FROM failures GROUP BY reason "
        "ORDER BY count(*) DESC, reason"
    ).fetchall()
    others = rows[_MOST_REASONS:]
    if not others:
        return rows
    num_failures, num_frames = sum(row[1] for row in others), sum(row[2] for row in others)
    summary = Message("{count:,} other reasons", count=len(others))
    return [*rows[:_MOST_REASONS], (summary, num_failures, num_frames)]


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
    rows = database.execute("SELECT key, value FROM meta")
    return {str(key): str(value) for key, value in rows}
