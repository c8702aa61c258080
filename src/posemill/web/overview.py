"""The rows of the first page: what each run is, how far, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from posemill.files import PREPARED_ENDING
from posemill.jobs.extract.status import read_status
from posemill.training.record.live import read_object
from posemill.training.runs.status import read_sweep_status, read_train_status
from posemill.web.answers import READ_ERRORS, reason_of
from posemill.web.library import Entry, Kind

_STATS = ("num_clips", "num_frames", "options", "parts", "skeleton")


def extraction_row(folder: Path) -> dict[str, Any]:
    """Return how far an extraction is."""
    status = read_status(folder)
    return {
        "state": status.state,
        "what": status.manifest.kind,
        "engine": status.manifest.extraction.get("engine") or "",
        "skeleton": status.manifest.skeleton_name,
        "created_at": status.manifest.created_at,
        "finished_at": status.finished_at,
        "done": status.frames_done,
        "total": status.frames_known,
        "clips": sum(each.num_clips for each in status.counts),
        "rate": status.frames_per_second,
        "seconds_left": status.seconds_left,
        "frames_failed": status.frames_failed,
        "clips_failed": status.clips_failed,
    }


def training_row(folder: Path) -> dict[str, Any]:
    """Return how far a training is."""
    status = read_train_status(folder)
    return {
        "state": status.state,
        "created_at": status.started_at,
        "done": status.step,
        "total": status.total_steps,
        "epoch": status.epoch,
        "epochs": status.epochs,
        "rate": status.samples_per_second if status.state == "running" else None,
        "seconds_left": status.seconds_left,
        "score": status.chosen_by,
        "best": status.best,
        "scores": status.scores,
    }


def sweep_row(folder: Path) -> dict[str, Any]:
    """Return how far a sweep is."""
    status = read_sweep_status(folder)
    states = [row["state"] for row in status.trainings]
    return {
        "state": status.state,
        "done": states.count("done"),
        "total": len(states),
        "failed": states.count("failed"),
    }


def prepared_row(folder: Path) -> dict[str, Any]:
    """Return what prepared data holds, by its statistics."""
    splits = []
    for path in sorted(folder.glob(f"*{PREPARED_ENDING}")):
        split = path.name.removesuffix(PREPARED_ENDING)
        stats = read_object(folder / f"{split}_stats.json")
        facts = {name: stats.get(name) for name in _STATS}
        splits.append({"split": split, "num_bytes": path.lstat().st_size, **facts})
    clips, frames = ([split[name] for split in splits] for name in ("num_clips", "num_frames"))
    return {
        "state": "finished",
        "splits": splits,
        "clips": None if None in clips else sum(clips),
        "total": None if None in frames else sum(frames),
        "skeleton": next((split["skeleton"] for split in splits if split["skeleton"]), ""),
    }


_READERS: dict[Kind, Callable[[Path], dict[str, Any]]] = {
    "extraction": extraction_row,
    "training": training_row,
    "sweep": sweep_row,
    "prepared": prepared_row,
}


def row_of(entry: Entry) -> dict[str, Any]:
    """Return the row of a run; one that cannot be read says why."""
    row = {"key": entry.key, "kind": entry.kind, "name": entry.name, "folder": str(entry.folder)}
    try:
        return row | _READERS[entry.kind](entry.folder)
    except READ_ERRORS as error:
        return {**row, "state": "broken", "reason": reason_of(error)}
