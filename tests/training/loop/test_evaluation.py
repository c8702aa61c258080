from __future__ import annotations

from typing import Any

import pytest
import torch

from posemill.training.config.train_config import TrainConfig
from posemill.training.data.loaders import EpochLoader
from posemill.training.loop.passes import evaluate_split
from posemill.training.runtime import Runtime
from posemill.training.tasks.workload import build_workload


def test_scores_are_of_all_samples_whatever_the_batches(settings):
    config = TrainConfig(**settings(batch_size=3, micro_batch=3))
    workload = build_workload(config)
    workload.model.train()
    split = workload.val

    def evaluate(batch: int) -> Any:
        loader = EpochLoader(
            split, config.replace(batch_size=batch, micro_batch=batch), Runtime(), shuffle=False
        )
        return evaluate_split(workload, loader, Runtime())

    found = evaluate(3)  # 8 samples: 3, 3 and 2
    assert [row.sample for row in found.rows] == list(range(8))
    whole = evaluate(8)
    assert found.scores == pytest.approx(whole.scores, abs=1e-6)
    workload.model.eval()
    (batch,) = EpochLoader(
        split, config.replace(batch_size=8, micro_batch=8), Runtime(), shuffle=False
    ).batches()
    with torch.no_grad():
        total, count = workload.task.loss(workload.task.call(workload.model, batch), batch)
    assert found.scores["loss"] == pytest.approx(float(total) / float(count), abs=1e-6)
    assert 0 <= found.scores["accuracy"] <= 1
