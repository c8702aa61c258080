"""Users' own models and data sets as a workload of the engine."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from posemill.training.config.train_config import TrainConfig
from posemill.training.fitting.batches import CallModel, Collate, UserBatch
from posemill.training.fitting.data_sets import ReadData
from posemill.training.fitting.optimizers import make_optimizer_maker
from posemill.training.fitting.scoring import UserScorer, read_metrics
from posemill.training.tasks.workload import Callbacks, Workload

UserLoss = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class FitOptions:
    """What `fit` is given beside model, data and settings; see there."""

    loss: UserLoss
    metric: Any = None
    metrics: Any = None
    choose_by: str = ""
    collate_fn: Collate | None = None
    forward: Callable[[nn.Module, Any], Any] | None = None
    optimizer: Any = None
    scheduler: Any = None
    scheduler_by: str = "epoch"
    steps_per_epoch: int = 0
    callbacks: Callbacks = field(default_factory=Callbacks)
    loggers: tuple[Any, ...] = ()
    draw_sample: Callable[[Any, Any, Any], None] | None = None
    class_names: tuple[str, ...] = ()


class LossOfSum:
    """A user's loss as `(sum over samples, number of samples)`."""

    def __init__(self, loss: UserLoss) -> None:
        self.loss = loss

    def __call__(self, output: Any, batch: UserBatch) -> tuple[Tensor, Tensor | float]:
        """Return the pair; a mean is multiplied by the number of samples."""
        value = self.loss(output, batch.target)
        if isinstance(value, tuple) and len(value) == 2:
            total, count = value
        else:
            total, count = value, None
        if not isinstance(total, Tensor) or total.ndim:
            got = tuple(total.shape) if isinstance(total, Tensor) else type(total).__name__
            raise ValueError(f"loss: expected the mean (one number) or (sum, number), got {got}")
        if count is None:
            total, count = total * len(batch), float(len(batch))
        return (total, count) if batch.counts else (total * 0, count * 0)


def make_user_workload(
    model: nn.Module, data: tuple[Any, Any], options: FitOptions, config: TrainConfig
) -> Workload:
    """Return the workload of a user's model and their `(train_set, val_set)`; see `fit`."""
    train_set, val_set = data
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    if not callable(options.loss):
        raise TypeError(f"loss: expected a function, got {type(options.loss).__name__}")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError("model: expected weights to train, got none that requires a gradient")
    metrics = read_metrics(options.metric, options.metrics)
    main = options.choose_by or next(iter(metrics), "loss")
    if main not in (*metrics, "loss"):
        raise ValueError(
            f"choose_by: expected one of {', '.join([*metrics, 'loss'])}, got {options.choose_by!r}"
        )
    if metrics and val_set is None:
        raise ValueError(f"metrics are of the val_set: give one, or leave {', '.join(metrics)} out")
    how = ReadData(options.collate_fn, options.steps_per_epoch, config)
    train = how.split("train_set", train_set)
    val = None
    if val_set is not None:
        val = ReadData(options.collate_fn, 0, config).split("val_set", val_set)
        val.scorer = UserScorer(metrics, main)
    return Workload(
        # A copy: the tensors of a model that was sent to several processes are in memory that
        # they share, and each would move the weights of all.
        model=copy.deepcopy(model),
        train=train,
        val=val,
        forward=CallModel(model, options.forward),
        loss=LossOfSum(options.loss),
        identity={"class": _class_name(model)},
        class_names=tuple(options.class_names),
        notes=tuple(how.notes),
        make_optimizer=make_optimizer_maker(
            model, options.optimizer, options.scheduler, options.scheduler_by
        ),
        callbacks=options.callbacks,
        loggers=options.loggers,
        draw_sample=options.draw_sample,
    )


def _class_name(model: nn.Module) -> str:
    """Return the same name in every process: a spawned one has the script as `__mp_main__`."""
    module = type(model).__module__.replace("__mp_main__", "__main__")
    return f"{module}.{type(model).__qualname__}"
