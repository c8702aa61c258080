"""Scores of a split: every process takes its share, and all learn the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from posemill.training.loop.distributed import World
from posemill.training.loop.precision import Precision, as_float
from posemill.training.tasks.workload import Loader, Row, Split, Workload


@dataclass(frozen=True)
class Evaluation:
    """Scores of a split and the rows they came from, by index.

    Args:
        scores: `loss`, unless there is none for any sample, and those of the split's scorer.
        rows: What the model said of each sample, sorted by index; empty without a scorer.
    """

    scores: dict[str, float]
    rows: list[Row]


@torch.no_grad()
def evaluate_split(
    workload: Workload,
    split: Split,
    loader: Loader,
    *,
    device: torch.device,
    precision: Precision,
    world: World,
) -> Evaluation:
    """Return the scores of a split with the model's weights as they are.

    Args:
        workload: Model (on `device`), forward and loss.
        split: What to score, with its scorer.
        loader: Batches of the split, this process's share.
        device: Where to compute.
        precision: Format of the forward pass.
        world: The processes that share the work.
    """
    model = workload.model
    rows: list[Row] = []
    loss_sum, count = 0.0, 0.0
    was_training = model.training
    model.eval()
    for batch in loader.batches():
        moved = batch.to(device, non_blocking=True)
        with precision.autocast():
            output: Any = workload.forward(model, moved)
        output = as_float(output)
        one_loss, one_count = workload.loss(output, moved)
        loss_sum += float(one_loss)
        count += float(one_count)
        if split.scorer:
            rows += split.scorer.observe(output, moved)
    model.train(was_training)
    loss_sum, count = world.sum([loss_sum, count])
    rows = sorted((row for part in world.gather(rows) for row in part), key=_index_of)
    scores = {"loss": loss_sum / count} if count else {}  # no clip that a loss can be told of
    if split.scorer:
        scores |= split.scorer.score(rows)
    return Evaluation(scores, rows)


def _index_of(row: Row) -> int:
    return row[0]
