"""The learning rate as a function of the step: nothing to save, nothing to get out of step."""

from __future__ import annotations

import math
from collections.abc import Callable

from posemill.training.config.train_config import TrainConfig

# One-cycle: the share of the steps that climb, and where the climb begins (Smith and Topin 2018).
_CLIMB = 0.3
_CLIMB_FROM = 1 / 25


def learning_rate(
    config: TrainConfig,
    step: int,
    *,
    total_steps: int,
    epoch_steps: float,
    grid_at: Callable[[int], tuple[float, int]] | None = None,
) -> float:
    """Return the learning rate of optimizer step `step` (from 0).

    Args:
        config: `lr`, `scheduler`, `warmup_epochs`, `final_lr`, `step_epochs`, `step_gamma`.
        step: Steps taken before this one.
        total_steps: Steps of the whole training.
        epoch_steps: Steps of one epoch.
        grid_at: Of a Multigrid training: returns the factor of the learning rate at a step, and
            how often scheduler `step` has lowered it.
    """
    warmup = min(round(config.optimisation.warmup_epochs * epoch_steps), total_steps - 1)
    at = max(step, warmup)
    # From 0 at the end of the warm-up to 1 at the last step.
    done = min(1.0, (at - warmup) / max(1, total_steps - 1 - warmup))
    factor, falls = grid_at(at) if grid_at else (1.0, None)
    rate: float = config.lr * _after_warmup(config, done, at / epoch_steps, falls) * factor
    return rate if step >= warmup else rate * (step + 1) / (warmup + 1)


def _after_warmup(config: TrainConfig, done: float, epoch: float, falls: int | None) -> float:
    """Return the share of `lr` at `done` (0 to 1) of the way, `epoch` epochs from the start."""
    low = config.optimisation.final_lr
    if config.scheduler in ("constant", "plateau"):  # `Trainer` lowers it by the scores
        return 1.0
    if config.scheduler == "linear":
        return 1 - (1 - low) * done
    if config.scheduler == "cosine":
        return _cosine(1.0, low, done)
    if config.scheduler == "step":
        passed = sum(epoch >= at for at in config.step_epochs) if falls is None else falls
        return float(config.step_gamma**passed)
    if done < _CLIMB:
        return _cosine(_CLIMB_FROM, 1.0, done / _CLIMB)
    return _cosine(1.0, low, (done - _CLIMB) / (1 - _CLIMB))


def _cosine(start: float, end: float, done: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * done)) / 2
