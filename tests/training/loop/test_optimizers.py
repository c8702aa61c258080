from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from posemill.training.config.train_config import TrainConfig
from posemill.training.loop.stepping import WeightAverage, build_optimizer

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "kind", "momentum"),
    [("adamw", torch.optim.AdamW, 0.9), ("adam", torch.optim.Adam, 0.9),
     ("sgd", torch.optim.SGD, 0.0), ("sgd", torch.optim.SGD, 0.5)],
)  # fmt: skip
def test_biases_and_norms_are_not_decayed_and_sgd_looks_ahead_with_momentum(name, kind, momentum):
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    config = TrainConfig(optimizer=name, weight_decay=0.5, momentum=momentum)
    optimizer = build_optimizer(model, config, CPU)
    assert type(optimizer) is kind
    decayed, plain = optimizer.param_groups
    assert [p.ndim for p in decayed["params"]] == [2]
    assert [p.ndim for p in plain["params"]] == [1, 1, 1]
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.5, 0.0)
    assert decayed["fused"]
    if name == "sgd":
        assert (decayed["momentum"], decayed["nesterov"]) == (momentum, momentum > 0)
    for weights in (model[0].bias, *model[1].parameters()):
        weights.requires_grad_(False)
    assert len(build_optimizer(model, config, CPU).param_groups) == 1, "frozen ones are left out"


@pytest.mark.parametrize(("device", "fused"), [("cpu", True), ("cuda", True), ("meta", False)])
def test_the_step_is_fused_where_torch_has_it(device, fused, monkeypatch):
    given: dict[str, Any] = {}
    monkeypatch.setattr(torch.optim, "AdamW", lambda _, **options: given.update(options))
    build_optimizer(nn.Linear(2, 2), TrainConfig(lr=0.3), torch.device(device))
    assert given == {"lr": 0.3, "fused": fused}


def test_the_average_follows_the_weights_and_gives_them_back():
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    average = WeightAverage(model, 0.5)
    nn.init.ones_(model.weight)
    average.update(0)  # warmed up: min(0.5, 1 / 10)
    assert average.shadow["weight"].item() == pytest.approx(0.9)
    average.update(100)  # 0.5
    expected = 0.9 * 0.5 + 0.5
    with average.in_place():
        assert model.weight.item() == pytest.approx(expected)
    assert model.weight.item() == 1
    assert average.shadow["weight"].item() == pytest.approx(expected)
