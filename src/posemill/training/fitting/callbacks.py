"""What a user's callbacks are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from posemill.training.loop.stepping import Stepper


@dataclass(frozen=True)
class Moment:
    """A moment of a training, for `on_step`, `on_evaluate` and `on_epoch`.

    Args:
        step: Optimizer steps taken.
        epoch: Epochs completed; in `on_step` those before this one.
        model: With its present weights, on its device.
        optimizer: What takes the steps.
        lr: Learning rate of the last step, of the first group.
        scores: Of the validation set; empty but in `on_evaluate`.
        is_first: True in the one process that should write files.
        out: Folder of the run.
    """

    step: int
    epoch: int
    model: nn.Module
    optimizer: Any
    lr: float
    is_first: bool
    out: Path
    _stepper: Stepper = field(repr=False)
    scores: Mapping[str, float] = field(default_factory=dict)

    @property
    def loss(self) -> float:
        """Mean loss of the last step, over all processes; reading it waits for the device."""
        return self._stepper.last_loss()
