"""The ledger of an extraction: the commit records, and beside them what is left to do.

Units and their progress, failures, crashes. A unit moves on in the same transaction that records
its shard, so that the two never disagree.
"""

from __future__ import annotations

import dataclasses
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from posemill.errors import RunError
from posemill.jobs.extract.messages import DECODING, Commit, Lost, Unit, UnitProgress
from posemill.jobs.extract.plan import PlannedUnit
from posemill.records import Clip
from posemill.sources.clip_list import digest_of
from posemill.stores.commits import (
    UNIT_TABLES,
    CommitLog,
    SplitCounts,
    read_clips_failed,
    read_counts,
    read_reasons,
)
from posemill.stores.names import valid_unicode
from posemill.stores.records import RecordLog

# One flush to the disk serves all commits of this span; a single one is flushed at once.
_FLUSH_SECONDS = 0.3
_RECORD_SECONDS = 1.0  # where a flush is an object


class SourceChanges(NamedTuple):
    """What of a source is not as it was when the run began.

    Args:
        lines: `train/x is new`, `dev/y is gone`, `dev/z is not the same`.
        changed: The numbers of the clips that are not the same.
        only_failed: Whether nothing else changed than clips that failed.
        new_splits: The splits of new clips, where nothing changed but that they came.
    """

    lines: list[str]
    changed: list[int]
    only_failed: bool
    new_splits: list[str]


class Ledger(CommitLog):
    """The open ledger; only the coordinator writes it."""

    def __init__(self, folder: Path, records: RecordLog | None = None) -> None:
        super().__init__(folder, records)
        self._database.executescript(UNIT_TABLES)
        self._flushed_at = 0.0
        self._flush_seconds = _FLUSH_SECONDS if records is None else _RECORD_SECONDS
        # Counted once, then kept up to date: the coordinator asks several times a second.
        self._clips_failed: dict[str, int] | None = None

    @property
    def is_planned(self) -> bool:
        """Whether the clips and units are in."""
        return self._meta("planned") is not None

    def _meta(self, key: str) -> str | None:
        row = self._database.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def add_plan(
        self,
        clips: Sequence[Clip],
        units: Iterable[PlannedUnit],
        lengths: Sequence[int | None] | None = None,
    ) -> None:
        """Record the clips and units of a new run, all or nothing.

        Args:
            clips: As the source has them.
            units: What is to be done.
            lengths: How many frames of each clip are wanted; those that it has by default.
        """
        lengths = [clip.num_frames for clip in clips] if lengths is None else lengths
        try:
            with self.transaction():
                for clip, length in zip(clips, lengths, strict=True):
                    self.add_clip(clip.split, clip.clip_id, length, content=digest_of(clip))
                self._database.executemany(
                    "INSERT INTO units (clip_no, start_frame, stop_frame, is_chain, is_video, "
                    "cost, next_frame) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (
                        (unit.clip_no, unit.start_frame, unit.stop_frame, unit.is_chain,
                         unit.is_video, unit.cost, unit.start_frame)
                        for unit in units
                    ),
                )  # fmt: skip
                self.set_meta(planned="1")
        except sqlite3.IntegrityError as error:
            raise RunError(f"two clips have the same split and id: {error}") from error

    def changes_of(self, clips: Sequence[Clip]) -> SourceChanges:
        """Return what is not as it was when the run began."""
        old = {
            (split, clip_id): (clip_no, content, bool(has_failed))
            for clip_no, split, clip_id, content, has_failed in self._database.execute(
                "SELECT clip_no, split, clip_id, content, clip_no IN (SELECT clip_no FROM failures)"
                " FROM clips"
            )
        }
        lines: list[str] = []
        changed: list[int] = []
        new: list[str] = []  # their splits
        only_failed = True
        for clip in clips:
            name = valid_unicode(clip.split), valid_unicode(clip.clip_id)
            clip_no, content, has_failed = old.pop(name, (0, None, False))
            if content is None:
                lines.append(f"{'/'.join(name)} is new")
                new.append(clip.split)
                only_failed = False
            elif content != digest_of(clip):
                lines.append(f"{'/'.join(name)} is not the same")
                changed.append(clip_no)
                only_failed = only_failed and has_failed
        lines += [f"{'/'.join(name)} is gone" for name in old]
        new_splits = [] if changed or old else list(dict.fromkeys(new))
        return SourceChanges(lines, changed, only_failed and not old, new_splits)

    def failed_without_length(self) -> list[int]:
        """Return the numbers of the clips that failed before anybody knew their length."""
        rows = self._database.execute(
            "SELECT clip_no FROM clips WHERE coalesce(num_frames, 0) = 0 "
            "AND clip_no IN (SELECT clip_no FROM failures)"
        )
        return [clip_no for (clip_no,) in rows]

    def with_lengths(self, clips: Sequence[Clip]) -> tuple[Clip, ...]:
        """Return the clips with their numbers of frames as far as they are known by now."""
        rows = self._database.execute("SELECT num_frames FROM clips ORDER BY clip_no")
        return tuple(
            clip if clip.num_frames == known else dataclasses.replace(clip, num_frames=known)
            for clip, (known,) in zip(clips, rows, strict=True)
        )

    def finished_at(self) -> str | None:
        """Return when the run was finished; None before that, and once it was begun again."""
        return self._meta("finished_at") or None

    def begin_start(self) -> int:
        """Return how often the run was started before, and count this time."""
        starts = int(self._meta("starts") or 0)
        with self.transaction():
            self.set_meta(starts=str(starts + 1))
            self._database.execute("DELETE FROM meta WHERE key = 'finished_at'")
        return starts

    def costs_to_do(self) -> list[tuple[int, int]]:
        """Return number and remaining cost of every unit that is not done, in order."""
        return self._database.execute(
            "SELECT unit_no, max(1, cost - next_frame + start_frame) FROM units "
            "WHERE is_done = 0 ORDER BY clip_no, start_frame"
        ).fetchall()

    def load_units(self, unit_nos: Sequence[int], clips: Sequence[Clip]) -> tuple[Unit, ...]:
        """Return those of the units that are not done, as they stand."""
        units = []
        for unit_no in unit_nos:
            row = self._database.execute(
                "SELECT clip_no, start_frame, stop_frame, next_frame, state, is_chain, num_frames "
                "FROM units JOIN clips USING (clip_no) WHERE unit_no = ? AND is_done = 0",
                (unit_no,),
            ).fetchone()
            if row is not None:
                clip_no, start, stop, next_frame, state, is_chain, num_frames = row
                clip = clips[clip_no - 1]
                if clip.num_frames != num_frames:
                    clip = dataclasses.replace(clip, num_frames=num_frames)
                skip, give_up = self._given_up(unit_no)
                units.append(
                    Unit(unit_no, clip_no, clip, start, stop, next_frame, state,
                         bool(is_chain), skip, give_up)
                )  # fmt: skip
        return tuple(units)

    def _given_up(self, unit_no: int) -> tuple[dict[int, str], tuple[int, str] | None]:
        skip: dict[int, str] = {}
        give_up = None
        for frame_index, phase, message, is_video in self._database.execute(
            "SELECT frame_index, phase, message, is_video FROM crashes JOIN units USING (unit_no) "
            "WHERE unit_no = ? AND is_given_up ORDER BY frame_index DESC",
            (unit_no,),
        ):
            # A video cannot be read past a frame that its decoder dies of.
            if phase < 0 or (is_video and phase == DECODING):
                give_up = (frame_index, message)
            else:
                skip[frame_index] = message
        return skip, give_up

    def apply(self, commit: Commit) -> None:
        """Record a shard and the progress of its units; durable at the next flush."""
        with self._batch():
            if commit.shard is not None:
                self.add_shard(commit.shard)
            for unit in commit.units:
                self._move_on(unit)

    def _move_on(self, unit: UnitProgress) -> None:
        self._database.execute(
            "UPDATE units SET next_frame = ?, state = ?, is_done = ? WHERE unit_no = ?",
            (unit.next_frame, unit.state, unit.is_done, unit.unit_no),
        )
        for lost in unit.lost:
            self._add_lost(unit, lost)
        failed = sum(lost.num_frames for lost in unit.lost)
        self.count(unit.split, frames_out=unit.num_rows, frames_failed=failed)
        if unit.is_done:
            self._finish_clip(unit.clip_no, unit.split)

    def _add_lost(self, unit: UnitProgress, lost: Lost) -> None:
        self._database.execute(
            "INSERT INTO failures (clip_no, unit_no, frame_index, num_frames, path, reason, "
            "message) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (unit.clip_no, unit.unit_no, lost.frame_index, lost.num_frames,
             valid_unicode(lost.path), lost.reason, valid_unicode(lost.message)),
        )  # fmt: skip

    def _finish_clip(self, clip_no: int, split: str) -> None:
        left = self._database.execute(
            "SELECT 1 FROM units WHERE clip_no = ? AND is_done = 0 LIMIT 1", (clip_no,)
        ).fetchone()
        if left is not None:
            return
        known, rows, lost = self._database.execute(
            "SELECT num_frames, (SELECT coalesce(sum(num_rows), 0) FROM pieces WHERE clip_no = "
            ":n), (SELECT sum(num_frames) FROM failures WHERE clip_no = :n) "
            "FROM clips WHERE clip_no = :n",
            {"n": clip_no},
        ).fetchone()
        self.count(split, clips_done=1)
        if self._clips_failed is not None and not rows and lost is not None:
            self._clips_failed[split] = self._clips_failed.get(split, 0) + 1
        found = rows + (lost or 0)
        if known is None or found > known:  # a video that did not say, or said too little
            self._database.execute(
                "UPDATE clips SET num_frames = ? WHERE clip_no = ?", (found, clip_no)
            )
            self.count(split, frames_known=found - (known or 0))

    def record_crash(self, unit_no: int, place: tuple[int, int], message: str) -> int:
        """Return how often a worker died at that frame and phase of a unit, this time included."""
        with self._batch():
            self._database.execute(
                "INSERT INTO crashes (unit_no, frame_index, phase, tries, message) "
                "VALUES (?, ?, ?, 1, ?) ON CONFLICT (unit_no, frame_index, phase) DO UPDATE SET "
                "tries = tries + 1, message = excluded.message",
                (unit_no, *place, message),
            )
            row = self._database.execute(
                "SELECT tries FROM crashes WHERE unit_no = ? AND frame_index = ? AND phase = ?",
                (unit_no, *place),
            ).fetchone()
        return int(row[0])

    def give_up(self, unit_no: int, place: tuple[int, int], message: str) -> None:
        """Never try that frame again; with phase -1, nothing of the unit from there on."""
        with self._batch():
            self._database.execute(
                "INSERT INTO crashes VALUES (?, ?, ?, 0, 1, ?) ON CONFLICT (unit_no, frame_index, "
                "phase) DO UPDATE SET is_given_up = 1, message = excluded.message",
                (unit_no, *place, message),
            )

    def reset_failed(
        self, clips: Sequence[Clip] = (), lengths: Mapping[int, int | None] | None = None
    ) -> int:
        """Make everything that failed to be done again; return how many frames or clips that is.

        A single picture of an image-mode clip becomes a unit of its own. Where frames depend on
        each other, or a whole rest was lost, the unit starts anew and its rows no longer count.
        The length of a clip stays: a file that ends too early still does.

        Args:
            clips: Of the source, as they are now.
            lengths: By the numbers of clips that are not the same, or had no length: the frames
                they have now. These start anew as a whole.
        """
        lengths = lengths or {}
        self._clips_failed = None
        with self.transaction():
            rows = self._database.execute(
                "SELECT failure_no, failures.unit_no, failures.clip_no, frame_index, is_chain OR "
                "is_video OR frame_index IS NULL OR failures.num_frames != 1, split "
                "FROM failures JOIN units USING (unit_no) JOIN clips ON clips.clip_no = "
                "failures.clip_no"
            ).fetchall()
            if rows or lengths:
                self._database.execute("DELETE FROM meta WHERE key = 'finished_at'")
            for clip_no, split in {(row[2], row[5]) for row in rows}:
                self._unfinish_clip(clip_no, split)
            whole = {row[1] for row in rows if row[4]}
            for clip_no, length in lengths.items():
                whole |= self._replace_clip(clip_no, clips[clip_no - 1], length)
            for unit_no in whole:
                self._restart_unit(unit_no)
            for failure_no, unit_no, clip_no, frame_index, _, split in rows:
                if unit_no not in whole:
                    self._retry_frame(failure_no, (unit_no, clip_no, frame_index), split)
        return len(rows)

    def _unfinish_clip(self, clip_no: int, split: str) -> None:
        (to_do,) = self._database.execute(
            "SELECT count(*) FROM units WHERE clip_no = ? AND is_done = 0", (clip_no,)
        ).fetchone()
        if not to_do:
            self.count(split, clips_done=-1)

    def _replace_clip(self, clip_no: int, clip: Clip, length: int | None) -> set[int]:
        """Take a clip as it is now for the one the run is about; return its units."""
        (known,) = self._database.execute(
            "SELECT num_frames FROM clips WHERE clip_no = ?", (clip_no,)
        ).fetchone()
        self._database.execute(
            "UPDATE clips SET num_frames = ?, content = ? WHERE clip_no = ?",
            (length, digest_of(clip), clip_no),
        )
        self.count(clip.split, frames_known=(length or 0) - (known or 0))
        units = self._database.execute("SELECT unit_no FROM units WHERE clip_no = ?", (clip_no,))
        return {unit_no for (unit_no,) in units}

    def _restart_unit(self, unit_no: int) -> None:
        split, rows, failed = self._database.execute(
            "SELECT split, (SELECT coalesce(sum(num_rows), 0) FROM pieces WHERE unit_no = :n), "
            "(SELECT coalesce(sum(num_frames), 0) FROM failures WHERE unit_no = :n) "
            "FROM units JOIN clips USING (clip_no) WHERE unit_no = :n",
            {"n": unit_no},
        ).fetchone()
        self.count(split, frames_out=-rows, frames_failed=-failed)
        for table in ("pieces", "failures", "crashes"):
            self._database.execute(f"DELETE FROM {table} WHERE unit_no = ?", (unit_no,))
        self._database.execute(
            "UPDATE units SET next_frame = start_frame, state = NULL, is_done = 0 "
            "WHERE unit_no = ?",
            (unit_no,),
        )

    def _retry_frame(self, failure_no: int, where: tuple[int, int, int], split: str) -> None:
        unit_no, clip_no, frame = where
        self._database.execute("DELETE FROM failures WHERE failure_no = ?", (failure_no,))
        self._database.execute(
            "DELETE FROM crashes WHERE unit_no = ? AND frame_index = ?", (unit_no, frame)
        )
        self.count(split, frames_failed=-1)
        self._database.execute(
            "INSERT INTO units (clip_no, start_frame, stop_frame, is_chain, is_video, cost, "
            "next_frame) VALUES (?, ?, ?, 0, 0, 1, ?)",
            (clip_no, frame, frame + 1, frame),
        )

    def counts(self) -> list[SplitCounts]:
        """Return the counts of every split, what is not flushed yet included."""
        if self._clips_failed is None:
            self._clips_failed = read_clips_failed(self._database)
        return read_counts(self._database, self._clips_failed)

    def reasons(self) -> list[tuple[str, int, int]]:
        """Return reasons, how many failures each has and how many frames, most frequent first."""
        return read_reasons(self._database)

    def shard_sizes(self) -> list[tuple[str, int]]:
        """Return name and bytes of every shard."""
        return self._database.execute("SELECT name, num_bytes FROM shards").fetchall()

    def notes(self) -> Iterator[tuple[int, int, list[str]]]:
        """Yield each clip that gave rows: number, rows, and the notes of its pieces in order."""
        rows = self._database.execute(
            "SELECT clip_no, num_rows, found FROM pieces ORDER BY clip_no, first_frame"
        )
        for clip_no, pieces in groupby(rows, key=lambda row: int(row[0])):
            found = list(pieces)
            yield clip_no, sum(row[1] for row in found), [row[2] for row in found]

    def check_totals(self) -> None:
        """Raise if frames in are not frames out and frames failed, counted from the records."""
        known, rows, failed, counted = self._database.execute(
            "SELECT (SELECT coalesce(sum(num_frames), 0) FROM clips), (SELECT coalesce(sum("
            "num_rows), 0) FROM pieces), (SELECT coalesce(sum(num_frames), 0) FROM failures), "
            "(SELECT coalesce(sum(frames_out + frames_failed), 0) FROM splits)"
        ).fetchone()
        if not known == rows + failed == counted:
            raise RunError(
                f"the counts do not add up: {known} frames in, {rows} out, {failed} failed "
                f"({counted} counted); please report this with {self.path}"
            )

    @contextmanager
    def _batch(self) -> Any:
        if not self._database.in_transaction:
            self._database.execute("BEGIN IMMEDIATE")
        yield
        if time.monotonic() - self._flushed_at >= self._flush_seconds:
            self.flush()

    def flush(self, *, only_if_due: bool = False) -> None:
        """Make all that was recorded durable."""
        if only_if_due and time.monotonic() - self._flushed_at < self._flush_seconds:
            return
        if self._database.in_transaction:
            self._publish()
            self._database.commit()
            self._flushed_at = time.monotonic()

    def close(self) -> None:
        """Give up what was not flushed, and close."""
        self._database.rollback()
        super().close()
