from __future__ import annotations

import pytest
import torch
from torch import nn

from posemill.training.config.train_config import TrainConfig
from posemill.training.loop.optimizers import WeightAverage, build_optimizer

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("adamw", torch.optim.AdamW), ("adam", torch.optim.Adam), ("sgd", torch.optim.SGD)],
)
def test_biases_and_norms_are_not_decayed(name: str, kind: type) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    optimizer = build_optimizer(model, TrainConfig(optimizer=name, weight_decay=0.5), CPU)
    assert type(optimizer) is kind
    decayed, plain = optimizer.param_groups
    assert [p.ndim for p in decayed["params"]] == [2]
    assert [p.ndim for p in plain["params"]] == [1, 1, 1]
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.5, 0.0)
    assert decayed["fused"]


def test_frozen_weights_are_left_out() -> None:
    model = nn.Linear(2, 2)
    model.bias.requires_grad_(False)
    groups = build_optimizer(model, TrainConfig(), CPU).param_groups
    assert [len(group["params"]) for group in groups] == [1]


def test_the_average_follows_the_weights_and_gives_them_back() -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    average = WeightAverage(model, 0.5)
    nn.init.ones_(model.weight)
    average.update(0)  # warmed up: min(0.5, 1 / 10)
    average.update(100)  # 0.5
    expected = 0.9 * 0.5 + 0.5
    with average.in_place():
        assert model.weight.item() == pytest.approx(expected)
    assert model.weight.item() == 1
    assert average.shadow[0].item() == pytest.approx(expected)
