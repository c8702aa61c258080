from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from posemill.training.config.train_config import TrainConfig
from posemill.training.fitting.workload import make_user_workload


class Samples(list[tuple[torch.Tensor, torch.Tensor]]):
    """Pairs that know how long they are."""

    lengths = (5, 7)


PAIRS = Samples((torch.tensor([x]), torch.tensor(x + 1)) for x in (1.0, 3.0))


def make(model: Any, data: Any, **options: Any) -> Any:
    return make_user_workload(model, data, TrainConfig(), **{"loss": nn.MSELoss()} | options)


def test_the_first_metric_chooses_unless_another_is_named():
    metrics = {"a": torch.dist, "b": (torch.dist, "min")}
    model, data = nn.Linear(1, 1), (PAIRS, PAIRS)
    assert make(model, data, metrics=metrics).task.main == "a"
    task = make(model, data, metrics=metrics, choose_by="b").task
    assert (task.main, task.higher_is_better) == ("b", False)
    assert make(model, data, metrics=metrics, choose_by="loss").task.main == "loss"
    with pytest.raises(ValueError, match="choose_by: expected one of a, b, loss, got 'c'"):
        make(model, data, metrics=metrics, choose_by="c")
    with pytest.raises(ValueError, match="metrics are of the val_set: give one, or leave a, b out"):
        make(model, (PAIRS, None), metrics=metrics)


def test_what_is_no_model_and_no_loss_is_named():
    with pytest.raises(TypeError, match=r"model: expected a torch.nn.Module, got str"):
        make("resnet", (PAIRS, None))
    with pytest.raises(TypeError, match="loss: expected a function, got str"):
        make(nn.Linear(1, 1), (PAIRS, None), loss="mse")
    with pytest.raises(ValueError, match="expected weights to train, got none"):
        make(nn.ReLU(), (PAIRS, None))
