"""Fills the table of a run's clips, see `clip_index`, in a process of its own."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from posemill.clips.inputs import ClipInput, ClipName
from posemill.files import folder_kind
from posemill.inspection.quality import measure
from posemill.messages import Message, to_json
from posemill.records import PoseClip
from posemill.runs.queries import read_ledger
from posemill.runs.reader import open_run
from posemill.skeletons import get_skeleton
from posemill.web.clip_index import MOST_PARTS, mark_of, open_index
from posemill.web.library import prepared_files

_COMMIT_EVERY = 200  # clips
_MEASURED = ("badness", "num_jumps", "num_swaps", "num_frozen")


def fill(folder: Path, path: Path) -> None:
    """Bring the table to what is there now: list all clips, then measure those that changed."""
    with closing(open_index(path)) as database:
        mark, is_run = mark_of(folder), folder_kind(folder) == "extraction"
        (list_run if is_run else _list_files)(folder, database)
        database.commit()
        rows = database.execute(
            "SELECT split, clip_id, mark FROM clips WHERE num_rows > 0 AND measured IS NOT mark"
        )
        stale = {(split, clip_id): clip_mark for split, clip_id, clip_mark in rows}
        clips = (_clips_of_run if is_run else _clips_of_files)(folder, stale)
        _measure(clips, stale, database)
        database.execute("INSERT OR REPLACE INTO meta VALUES ('mark', ?)", (mark,))
        database.commit()


def list_run(folder: Path, database: sqlite3.Connection) -> None:
    """Copy what the records of a run say of its clips."""
    with read_ledger(folder) as ledger:
        rows = ledger.execute(
            "SELECT split, clip_id, num_frames, coalesce(rows, 0), coalesce(lost, 0), "
            "coalesce(rows, 0) || ':' || coalesce(last, 0) FROM clips "
            "LEFT JOIN (SELECT clip_no, sum(num_rows) AS rows, max(piece_no) AS last FROM pieces "
            "GROUP BY clip_no) USING (clip_no) "
            "LEFT JOIN (SELECT clip_no, sum(max(num_frames, 1)) AS lost FROM failures "
            "GROUP BY clip_no) USING (clip_no) ORDER BY clip_no"
        )
        _list(rows, open_run(folder).skeleton_name, database)
    # A clip of which nothing came is worse than any other.
    database.execute(
        "UPDATE clips SET badness = 1, reasons = ?, measured = mark "
        "WHERE num_rows = 0 AND num_failed > 0",
        (json.dumps([to_json(Message("no frames"))]),),
    )


def _list_files(folder: Path, database: sqlite3.Connection) -> None:
    """List the clips of prepared data: each split is a file."""
    for split, path in prepared_files(folder).items():
        mark = str(path.lstat().st_mtime_ns)
        outlines = list(ClipInput(path).outlines())
        rows = (
            (split, each.clip_id, each.num_frames, each.num_frames, 0, mark) for each in outlines
        )
        _list(rows, outlines[0].skeleton_name, database)
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


def _clips_of_run(folder: Path, stale: Collection[ClipName]) -> Iterator[PoseClip]:
    run = open_run(folder)
    for plan in run.plan_blocks() if stale else ():
        if not set(plan.names).isdisjoint(stale):
            yield from run.read_block(plan).clips


def _clips_of_files(folder: Path, stale: Collection[ClipName]) -> Iterator[PoseClip]:
    stale_splits = {split for split, _ in stale}
    for split, path in prepared_files(folder).items():
        if split in stale_splits:
            yield from (replace(clip, split=split) for clip in ClipInput(path).clips())


def _measure(
    clips: Iterable[PoseClip], stale: Mapping[ClipName, str], database: sqlite3.Connection
) -> None:
    stale_clips = (clip for clip in clips if (clip.split, clip.clip_id) in stale)
    for count, clip in enumerate(stale_clips, start=1):
        name = (clip.split, clip.clip_id)
        quality = measure(clip)
        parts = enumerate(quality.parts[:MOST_PARTS])
        values = {
            "label": clip.label,
            "measured": stale[name],
            **{name: getattr(quality, name) for name in _MEASURED},
            "reasons": json.dumps([*map(to_json, quality.reasons)]),
            **{f"missing_{n}": 1 - part.num_present / max(1, len(clip)) for n, part in parts},
        }
        columns = ", ".join(f"{name} = ?" for name in values)
        sql = f"UPDATE clips SET {columns} WHERE split = ? AND clip_id = ?"
        database.execute(sql, (*values.values(), *name))
        if count % _COMMIT_EVERY == 0:
            database.commit()
