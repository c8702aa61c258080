"""`predictions.csv`: what a training said at its end of each clip, beside what is true."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from posemill.files import atomic_path
from posemill.training.loop.evaluation import Evaluation
from posemill.training.tasks.scorers import ClassScorer, CtcScorer
from posemill.training.tasks.workload import Row, Split, Workload

COLUMNS = ("split", "clip_id", "label", "predicted", "score")


def write_predictions(path: Path, workload: Workload, results: Mapping[str, Evaluation]) -> None:
    """Write what was said of the clips of all splits; nothing where they have no names."""
    rows = [
        (name, *row)
        for name, result in results.items()
        if (split := workload.tests.get(name, workload.val)) is not None
        for row in _rows(split, result.rows, workload.class_names)
    ]
    if not rows:
        return
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(rows)


def _rows(
    split: Split, rows: Sequence[Row], names: Sequence[str]
) -> Iterator[tuple[str, str, str, str]]:
    """Yield id, true label, predicted label and its probability (empty for sequences)."""
    scorer = split.scorer
    if not split.names:
        return
    for index, value in rows:
        clip_id = split.names[index]
        if isinstance(scorer, ClassScorer):
            label, chance = value
            yield clip_id, names[int(scorer.targets[index])], names[label], f"{chance:.4f}"
        elif isinstance(scorer, CtcScorer):
            said = value[scorer.head or next(iter(value))]
            true = " ".join(names[each] for each in scorer.targets[index])
            yield clip_id, true, " ".join(names[each] for each in said), ""
