"""What `fit` is given as a workload: data sets, iterable ones or ready loaders; a model; a loss."""

from __future__ import annotations

import copy
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from posemill.messages import Message
from posemill.records import IntArray
from posemill.terminal import counted
from posemill.training.config.kinds import OWN
from posemill.training.config.train_config import TrainConfig
from posemill.training.fitting.optimizers import make_optimizer_maker
from posemill.training.fitting.streams import UserStream, known_length, take_apart
from posemill.training.fitting.user_clips import Collate, UserClips
from posemill.training.fitting.user_task import Forward, UserFunction, UserTask, read_metrics
from posemill.training.tasks.workload import Callbacks, Workload


class ReadData:
    """Makes splits of users' data; what is wrong with it is a `TypeError` or `ValueError`."""

    def __init__(self, collate: Collate | None, steps_per_epoch: int, config: TrainConfig) -> None:
        self._collate, self._steps, self._config = collate, steps_per_epoch, config
        self.notes: list[str] = []

    def split(self, name: str, samples: Any) -> UserClips:
        """Return the split of `train_set` or `val_set`."""
        if isinstance(samples, DataLoader):
            return self._of_loader(name, samples)
        has_items = hasattr(samples, "__getitem__") and hasattr(samples, "__len__")
        if isinstance(samples, IterableDataset) or (hasattr(samples, "__iter__") and not has_items):
            return self._of_iterable(name, samples)
        if not has_items:
            raise TypeError(f"{name}: expected len() and [index], got {type(samples).__name__}")
        if self._steps:
            raise ValueError(
                f"steps_per_epoch is for data without len(): an epoch of {name} is its "
                f"{counted(len(samples), 'samples')}; use max_steps to end earlier"
            )
        count = known_length(samples, name)
        return UserClips(
            samples,
            lengths=_lengths_of(samples, count),
            collate=self._collate,
            seed=self._config.seed,
        )

    def _of_iterable(self, name: str, samples: Any) -> UserClips:
        if iter(samples) is samples:
            raise TypeError(
                f"{name}: a {type(samples).__name__} can be read through once only; give an "
                "IterableDataset, whose iter() begins again"
            )
        if self._config.workers > 1:
            self.notes.append(
                Message(
                    "{--workers:{workers}}: one loader process reads {name}, as two would read "
                    "the same samples of an iterable",
                    workers=self._config.workers,
                    name=name,
                )
            )
        return self._of_stream(UserStream(samples, name, self._collate, self._steps))

    def _of_loader(self, name: str, loader: DataLoader[Any]) -> UserClips:
        if self._collate is not None:
            raise TypeError(f"collate_fn: the DataLoader of {name} has its own; give one of them")
        parts = None if self._steps else take_apart(loader)
        if parts is not None:
            known_length(parts.dataset, name)
            return UserClips(
                parts.dataset,
                collate=parts.collate,
                seed=self._config.seed,
                is_shuffled=parts.is_shuffled,
            )
        if name == "train_set":
            self.notes.append(
                Message(
                    "the DataLoader of train_set is used as it is: its sampler draws the order, "
                    "and one process trains ({num_workers} loader processes of its own)",
                    num_workers=loader.num_workers,
                )
            )
        each = 1
        if "batch_size" in self._config.given and loader.batch_size:
            each = max(1, round(self._config.batch_size / loader.batch_size))
        return self._of_stream(UserStream(loader, name, None, self._steps, each))

    def _of_stream(self, stream: UserStream) -> UserClips:
        if stream.name == "train_set" and not self._steps:
            known_length(stream.source, stream.name)
        return UserClips([], stream=stream)


def settings_of_loader(train_set: Any, given: Container[str]) -> dict[str, int]:
    """Return what a ready loader says of settings that were not given: its batch, its processes."""
    parts = take_apart(train_set) if isinstance(train_set, DataLoader) else None
    found = parts.settings if parts else {}
    return {name: value for name, value in found.items() if name not in given}


def _lengths_of(samples: Any, count: int) -> IntArray | None:
    """Return the lengths that a data set says its samples have; None where it says none."""
    lengths = getattr(samples, "lengths", None)
    if lengths is None or len(lengths) != count:
        return None
    return np.asarray(lengths, np.int64)


@dataclass(frozen=True)
class FitOptions:
    """What `fit` is given beside model, data and settings; see there."""

    loss: UserFunction
    metric: Any = None
    metrics: Any = None
    choose_by: str = ""
    collate_fn: Collate | None = None
    forward: Forward | None = None
    optimizer: Any = None
    scheduler: Any = None
    scheduler_by: str = "epoch"
    steps_per_epoch: int = 0
    callbacks: Callbacks = field(default_factory=Callbacks)
    loggers: tuple[Any, ...] = ()
    draw_sample: Callable[[Any, Any, Any], None] | None = None
    class_names: tuple[str, ...] = ()


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
    return Workload(
        # A copy: the tensors of a model that was sent to several processes are in memory that
        # they share, and each would move the weights of all.
        model=copy.deepcopy(model),
        train=train,
        val=val,
        task=UserTask(options.loss, metrics, main, model=model, forward=options.forward),
        identity={"kind": OWN, "class": _class_name(model)},
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
