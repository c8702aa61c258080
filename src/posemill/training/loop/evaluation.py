"""Scores of a split: every process takes its share, and all learn the result."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch

from posemill.training.data.clips import Loader
from posemill.training.precision import as_float
from posemill.training.runtime import Runtime
from posemill.training.tasks.task import Row
from posemill.training.tasks.workload import Workload


@dataclass(frozen=True)
class Evaluation:
    """Scores of a split and the rows they came from, by index.

    Args:
        scores: `loss`, unless there is none for any sample, and those of the task.
        rows: What the model said of each sample, sorted by index.
    """

    scores: dict[str, float]
    rows: list[Row]


@torch.no_grad()
def evaluate_split(
    workload: Workload,
    loader: Loader,
    runtime: Runtime,
) -> Evaluation:
    """Return the scores of a split with the model's weights as they are.

    Args:
        workload: Model (on its device) and task.
        loader: Batches of a split, this process's share.
        runtime: This process, of those that share the work.
    """
    model, task = workload.model, workload.task
    rows: list[Row] = []
    loss_sum, count = 0.0, 0.0
    was_training = model.training
    model.eval()
    for batch in loader.batches():
        moved = batch.to(runtime.device, non_blocking=True)
        with runtime.autocast():
            output: Any = task.call(model, moved)
        output = as_float(output)
        one_loss, one_count = task.loss(output, moved)
        loss_sum += float(one_loss)
        count += float(one_count)
        rows += task.observe(output, moved)
    model.train(was_training)
    loss_sum, count = runtime.sum([loss_sum, count])
    rows = sorted((row for part in runtime.gather(rows) for row in part), key=attrgetter("sample"))
    scores = {"loss": loss_sum / count} if count else {}  # no clip that a loss can be told of
    return Evaluation(scores | task.score(rows), rows)
