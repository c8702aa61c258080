"""`predictions.csv` and `samples.csv`: what a training said of each clip at its end."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from posemill.files import atomic_path
from posemill.training.data.clips import Clips
from posemill.training.loop.evaluation import Evaluation
from posemill.training.tasks.task import Row
from posemill.training.tasks.workload import Workload

COLUMNS = ("split", "clip_id", "label", "predicted", "score")


def write_predictions(path: Path, workload: Workload, results: Mapping[str, Evaluation]) -> None:
    """Write what was said of the clips of all splits; nothing where they have no names."""
    rows = [
        (name, *row)
        for name, result in results.items()
        if (clips := workload.tests.get(name, workload.val)) is not None
        for row in _rows(clips, result.rows, workload)
    ]
    if rows:
        _write_rows(path, [COLUMNS, *rows])


def write_samples(path: Path, workload: Workload, results: Mapping[str, Evaluation]) -> None:
    """Write the metrics of `fit` that have a value for each sample of the first split."""
    first = next(iter(results.values()), None)
    rows = workload.task.sample_values(first.rows) if first else []
    if rows:
        _write_rows(path, [list(rows[0]), *(row.values() for row in rows)])


def _write_rows(path: Path, rows: Iterable[Iterable[Any]]) -> None:
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def _rows(
    clips: Clips, rows: Sequence[Row], workload: Workload
) -> Iterator[tuple[str, str, str, str]]:
    """Yield id, true label, predicted label and its probability (empty for sequences)."""
    if not clips.keys:
        return
    for row in rows:
        words = workload.task.describe(row, workload.class_names)
        chance = "" if words.chance is None else f"{words.chance:.4f}"
        yield clips.keys[row.sample][1], words.true, words.said, chance
