"""Fills the table of a run's clips, see `clip_index`, in a process of its own.

First what the records say, which takes a moment; then the clips are read and measured, those that
changed since the last time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from posemill.clips.inputs import ClipInput
from posemill.files import PREPARED_ENDING, folder_kind
from posemill.inspection.quality import measure
from posemill.messages import Message, to_json
from posemill.records import PoseClip
from posemill.runs.queries import read_ledger
from posemill.runs.reader import Run, open_run
from posemill.skeletons import get_skeleton
from posemill.web.clip_index import MOST_PARTS, mark_of, open_index

_COMMIT_EVERY = 200  # clips
_MEASURED = ("badness", "num_jumps", "num_swaps", "num_frozen")


def fill(folder: Path, path: Path) -> None:
    """Bring the table of a run, or of prepared data, to what is there now."""
    with closing(open_index(path)) as database:
        mark = mark_of(folder)
        if folder_kind(folder) == "extraction":
            run = open_run(folder)
            _copy_records(run, database)
            _measure_run(run, database)
        else:
            _measure_files(folder, database)
        database.execute("INSERT OR REPLACE INTO meta VALUES ('mark', ?)", (mark,))


def _copy_records(run: Run, database: sqlite3.Connection) -> None:
    parts = get_skeleton(run.skeleton_name).part_names[:MOST_PARTS]
    database.execute("BEGIN")
    with read_ledger(run.folder) as ledger:
        rows = ledger.execute(
            "SELECT clip_no, split, clip_id, num_frames, coalesce(rows, 0), coalesce(lost, 0), "
            "coalesce(rows, 0) || ':' || coalesce(last, 0) FROM clips "
            "LEFT JOIN (SELECT clip_no, sum(num_rows) AS rows, max(piece_no) AS last FROM pieces "
            "GROUP BY clip_no) USING (clip_no) "
            "LEFT JOIN (SELECT clip_no, sum(max(num_frames, 1)) AS lost FROM failures "
            "GROUP BY clip_no) USING (clip_no)"
        )
        database.executemany(
            "INSERT INTO clips (clip_no, split, clip_id, num_frames, num_rows, num_failed, mark) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (clip_no) DO UPDATE SET num_frames = "
            "excluded.num_frames, num_rows = excluded.num_rows, num_failed = excluded.num_failed, "
            "mark = excluded.mark",
            rows,
        )
    columns = ", ".join(f"missing_{number} = ?" for number in range(len(parts)))
    for split in run.splits if columns else ():
        shares = (
            (*_shares(each.num_present[: len(parts)], each.num_frames), split, each.clip_id)
            for each in run.outlines(split)
        )
        database.executemany(f"UPDATE clips SET {columns} WHERE split = ? AND clip_id = ?", shares)
    # A clip of which nothing came is worse than any other.
    database.execute(
        "UPDATE clips SET badness = 1, reasons = ?, measured = mark "
        "WHERE num_rows = 0 AND num_failed > 0",
        (json.dumps([to_json(Message("no frames"))]),),
    )
    _note_parts(database, parts)
    database.execute("COMMIT")


def _note_parts(database: sqlite3.Connection, parts: tuple[str, ...]) -> None:
    database.execute("INSERT OR REPLACE INTO meta VALUES ('parts', ?)", (json.dumps(parts),))


def _measure_run(run: Run, database: sqlite3.Connection) -> None:
    sql = "SELECT clip_no, mark FROM clips WHERE num_rows > 0 AND measured IS NOT mark"
    stale = dict(database.execute(sql).fetchall())

    def stale_clips() -> Iterator[tuple[int, str, PoseClip]]:
        for plan in run.plan_blocks() if stale else ():
            numbers = list(dict.fromkeys(row.clip_no for row in plan.rows))
            if stale.keys().isdisjoint(numbers):
                continue
            for number, clip in zip(numbers, run.read_block(plan).clips, strict=True):
                if number in stale:
                    yield number, stale[number], clip

    _write(database, stale_clips())


def _measure_files(folder: Path, database: sqlite3.Connection) -> None:
    """Measure prepared data: each split is a file."""
    for path in sorted(folder.glob(f"*{PREPARED_ENDING}")):
        split = path.name.removesuffix(PREPARED_ENDING)
        mark = str(path.lstat().st_mtime_ns)
        database.execute("BEGIN")
        clips = []
        for outline in ClipInput(path).outlines():
            parts = get_skeleton(outline.skeleton_name).part_names[:MOST_PARTS]
            clips.append((split, outline.clip_id, outline.num_frames, outline.num_frames, mark))
        database.execute("DELETE FROM clips WHERE split = ? AND mark != ?", (split, mark))
        database.executemany(
            "INSERT OR IGNORE INTO clips (split, clip_id, num_frames, num_rows, mark) "
            "VALUES (?, ?, ?, ?, ?)",
            clips,
        )
        if clips:
            _note_parts(database, parts)
        database.execute("COMMIT")
        # A split that was prepared anew has other clips: they are known by name, not by place.
        sql = "SELECT clip_id, clip_no FROM clips WHERE split = ?"
        numbers = dict(database.execute(sql, (split,)))
        _write(database, ((numbers[clip.clip_id], mark, clip) for clip in ClipInput(path).clips()))


def _write(database: sqlite3.Connection, clips: Iterator[tuple[int, str, PoseClip]]) -> None:
    database.execute("BEGIN")
    for count, (number, mark, clip) in enumerate(clips, start=1):
        quality = measure(clip)
        present = [part.num_present for part in quality.parts[:MOST_PARTS]]
        missing = enumerate(_shares(present, quality.num_frames))
        values = {
            "label": clip.label,
            "measured": mark,
            **{name: getattr(quality, name) for name in _MEASURED},
            "reasons": json.dumps([*map(to_json, quality.reasons)]),
            **{f"missing_{index}": share for index, share in missing},
        }
        columns = ", ".join(f"{name} = ?" for name in values)
        database.execute(
            f"UPDATE clips SET {columns} WHERE clip_no = ?", (*values.values(), number)
        )
        if count % _COMMIT_EVERY == 0:
            database.execute("COMMIT")
            database.execute("BEGIN")
    database.execute("COMMIT")


def _shares(present: Sequence[int], num_frames: int) -> list[float]:
    """Return in which share of the frames each part is missing."""
    return [1 - count / max(1, num_frames) for count in present]
