from __future__ import annotations

import copy

import torch
from torch import nn

from posemill.training.loop.stepping import checkpoint_blocks


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.GELU(), nn.Dropout(0.5))
            for _ in range(3)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x


def run(model: nn.Module) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model(torch.randn(8, 4)).square().sum().backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def test_a_copy_computes_with_its_own_weights():
    model = Blocks()
    checkpoint_blocks(model)
    twin = copy.deepcopy(model)
    assert checkpoint_blocks(twin) == 3
    expected = run(copy.deepcopy(twin))
    with torch.no_grad():
        for weights in model.parameters():
            weights.zero_()
    for one, other in zip(expected, run(twin), strict=True):
        torch.testing.assert_close(one, other)
    assert all(weights.grad is None for weights in model.parameters())


def test_blocks_are_computed_twice_in_training_and_once_in_evaluation():
    model = Blocks()
    calls: list[int] = []
    first = model.blocks[0]
    first[0].register_forward_hook(lambda *_: calls.append(1))
    checkpoint_blocks(model)
    run(model)
    assert len(calls) == 2
    model.eval()
    run(model)
    assert len(calls) == 3


def test_stages_of_a_sequential_are_blocks_and_plain_layers_are_not():
    stages = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Linear(2, 2))
    assert checkpoint_blocks(stages) == 1
    assert checkpoint_blocks(nn.Sequential(nn.Linear(2, 2), nn.ReLU())) == 0
