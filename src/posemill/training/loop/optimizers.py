"""Optimizers, and the moving average of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from posemill.training.config.train_config import TrainConfig

_ZERO_DECAY_MAX_DIMS = 1  # biases and the scales of norms


def build_optimizer(
    model: nn.Module, config: TrainConfig, device: torch.device
) -> torch.optim.Optimizer:
    """Return the optimizer, without weight decay on biases and norms, fused where torch has it."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    decayed = [parameter for parameter in trained if parameter.ndim > _ZERO_DECAY_MAX_DIMS]
    plain = [parameter for parameter in trained if parameter.ndim <= _ZERO_DECAY_MAX_DIMS]
    groups = [
        {"params": parameters, "weight_decay": decay}
        for parameters, decay in ((decayed, config.weight_decay), (plain, 0.0))
        if parameters
    ]
    options: dict[str, Any] = {"lr": config.lr}
    if all(parameter.is_floating_point() for parameter in trained):
        options["fused"] = device.type in ("cpu", "cuda")
    if config.optimizer == "sgd":
        return torch.optim.SGD(
            groups, momentum=config.momentum, nesterov=config.momentum > 0, **options
        )
    factory = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return factory(groups, **options)


class WeightAverage:
    """An exponential moving average of a model's trained weights.

    The decay is warmed up, min(decay, (1 + n) / (10 + n)), so that the random first weights are
    forgotten within the first epochs.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self.names = [name for name, _ in named]
        self._live = [parameter for _, parameter in named]
        self.shadow: list[Tensor] = [parameter.detach().clone() for parameter in self._live]

    def named(self) -> dict[str, Tensor]:
        """Return the averages by the names of the weights."""
        return dict(zip(self.names, self.shadow, strict=True))

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Move the average towards the weights after optimizer step `step` (from 0)."""
        weight = 1 - min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.shadow, [live.detach() for live in self._live], weight)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the model hold the average inside the block; the trained weights come back after."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for index, live in enumerate(self._live):
            self.shadow[index], live.data = live.data, self.shadow[index]
