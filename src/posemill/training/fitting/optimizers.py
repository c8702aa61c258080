"""A user's own optimizers and schedulers, as one optimizer of the loop."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.optim import LBFGS, Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from posemill.training.config.train_config import TrainConfig
from posemill.training.loop.stepping import build_optimizer
from posemill.training.record.checkpoints import copy_state


class UserOptimizers:
    """Several optimizers that step together, and the schedulers that move their learning rates.

    Schedulers move at the end of each `epoch` or after each `step`; `ReduceLROnPlateau` after each
    evaluation.
    """

    def __init__(
        self, optimizers: list[Optimizer], schedulers: list[Any], scheduler_by: str = "epoch"
    ) -> None:
        self.optimizers, self.schedulers = optimizers, schedulers
        # The groups themselves: who changes a learning rate here changes it there.
        self.param_groups = [group for one in optimizers for group in one.param_groups]
        self._told_scores = [one for one in schedulers if isinstance(one, ReduceLROnPlateau)]
        others = [one for one in schedulers if one not in self._told_scores]
        self._moved_by = {"epoch": [], "step": [], scheduler_by: others}
        self.is_told_scores = bool(self._told_scores)
        self.name = "+".join(type(one).__name__ for one in optimizers)  # for checkpoints

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients."""
        for one in self.optimizers:
            one.zero_grad(set_to_none=set_to_none)

    def step(self) -> None:
        """Take a step with each."""
        for one in [*self.optimizers, *self._moved_by["step"]]:
            one.step()

    def end_epoch(self) -> None:
        """Move the schedulers that go by epochs."""
        for one in self._moved_by["epoch"]:
            one.step()

    def end_evaluation(self, value: float) -> None:
        """Tell `ReduceLROnPlateau` the score that chooses."""
        for one in self._told_scores:
            one.step(value)

    def state_dict(self) -> dict[str, Any]:
        """Return the states of all."""
        parts = {"optimizers": self.optimizers, "schedulers": self.schedulers}
        return {name: [one.state_dict() for one in ones] for name, ones in parts.items()}

    def load_state_dict(self, whole: Mapping[str, Any]) -> None:
        """Put back what `state_dict` returned."""
        pairs = zip(self.optimizers, whole["optimizers"], strict=True)
        for one, state in (*pairs, *zip(self.schedulers, whole["schedulers"], strict=True)):
            one.load_state_dict(state)
        self.param_groups[:] = [group for one in self.optimizers for group in one.param_groups]


def make_optimizer_maker(
    model: nn.Module, optimizer: Any, scheduler: Any, scheduler_by: str
) -> Callable[[nn.Module, TrainConfig, torch.device], UserOptimizers] | None:
    """Return what builds `fit`'s optimizers for a copy of the model; it travels to processes.

    None where the settings name them. What is wrong with them is a `TypeError` or `ValueError`.
    """
    if scheduler_by not in ("epoch", "step"):
        raise ValueError(f"scheduler_by: expected epoch or step, got {scheduler_by!r}")
    if optimizer is None and scheduler is None:
        return None
    is_made = scheduler is not None and not callable(scheduler)
    if is_made and (optimizer is None or callable(optimizer)):
        raise TypeError(
            "scheduler: a scheduler that is made already belongs to an optimizer that is: give "
            "that one too, or a function that builds the scheduler of an optimizer"
        )
    return partial(_build, own=(model, optimizer, scheduler, scheduler_by))


def _build(
    model: nn.Module,
    config: TrainConfig,
    device: torch.device,
    *,
    own: tuple[nn.Module, Any, Any, str],
) -> UserOptimizers:
    """Return the optimizers and schedulers of `own`, for a copy of its model."""
    own_model, optimizer, scheduler, scheduler_by = own
    if optimizer is None:
        optimizer = build_optimizer(model, config, device)
    elif callable(optimizer):
        optimizer = optimizer(model)
    else:
        # Copies whose parameters are those of the model that is trained.
        pairs = zip(own_model.parameters(), model.parameters(), strict=True)
        links = {id(old): new for old, new in pairs}
        optimizer = copy.deepcopy(optimizer, links)
        if not callable(scheduler):
            scheduler = copy.deepcopy(scheduler, links)
            for one in _as_list(scheduler, LRScheduler, "scheduler"):
                # A copy would warn in its first step that it does not know the optimizer's.
                one._step_count = max(2, getattr(one, "_step_count", 2))
    optimizers = _as_list(optimizer, Optimizer, "optimizer")
    if callable(scheduler):
        scheduler = scheduler(optimizers[0] if len(optimizers) == 1 else optimizers)
    schedulers = _as_list(scheduler, LRScheduler, "scheduler")
    _check_optimizers(optimizers, model)
    for one in schedulers:
        if not any(one.optimizer is moved for moved in optimizers):
            raise ValueError(
                f"scheduler: {type(one).__name__} moves another optimizer than the one given"
            )
        _check_saved(one.state_dict(), f"scheduler: the state of {type(one).__name__}")
    return UserOptimizers(optimizers, schedulers, scheduler_by)


def _as_list(value: Any, kind: type, name: str) -> list[Any]:
    found = [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]
    wrong = [type(one).__name__ for one in found if not isinstance(one, kind)]
    if wrong or (not found and name == "optimizer"):
        got = ", ".join(wrong) or "none"
        raise TypeError(
            f"{name}: expected one of torch, several, or a function that returns them, got {got}"
        )
    return found


def _check_optimizers(optimizers: list[Optimizer], model: nn.Module) -> None:
    known = {id(parameter) for parameter in model.parameters()}
    for one in optimizers:
        strange = sum(id(p) not in known for group in one.param_groups for p in group["params"])
        if strange:
            raise ValueError(
                f"optimizer: {strange} parameters of {type(one).__name__} are not of the model; "
                "build it from the parameters of the model that fit() is given"
            )
        if isinstance(one, LBFGS):
            raise ValueError("optimizer: LBFGS calls the loss several times a step, fit() once")
        groups = [{**group, "params": []} for group in one.param_groups]
        _check_saved(groups, f"optimizer: the settings of {type(one).__name__}")


def _check_saved(state: Any, what: str) -> None:
    try:
        copy_state(state)
    except TypeError as error:
        raise ValueError(
            f"{what} cannot be written into a checkpoint ({error}); give plain numbers"
        ) from error
