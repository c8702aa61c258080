"""Fills the table of a run's clips, see `clip_index`, in a process of its own.

First what the records say, which takes a moment; then the clips are read and measured, those that
changed since the last time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

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
ClipName = tuple[str, str]  # split, clip_id


def fill(folder: Path, path: Path) -> None:
    """Bring the table of a run, or of prepared data, to what is there now."""
    with closing(open_index(path)) as database:
        mark = mark_of(folder)
        run = open_run(folder) if folder_kind(folder) == "extraction" else None
        database.execute("BEGIN")
        if run is None:
            _list_files(folder, database)
        else:
            list_run(run, database)
        database.execute("COMMIT")
        rows = database.execute(
            "SELECT split, clip_id, mark FROM clips WHERE num_rows > 0 AND measured IS NOT mark"
        )
        stale = {(split, clip_id): clip_mark for split, clip_id, clip_mark in rows.fetchall()}
        clips = _clips_of_files(folder, stale) if run is None else _clips_of_run(run, stale)
        _measure(clips, stale, database)
        database.execute("INSERT OR REPLACE INTO meta VALUES ('mark', ?)", (mark,))


def list_run(run: Run, database: sqlite3.Connection) -> None:
    """Copy what the records of a run say of its clips."""
    with read_ledger(run.folder) as ledger:
        rows = ledger.execute(
            "SELECT split, clip_id, num_frames, coalesce(rows, 0), coalesce(lost, 0), "
            "coalesce(rows, 0) || ':' || coalesce(last, 0) FROM clips "
            "LEFT JOIN (SELECT clip_no, sum(num_rows) AS rows, max(piece_no) AS last FROM pieces "
            "GROUP BY clip_no) USING (clip_no) "
            "LEFT JOIN (SELECT clip_no, sum(max(num_frames, 1)) AS lost FROM failures "
            "GROUP BY clip_no) USING (clip_no) ORDER BY clip_no"
        )
        _list(rows, run.skeleton_name, database)
    num_parts = len(get_skeleton(run.skeleton_name).part_names[:MOST_PARTS])
    columns = ", ".join(f"missing_{number} = ?" for number in range(num_parts))
    for split in run.splits if columns else ():
        shares = (
            (*_shares(each.num_present[:num_parts], each.num_frames), split, each.clip_id)
            for each in run.outlines(split)
        )
        database.executemany(f"UPDATE clips SET {columns} WHERE split = ? AND clip_id = ?", shares)
    # A clip of which nothing came is worse than any other.
    database.execute(
        "UPDATE clips SET badness = 1, reasons = ?, measured = mark "
        "WHERE num_rows = 0 AND num_failed > 0",
        (json.dumps([to_json(Message("no frames"))]),),
    )


def _list_files(folder: Path, database: sqlite3.Connection) -> None:
    """List the clips of prepared data: each split is a file."""
    for split, path in _splits_of(folder):
        mark, skeleton_name, rows = str(path.lstat().st_mtime_ns), "", list[tuple[Any, ...]]()
        for outline in ClipInput(path).outlines():
            skeleton_name, length = outline.skeleton_name, outline.num_frames
            rows.append((split, outline.clip_id, length, length, 0, mark))
        if rows:
            _list(rows, skeleton_name, database)
        database.execute("DELETE FROM clips WHERE split = ? AND mark != ?", (split, mark))


def _list(
    rows: Iterable[tuple[Any, ...]], skeleton_name: str, database: sqlite3.Connection
) -> None:
    """Note clips, known by split and id: those of a split that was made anew are others."""
    parts = get_skeleton(skeleton_name).part_names[:MOST_PARTS]
    database.execute("INSERT OR REPLACE INTO meta VALUES ('parts', ?)", (json.dumps(parts),))
    database.executemany(
        "INSERT INTO clips (split, clip_id, num_frames, num_rows, num_failed, mark) "
        "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (split, clip_id) DO UPDATE SET num_frames = "
        "excluded.num_frames, num_rows = excluded.num_rows, num_failed = excluded.num_failed, "
        "mark = excluded.mark",
        rows,
    )


def _clips_of_run(run: Run, stale: Mapping[ClipName, str]) -> Iterator[tuple[str, PoseClip]]:
    for plan in run.plan_blocks() if stale else ():
        if not stale.keys().isdisjoint(plan.names):
            yield from ((clip.split, clip) for clip in run.read_block(plan).clips)


def _clips_of_files(folder: Path, stale: Mapping[ClipName, str]) -> Iterator[tuple[str, PoseClip]]:
    stale_splits = {split for split, _ in stale}
    for split, path in _splits_of(folder):
        if split in stale_splits:
            yield from ((split, clip) for clip in ClipInput(path).clips())


def _splits_of(folder: Path) -> list[tuple[str, Path]]:
    paths = sorted(folder.glob(f"*{PREPARED_ENDING}"))
    return [(path.name.removesuffix(PREPARED_ENDING), path) for path in paths]


def _measure(
    clips: Iterator[tuple[str, PoseClip]],
    stale: Mapping[ClipName, str],
    database: sqlite3.Connection,
) -> None:
    database.execute("BEGIN")
    for count, (split, clip) in enumerate(clips, start=1):
        name = (split, clip.clip_id)
        if name not in stale:
            continue
        quality = measure(clip)
        present = [part.num_present for part in quality.parts[:MOST_PARTS]]
        missing = enumerate(_shares(present, quality.num_frames))
        values = {
            "label": clip.label,
            "measured": stale[name],
            **{name: getattr(quality, name) for name in _MEASURED},
            "reasons": json.dumps([*map(to_json, quality.reasons)]),
            **{f"missing_{index}": share for index, share in missing},
        }
        columns = ", ".join(f"{name} = ?" for name in values)
        sql = f"UPDATE clips SET {columns} WHERE split = ? AND clip_id = ?"
        database.execute(sql, (*values.values(), *name))
        if count % _COMMIT_EVERY == 0:
            database.execute("COMMIT")
            database.execute("BEGIN")
    database.execute("COMMIT")


def _shares(present: Sequence[int], num_frames: int) -> list[float]:
    """Return in which share of the frames each part is missing."""
    return [1 - count / max(1, num_frames) for count in present]
