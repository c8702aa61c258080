"""An extraction in detail: splits, speed over time, workers, failures by reason, how to go on."""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

from posemill.config import ExtractConfig
from posemill.errors import PosemillError
from posemill.jobs.extract.status import log_path, read_status
from posemill.machine.live_files import last_lines, read_live
from posemill.messages import Message
from posemill.runs.manifest import LEDGER_NAME, Manifest
from posemill.runs.queries import read_ledger

_LOG_LINES = 200
_SPEED_LINES = 20_000  # of the log, one a minute: two weeks
_FILES_NAMED = 50  # of each reason
_SPEED = re.compile(r"(\S+) progress: (\d+)/(\d+) frames.*?, ([\d.]+) frames/s")


def describe_extraction(folder: Path) -> dict[str, Any]:
    """Return what the page of an extraction shows beside its row and the files that failed."""
    status = read_status(folder)
    workers = read_live(folder).get("workers") if status.state == "running" else None
    workers = workers if isinstance(workers, list) else []
    arguments, facts = continue_arguments(folder, status.manifest), status.to_json()
    for failure in facts["reasons"]:
        failure["shown"] = Message(failure["reason"])
    return {
        **facts,
        "workers": [row for row in workers if isinstance(row, dict)],
        "speeds": read_speeds(folder),
        "log": last_lines(log_path(folder), _LOG_LINES),
        "manifest": asdict(status.manifest),
        "command": shlex.join(["posemill", *arguments]) if arguments else "",
    }


def read_speeds(folder: Path) -> list[tuple[str, int, float]]:
    """Return time, frames done and frames a second of every line of progress in the log."""
    hits = map(_SPEED.match, last_lines(log_path(folder), _SPEED_LINES))
    return [(hit[1], int(hit[2]), float(hit[4])) for hit in hits if hit]


def read_failed_files(folder: Path, reason: str) -> list[dict[str, Any]]:
    """Return the first files that failed for a reason."""
    if not (folder / LEDGER_NAME).exists():
        return []
    with read_ledger(folder) as database:
        rows = database.execute(
            "SELECT split, clip_id, frame_index, failures.num_frames, path, message FROM failures "
            "JOIN clips USING (clip_no) WHERE reason = ? LIMIT ?",
            (reason, _FILES_NAMED),
        ).fetchall()
    names = ("split", "clip_id", "frame_index", "num_frames", "path", "message")
    return [dict(zip(names, row, strict=True)) for row in rows]


def continue_arguments(folder: Path, manifest: Manifest) -> list[str]:
    """Return the arguments of `posemill` that go on with a run, by what its manifest says."""
    source, options = manifest.source.get("path"), manifest.options
    if manifest.kind != "extract" or not isinstance(source, str):
        return []
    names = "engine engine_options mode decoder resize fps stride split_long_seconds splits".split()
    chosen = {name: options[name] for name in names if options.get(name) is not None}
    if isinstance(layout := manifest.source.get("layout"), str):
        chosen["layout"] = layout
    try:
        config = ExtractConfig(Path(source), folder, skeleton=manifest.skeleton_name, **chosen)
    except (PosemillError, TypeError, ValueError):
        return []
    return ["extract", *config.to_arguments()]
