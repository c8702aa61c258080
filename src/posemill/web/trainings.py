"""A training in detail: curves, where the time goes, what was confused; and sweeps as tables."""

from __future__ import annotations

import csv
import io
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from posemill.errors import PosemillError
from posemill.files import open_plain
from posemill.machine.live_files import last_lines
from posemill.training.config.resolve import read_config
from posemill.training.record.live import LOG_NAME, read_object
from posemill.training.record.run_folder import RunFolder
from posemill.training.runs.status import read_sweep_status, read_train_status
from posemill.web.library import Entry, Library

_MOST_POINTS = 800  # of a curve
_MOST_BYTES = 1 << 26  # of predictions.csv
_MOST_CLASSES = 400
_LOG_LINES = 200
_NO_SCORES = ("event", "step", "epoch", "loss")


def describe_training(entry: Entry, library: Library) -> dict[str, Any]:
    """Return all that the page of a training shows."""
    folder = entry.folder
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
    """Return the clips of a cell of the matrix, by the columns that are not None.

    The surest come first.
    """
    wanted = {(name, value) for name, value in cell.items() if value is not None}
    rows = [row for row in read_predictions(folder) if wanted <= row.items()]
    return sorted(rows, key=lambda row: -_score_of(row))[:limit]


def _score_of(row: Mapping[str, str]) -> float:
    with suppress(ValueError):
        return float(row.get("score") or 0)
    return 0.0


def describe_sweep(entry: Entry, library: Library) -> dict[str, Any]:
    """Return a row for each training of a sweep, with the key of its page."""
    status = read_sweep_status(entry.folder)
    keys = {each.folder: each.key for each in library.entries() if each.kind == "training"}
    return {
        "command": status.next_command(),
        "trainings": [
            {**row, "key": keys.get(entry.folder / str(row["job"]) / "run", "")}
            for row in status.trainings
        ],
        "log": list(status.last_lines),
    }
