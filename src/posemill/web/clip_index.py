"""A table of all clips of a run, with what is wrong with each: searched, filtered, sorted, paged.

It lies in posemill's cache, not in the run, and is filled by `posemill.web.measuring`, a process of
its own: reading every keypoint of a million frames takes a minute, a page of the table must not.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

from starlette.requests import Request

from posemill.errors import ConfigError, RunError
from posemill.files import cache_folder
from posemill.messages import from_json
from posemill.runs.manifest import LEDGER_NAME
from posemill.runs.queries import read_ledger
from posemill.web.answers import number_of, reason_of, text_of, whole_of
from posemill.web.children import ChildProcess
from posemill.web.library import Entry

MOST_PARTS = 12
VERSION = "1"
_TABLES = f"""
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS clips (
  clip_no INTEGER PRIMARY KEY, split TEXT NOT NULL, clip_id TEXT NOT NULL, label TEXT,
  num_frames INTEGER, num_rows INTEGER NOT NULL DEFAULT 0, num_failed INTEGER NOT NULL DEFAULT 0,
  mark TEXT NOT NULL DEFAULT '', measured TEXT, badness REAL, num_jumps INTEGER,
  num_swaps INTEGER, num_frozen INTEGER, reasons TEXT,
  {", ".join(f"missing_{number} REAL" for number in range(MOST_PARTS))});
CREATE UNIQUE INDEX IF NOT EXISTS by_name ON clips (split, clip_id);
CREATE INDEX IF NOT EXISTS by_badness ON clips (badness DESC);
CREATE INDEX IF NOT EXISTS by_jumps ON clips (num_jumps DESC);
CREATE INDEX IF NOT EXISTS by_failed ON clips (num_failed DESC);
CREATE INDEX IF NOT EXISTS by_label ON clips (label);
"""
_SORTS = {
    "order": "clip_no",
    "name": "clip_id, split",
    "worst": "badness DESC, clip_no",
    "jumps": "num_jumps DESC, clip_no",
    "failed": "num_failed DESC, clip_no",
    "frames": "num_frames DESC, clip_no",
}
_COLUMNS = ("clip_no", "split", "clip_id", "label", "num_frames", "num_rows", "num_failed",
            "badness", "num_jumps", "num_swaps", "num_frozen", "reasons")  # fmt: skip
_MOST_LABELS = 500
_REST_SECONDS = 5.0
_NICENESS = 15


def index_path(entry: Entry) -> Path:
    """Return where the table of a run is, by its folder and its inode: a new run has a new one."""
    about = entry.folder.stat()
    words = f"{VERSION}\0{entry.folder}\0{about.st_dev}\0{about.st_ino}"
    name = hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()[:24]
    return cache_folder() / "serve" / f"{name}.sqlite"


def open_index(path: Path) -> sqlite3.Connection:
    """Return the table; made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path, timeout=60)
    database.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;" + _TABLES)
    return database


class ClipTables:
    """The tables of all runs. A process fills them, one run after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child = ChildProcess("measuring", niceness=_NICENESS)
        self._filling: dict[Path, Future[None]] = {}
        self._ended_at: dict[Path, float] = {}

    def page(self, entry: Entry, request: Request) -> dict[str, Any]:
        """Return the clips that an address asks for, how many there are, and were measured.

        It may name a `split`, a `label`, what to `search` in the ids, a `part` of which at least
        `missing`, a share, is missing, the least number of `jumps`, and `failed`.
        """
        path = index_path(entry)
        offset = whole_of(request, "offset", 0, most=1 << 40)
        limit = whole_of(request, "limit", 50, least=1, most=200)
        filling = self._fill_if_due(entry, path)
        is_measuring = filling is not None and not filling.done()
        with closing(open_index(path)) as database:
            meta = _meta(database)
            if "parts" not in meta:
                error = filling.exception() if filling is not None and not is_measuring else None
                reason = "" if error is None else reason_of(error)
                return {"clips": [], "total": 0, "is_ready": False, "reason": reason}
            parts = json.loads(meta["parts"])[:MOST_PARTS]
            where, values = _where(request, parts)
            order = _order(request, parts)
            columns = ", ".join([*_COLUMNS, *(f"missing_{n}" for n in range(len(parts)))])
            rows = database.execute(
                f"SELECT {columns} FROM clips {where} ORDER BY {order} LIMIT ? OFFSET ?",
                (*values, limit, offset),
            ).fetchall()
            (total,) = database.execute(f"SELECT count(*) FROM clips {where}", values).fetchone()
            counts = database.execute("SELECT count(measured), count(*) FROM clips").fetchone()
        return {
            "clips": [_clip(row, parts) for row in rows],
            "total": total,
            "parts": parts,
            "num_measured": counts[0],
            "num_clips": counts[1],
            "is_measuring": is_measuring,
            "is_ready": True,
        }

    def choices(self, entry: Entry) -> dict[str, Any]:
        """Return the splits and the labels there are, with numbers of clips."""
        with closing(open_index(index_path(entry))) as database:
            splits = database.execute("SELECT split, count(*) FROM clips GROUP BY split")
            labels = database.execute(
                "SELECT label, count(*) FROM clips WHERE label IS NOT NULL GROUP BY label "
                "ORDER BY count(*) DESC, label LIMIT ?",
                (_MOST_LABELS,),
            )
            return {"splits": splits.fetchall(), "labels": labels.fetchall()}

    def _fill_if_due(self, entry: Entry, path: Path) -> Future[None] | None:
        """Return the last filling of a table: a new one if it is not of now, and had its rest."""
        from posemill.web.measuring import fill

        with self._lock:
            filling = self._filling.get(path)
            rested = time.monotonic() - self._ended_at.get(path, -_REST_SECONDS)
            is_busy = filling is not None and not filling.done()
            if is_busy or rested < _REST_SECONDS:
                return filling
            with closing(open_index(path)) as database:
                if _meta(database).get("mark") == mark_of(entry.folder):
                    return filling
            filling = self._filling[path] = self._child.submit(fill, entry.folder, path)
            filling.add_done_callback(lambda _: self._ended_at.update({path: time.monotonic()}))
            return filling

    def close(self) -> None:
        """End what measures."""
        self._child.close()


def mark_of(folder: Path) -> str:
    """Return what changes whenever clips of a run do."""
    if not (folder / LEDGER_NAME).exists():
        paths = sorted(folder.glob("*.npz"))
        return json.dumps([(path.name, path.lstat().st_mtime_ns) for path in paths])
    with read_ledger(folder) as database:
        pieces = database.execute("SELECT count(*), max(piece_no) FROM pieces").fetchone()
        failures = database.execute("SELECT count(*), max(failure_no) FROM failures").fetchone()
    return json.dumps([pieces, failures])


def _meta(database: sqlite3.Connection) -> dict[str, str]:
    return dict(database.execute("SELECT key, value FROM meta"))


def _where(request: Request, parts: Sequence[str]) -> tuple[str, list[Any]]:
    pattern = re.sub(r"([\\%_])", r"\\\1", text_of(request, "search"))
    part, missing = text_of(request, "part"), number_of(request, "missing", 0, most=1)
    conditions: dict[str, Any] = {
        "split = ?": text_of(request, "split"),
        "label = ?": text_of(request, "label"),
        "clip_id LIKE ? ESCAPE '\\'": f"%{pattern}%" if pattern else "",
        "num_jumps >= ?": whole_of(request, "jumps", 0, most=1 << 30),
        "num_failed >= ?": int(text_of(request, "failed") == "1"),
    }
    if part and missing > 0:
        conditions[f"missing_{_number_of(part, parts)} >= ?"] = missing
    asked = {condition: value for condition, value in conditions.items() if value}
    return (f"WHERE {' AND '.join(asked)}" if asked else ""), [*asked.values()]


def _order(request: Request, parts: Sequence[str]) -> str:
    sort, part = text_of(request, "sort", "worst"), text_of(request, "part")
    if sort == "missing" and part:
        return f"missing_{_number_of(part, parts)} DESC, clip_no"
    if sort == "missing":
        shares = [f"coalesce(missing_{number}, 0)" for number in range(len(parts))]
        return f"max({', '.join(['0', '0', *shares])}) DESC, clip_no"
    if sort not in _SORTS:
        raise ConfigError("sort: expected one of {names}", names=", ".join([*_SORTS, "missing"]))
    return _SORTS[sort]


def _number_of(part: str, parts: Sequence[str]) -> int:
    if part not in parts:
        template = "no part {part!r}; there are {parts}"
        raise RunError(template, part=part[:80], parts=", ".join(parts))
    return list(parts).index(part)


def _clip(row: Sequence[Any], parts: Sequence[str]) -> dict[str, Any]:
    clip = dict(zip(_COLUMNS, row, strict=False))
    clip["reasons"] = [from_json(reason) for reason in json.loads(clip["reasons"] or "[]")]
    return {**clip, "missing": dict(zip(parts, row[len(_COLUMNS) :], strict=True))}
