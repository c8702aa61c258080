"""What the page shows of a run: its row on the first page, and all of it on its own."""

from __future__ import annotations

import csv
import io
import math
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from posemill.config import ExtractConfig
from posemill.errors import PosemillError
from posemill.files import FolderKind, open_plain
from posemill.jobs.extract.status import log_path, read_status
from posemill.machine.live_files import last_lines, read_live
from posemill.messages import Message
from posemill.runs.manifest import LEDGER_NAME, Manifest
from posemill.runs.queries import read_ledger
from posemill.training.config.resolve import read_config
from posemill.training.record.live import LOG_NAME, read_object
from posemill.training.record.run_folder import RunFolder
from posemill.training.runs.status import read_sweep_status, read_train_status
from posemill.web.answers import READ_ERRORS, reason_of
from posemill.web.library import Entry, Library, prepared_files

_STATS = {"num_clips": int, "num_frames": int, "options": dict, "parts": dict, "skeleton": str}
_LOG_LINES = 200
_SPEED_LINES = 20_000  # of the log, one a minute: two weeks
_FILES_NAMED = 50  # of each reason
_SPEED = re.compile(r"(\S+) progress: (\d+)/(\d+) frames.*?, ([\d.]+) frames/s")
_MEAN = re.compile(r"\S+ finished: .*?, ([\d.]+) frames/s")
_MOST_POINTS = 800  # of a curve
_MOST_BYTES = 1 << 26  # of predictions.csv
_MOST_CLASSES = 400
_NO_SCORES = ("event", "step", "epoch", "loss")


def _extraction_row(folder: Path) -> dict[str, Any]:
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


def _training_row(folder: Path) -> dict[str, Any]:
    status = read_train_status(folder)
    return {
        "state": status.state,
        "created_at": status.started_at,
        "done": status.step,
        "total": status.total_steps,
        "epoch": status.epoch,
        "epochs": status.epochs,
        "rate": status.samples_per_second,
        "seconds_left": status.seconds_left,
        "score": status.chosen_by,
        "best": status.best,
        "scores": status.scores,
    }


def _sweep_row(folder: Path) -> dict[str, Any]:
    status = read_sweep_status(folder)
    states = [row["state"] for row in status.trainings]
    return {
        "state": status.state,
        "done": states.count("done"),
        "total": len(states),
        "failed": states.count("failed"),
    }


def _prepared_row(folder: Path) -> dict[str, Any]:
    splits = []
    for split, path in prepared_files(folder).items():
        stats = read_object(folder / f"{split}_stats.json")
        # Another maker's may hold anything under these names.
        facts = {
            name: stats[name] if isinstance(stats.get(name), kind) else None
            for name, kind in _STATS.items()
        }
        splits.append({"split": split, "num_bytes": path.lstat().st_size, **facts})
    clips, frames = ([split[name] for split in splits] for name in ("num_clips", "num_frames"))
    return {
        "state": "finished",
        "splits": splits,
        "clips": None if None in clips else sum(clips),
        "total": None if None in frames else sum(frames),
        "skeleton": next((split["skeleton"] for split in splits if split["skeleton"]), ""),
    }


_ROWS: dict[FolderKind, Callable[[Path], dict[str, Any]]] = {
    "extraction": _extraction_row,
    "training": _training_row,
    "sweep": _sweep_row,
    "prepared": _prepared_row,
}


def row_of(entry: Entry) -> dict[str, Any]:
    """Return the row of a run; one that cannot be read says why."""
    row = {"key": entry.key, "kind": entry.kind, "name": entry.name, "folder": str(entry.folder)}
    try:
        return row | _ROWS[entry.kind](entry.folder)
    except READ_ERRORS as error:
        return {**row, "state": "broken", "reason": reason_of(error)}


def describe(entry: Entry, library: Library) -> dict[str, Any]:
    """Return the row of a run, and what else its own page shows."""
    row = row_of(entry)
    if row["state"] == "broken":
        return row
    match entry.kind:
        case "extraction":
            row |= _describe_extraction(entry.folder)
        case "training":
            row |= _describe_training(entry.folder, library)
        case "sweep":
            row |= _describe_sweep(entry.folder, library)
    return row


def _describe_extraction(folder: Path) -> dict[str, Any]:
    """Return speed over time, workers, failures by reason, the log, and how to go on."""
    status = read_status(folder)
    workers = read_live(folder).get("workers") if status.state == "running" else None
    workers = workers if isinstance(workers, list) else []
    arguments, facts = continue_arguments(folder, status.manifest), status.to_json()
    log = last_lines(log_path(folder), _LOG_LINES)
    means = [float(hit[1]) for hit in map(_MEAN.match, log) if hit]
    for failure in facts["reasons"]:
        failure["shown"] = Message(failure["reason"])
    return {
        **facts,
        "workers": [row for row in workers if isinstance(row, dict)],
        "speeds": read_speeds(folder),
        "mean_rate": means[-1] if means and status.state == "finished" else None,
        "log": log,
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
        )
        names = [column[0] for column in rows.description]
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


def _describe_training(folder: Path, library: Library) -> dict[str, Any]:
    """Return curves, where the time goes, what was confused, and what it was made with."""
    status, facts = read_train_status(folder), read_object(folder / "run.json")
    facts.pop("class_names", None)
    config: dict[str, Any] = {}
    with suppress(PosemillError, OSError, ValueError):
        config = read_config(folder / "config.toml")
    data = config.get("data")
    path = data.get("path") if isinstance(data, Mapping) else data
    return {
        "command": status.next_command(),
        "best_step": status.best_step,
        "config": config,
        "facts": facts,
        "data_key": _data_key(path, folder, library),
        "curves": read_curves(folder),
        "log": last_lines(folder / LOG_NAME, _LOG_LINES),
        **_timing(folder),
        **read_confusions(folder),
    }


def _data_key(path: Any, training: Path, library: Library) -> str:
    """Return the key of the data that was trained on, where it is served too.

    A relative path began where the training was started: at the nearest folder above the training
    from which it leads to data. Folders of other projects that end alike are not meant.
    """
    if not isinstance(path, str) or not path:
        return ""
    entries = [entry for entry in library.entries() if entry.kind in ("prepared", "extraction")]
    keys = {entry.folder: entry.key for entry in entries}
    near = (keys.get(Path(os.path.normpath(above / path))) for above in training.parents)
    return next(filter(None, near), "")


def read_curves(folder: Path) -> dict[str, Any]:
    """Return loss, learning rate and scores over the steps, thinned to what a screen shows."""
    rows = RunFolder(folder).read_metrics()
    train = _thin([row for row in rows if row.get("event") == "train"])
    evals = _thin([row for row in rows if row.get("event") == "eval"])
    scores = dict.fromkeys(name for row in evals for name in row if name not in _NO_SCORES)

    def curve(rows: Iterable[Any], name: str) -> list[tuple[Any, float | None]]:
        return [(row["step"], _number(row.get(name))) for row in rows]

    return {
        "loss": curve(train, "loss"),
        "lr": curve(train, "lr"),
        "speed": curve(train, "samples_per_second"),
        "eval_loss": curve((row for row in evals if "loss" in row), "loss"),
        "scores": {name: curve(evals, name) for name in scores},
    }


def _thin(rows: Sequence[Any]) -> Sequence[Any]:
    """Return at most so many rows, evenly spread, the last one among them."""
    step = math.ceil(len(rows) / _MOST_POINTS)
    return rows if step <= 1 else [*rows[::step], rows[-1]]


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def _timing(folder: Path) -> dict[str, Any]:
    """Return where the time went, and what to change about it."""
    from posemill.training.loop.timing import read_evidence
    from posemill.training.tuning.advice import advise_run

    try:
        return {
            "timing_seconds": dict(read_evidence(folder).timing_seconds),
            "advice": [advice.to_json() for advice in advise_run(folder)],
        }
    except (PosemillError, OSError, ValueError, TypeError, LookupError):
        return {"timing_seconds": {}, "advice": []}


def read_predictions(folder: Path) -> list[dict[str, str]]:
    """Return the rows of `predictions.csv`; none where there is no such file."""
    try:
        with os.fdopen(open_plain(folder / "predictions.csv"), "rb") as handle:
            text = handle.read(_MOST_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return []
    rows = csv.DictReader(io.StringIO(text))
    return [{str(key): str(value) for key, value in row.items()} for row in rows]


def read_confusions(folder: Path) -> dict[str, Any]:
    """Return by split how often each class was taken for each other, cells that are not 0 only."""
    rows = read_predictions(folder)
    names = sorted({row.get(column, "") for row in rows for column in ("label", "predicted")})
    if not rows or len(names) > _MOST_CLASSES:  # sentences are no classes
        return {"classes": [], "confusions": {}}
    place = {name: index for index, name in enumerate(names)}
    cells: dict[str, list[tuple[int, int, int]]] = {}
    columns = ("split", "label", "predicted")
    pairs = Counter(tuple(row.get(column, "") for column in columns) for row in rows)
    for (split, label, predicted), count in pairs.items():
        cells.setdefault(split, []).append((place[label], place[predicted], count))
    return {"classes": names, "confusions": cells}


def choose_predictions(
    folder: Path, cell: Mapping[str, str | None], limit: int
) -> list[dict[str, str]]:
    """Return the clips of a cell of the matrix, by columns that are not None, the surest first."""
    wanted = {(name, value) for name, value in cell.items() if value is not None}
    rows = [row for row in read_predictions(folder) if wanted <= row.items()]
    return sorted(rows, key=lambda row: -_score_of(row))[:limit]


def _score_of(row: Mapping[str, str]) -> float:
    with suppress(ValueError):
        return float(row.get("score") or 0)
    return 0.0


def _describe_sweep(folder: Path, library: Library) -> dict[str, Any]:
    """Return a row for each training of a sweep, with the key of its page."""
    status = read_sweep_status(folder)
    keys = {each.folder: each.key for each in library.entries() if each.kind == "training"}
    return {
        "command": status.next_command(),
        "trainings": [
            {**row, "key": keys.get(folder / str(row["job"]) / "run", "")}
            for row in status.trainings
        ],
        "log": list(status.last_lines),
    }
