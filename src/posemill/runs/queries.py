"""Questions to the ledger of a run, for who reads it: read-only, at any moment."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from posemill.errors import RunError
from posemill.messages import Message
from posemill.runs.manifest import LEDGER_NAME, check_ledger_is_there

if TYPE_CHECKING:  # numpy: `status` would take longer
    from posemill.records import Clip

FoundInPieces = tuple[tuple[int, str], ...]  # rows and `Piece.found` of each
_MOST_REASONS = 50  # one by one: an engine may have another one for every frame


class Failure(NamedTuple):
    """A frame (or, with `frame_index` None, a clip or the rest of one) that gave no keypoints."""

    clip_id: str
    split: str
    frame_index: int | None
    num_frames: int  # lost with it; 0 for a clip whose length is not known
    path: str
    reason: str  # a few words that are the same for all failures of a sort
    message: str


@dataclass(frozen=True)
class Unit:
    """A run of frames of one clip that one worker does in order, as it stands."""

    unit_no: int
    clip_no: int
    start_frame: int
    stop_frame: int | None  # None for the end of the clip
    next_frame: int
    state: bytes | None  # the tracker's before `next_frame`; None for a fresh one
    is_chain: bool  # frames depend on those before (video mode)
    clip: Clip
    given_up: tuple[tuple[int, int, str], ...] = ()  # frame, phase, message: not to be tried again


class ShardRows(NamedTuple):
    """Rows of a clip that lie behind each other in a shard."""

    clip_no: int
    split: str
    clip_id: str
    shard: str
    offset: int
    num_rows: int
    checksum: str


class ClipRecord(NamedTuple):
    """A clip as the run knows it."""

    clip_no: int
    split: str
    clip_id: str
    num_frames: int | None
    content: str | None
    has_failed: bool


@dataclass(frozen=True)
class SplitCounts:
    """How far a split is; `clips_failed` are those of the clips done that gave no keypoints."""

    split: str
    num_clips: int
    clips_done: int
    frames_known: int
    frames_out: int
    frames_failed: int
    clips_failed: int = 0


COUNTS = tuple(column.name for column in dataclasses.fields(SplitCounts))[1:]
# What the records say of every clip: rows, frames that failed (null without failures), units.
PER_CLIP = """
SELECT clip_no, split, clip_id, num_frames,
  (SELECT coalesce(sum(num_rows), 0) FROM pieces WHERE clip_no = clips.clip_no) AS num_rows,
  (SELECT sum(num_frames) FROM failures WHERE clip_no = clips.clip_no) AS num_lost,
  clip_no IN (SELECT clip_no FROM units) AS has_units,
  EXISTS (SELECT 1 FROM units WHERE clip_no = clips.clip_no AND is_done = 0) AS is_left
FROM clips"""


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


def check_numbers(row: Sequence[object], numbers: Iterable[object]) -> None:
    """Raise where a ledger, which may be a stranger's, has something else than numbers from 0."""
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise RunError("the ledger is damaged: {row}; put back a copy of it", row=row)


class LedgerReader:
    """What a ledger says, to one thread at a time."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database, self.path = database, path
        self.execute = database.execute  # for a question of one's own

    @property
    def number(self) -> int:
        """How often the ledger was written; elsewhere, the number of the last record in it."""
        return int(self.execute("PRAGMA user_version").fetchone()[0])

    def counts(self) -> list[SplitCounts]:
        """Return the counts of every split, in the order of the source."""
        rows = self.execute(
            f"SELECT split, {', '.join(COUNTS)} FROM splits ORDER BY rowid"
        ).fetchall()
        for row in rows:
            check_numbers(row, row[1:])
        return [SplitCounts(*row) for row in rows]

    def failures(self) -> Iterator[Failure]:
        """Return the failures in the order of clips and frames."""
        rows = self.execute(
            "SELECT clip_id, split, frame_index, failures.num_frames, path, reason, message "
            "FROM failures JOIN clips USING (clip_no) ORDER BY clip_no, frame_index"
        )
        return map(Failure._make, rows)

    def reasons(self) -> list[tuple[str, int, int]]:
        """Return reasons, failures and frames, most frequent first; the rare ones as one row."""
        rows: list[tuple[str, int, int]] = self.execute(
            "SELECT reason, count(*), sum(num_frames) FROM failures GROUP BY reason "
            "ORDER BY count(*) DESC, reason"
        ).fetchall()
        shown, others = rows[:_MOST_REASONS], rows[_MOST_REASONS:]
        if others:
            summary = Message("{count:,} other reasons", count=len(others))
            shown.append((summary, sum(row[1] for row in others), sum(row[2] for row in others)))
        return shown

    def unfinished(self) -> Iterator[tuple[str, str, int, int | None]]:
        """Yield split, id, rows and length or None of clips that lack rows without a reason."""
        yield from self.execute(
            f"SELECT split, clip_id, num_rows, num_frames FROM ({PER_CLIP}) WHERE CASE WHEN "
            "num_frames IS NULL THEN num_lost IS NULL "
            "ELSE num_rows + coalesce(num_lost, 0) < num_frames END ORDER BY clip_no"
        )

    def _meta(self, key: str) -> str | None:
        row = self.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def planned_run(self) -> str | None:
        """Return the id of the run whose clips and units are in; None before there is a plan."""
        return self._meta("planned")

    def num_starts(self) -> int:
        """Return how often the run was started."""
        return int(self._meta("starts") or 0)

    def finished_at(self) -> str | None:
        """Return when the run was finished; None before that, and once it was begun again."""
        return self._meta("finished_at")

    def clips(self) -> list[ClipRecord]:
        """Return all clips in their order."""
        rows = self.execute(
            "SELECT clip_no, split, clip_id, num_frames, content, "
            "clip_no IN (SELECT clip_no FROM failures) FROM clips ORDER BY clip_no"
        )
        return list(map(ClipRecord._make, rows))

    def costs_to_do(self) -> list[tuple[int, int]]:
        """Return number and remaining cost of every unit that is not done, in order."""
        return self.execute(
            "SELECT unit_no, max(1, cost - next_frame + start_frame) FROM units "
            "WHERE is_done = 0 ORDER BY clip_no, start_frame"
        ).fetchall()

    def units(self, unit_nos: Sequence[int], clips: Sequence[Clip]) -> list[Unit]:
        """Return those of the units that are not done, as they stand, of the clips of a source."""
        query = (
            "SELECT clip_no, start_frame, stop_frame, next_frame, state, is_chain, num_frames "
            "FROM units JOIN clips USING (clip_no) WHERE unit_no = ? AND is_done = 0"
        )
        units = []
        for unit_no, row in ((no, row) for no in unit_nos for row in self.execute(query, (no,))):
            clip_no, start, stop, next_frame, state, is_chain, num_frames = row
            check_numbers(row, (start, next_frame, stop or 0))
            given_up = self.execute(
                "SELECT frame_index, phase, message FROM crashes WHERE unit_no = ? AND is_given_up",
                (unit_no,),
            )
            clip = dataclasses.replace(clips[clip_no - 1], num_frames=num_frames)
            frames, chain = (start, stop, next_frame), bool(is_chain)
            units.append(Unit(unit_no, clip_no, *frames, state, chain, clip, tuple(given_up)))
        return units

    def crashes(self) -> Counter[tuple[int, int, int]]:
        """Return how often a worker died at each unit, frame and phase."""
        rows = self.execute("SELECT unit_no, frame_index, phase, tries FROM crashes")
        return Counter({(unit, frame, phase): tries for unit, frame, phase, tries in rows})

    def shard_sizes(self) -> dict[str, int]:
        """Return the bytes of every shard that counts, by its name."""
        return dict(self.execute("SELECT name, num_bytes FROM shards").fetchall())

    def rows(self, split: str | None = None, clip_id: str | None = None) -> Iterator[ShardRows]:
        """Yield where rows are, of a split, of clips of an id, or all, by clip and frame."""
        known = {"split": split, "clip_id": clip_id}
        wanted = {name: value for name, value in known.items() if value is not None}
        # An index has the order of clips, so SQLite streams and does not sort; the plus keeps it
        # from taking that of names, which is for a single clip.
        plus = "+" if clip_id is None else ""
        where = " AND ".join(f"{plus}{name} = ?" for name in wanted) or "1"
        for row in self.execute(
            "SELECT clip_no, split, clip_id, name, row_offset, pieces.num_rows, checksum FROM "
            "pieces JOIN clips USING (clip_no) JOIN shards USING (shard_no) "
            f"WHERE {where} ORDER BY clip_no, first_frame",
            [*wanted.values()],
        ):
            rows = ShardRows(*row)
            check_numbers(row, (rows.offset, rows.num_rows))
            yield rows

    def found(self, split: str | None = None) -> Iterator[tuple[int, str, FoundInPieces]]:
        """Yield number, id and pieces of each clip that gave rows, in reading order."""
        rows = self.execute(
            "SELECT clip_no, clip_id, pieces.num_rows, found FROM pieces JOIN clips USING "
            "(clip_no) WHERE +split = ? OR ? IS NULL ORDER BY clip_no, first_frame",
            (split, split),
        )
        for (clip_no, clip_id), pieces in groupby(rows, key=itemgetter(0, 1)):
            yield clip_no, clip_id, tuple((piece[2], piece[3]) for piece in pieces)

    def check_totals(self) -> None:
        """Raise if frames in are not frames out and frames failed, counted from the records."""
        known, rows, failed, counted = self.execute(
            "SELECT coalesce(sum(num_frames), 0), coalesce(sum(num_rows), 0), "
            "coalesce(sum(num_lost), 0), (SELECT coalesce(sum(frames_out + frames_failed), 0) "
            f"FROM splits) FROM ({PER_CLIP})"
        ).fetchone()
        if not known == rows + failed == counted:
            raise RunError(
                "the counts do not add up: {numbers} frames in, out, failed and counted; please "
                "report this with {path}",
                numbers=[known, rows, failed, counted],
                path=self.path,
            )


@contextmanager
def read_ledger(folder: Path) -> Iterator[LedgerReader]:
    """Yield a run's ledger, read-only, also while another process writes it."""
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
        yield LedgerReader(database, path)
    except sqlite3.DatabaseError as error:
        raise RunError("{path} cannot be read: {error}", path=path, error=error) from error
    finally:
        database.close()
