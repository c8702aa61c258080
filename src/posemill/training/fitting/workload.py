"""What `fit` is given as a workload: data sets, iterable ones or ready loaders; a model; a loss."""

from __future__ import annotations

import copy
from collections.abc import Container, Iterator
from functools import partial
from typing import Any

import numpy as np
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from posemill.messages import Message
from posemill.terminal import counted
from posemill.training.config.kinds import OWN
from posemill.training.config.train_config import TrainConfig
from posemill.training.fitting.optimizers import make_optimizer_maker
from posemill.training.fitting.streams import StreamLoader, is_shuffled, known_length
from posemill.training.fitting.user_clips import Collate, UserClips
from posemill.training.fitting.user_task import Forward, UserFunction, UserTask, read_metrics
from posemill.training.tasks.workload import Workload


def read_split(
    name: str,
    samples: Any,
    config: TrainConfig,
    *,
    collate: Collate | None = None,
    steps_per_epoch: int = 0,
) -> UserClips:
    """Return the split of a set; a wrong one is a `TypeError` or `ValueError`."""
    has_items = hasattr(samples, "__getitem__") and hasattr(samples, "__len__")
    is_iterable = isinstance(samples, IterableDataset) or not has_items
    stream = partial(
        StreamLoader, samples, name=name, collate=collate, steps_per_epoch=steps_per_epoch
    )
    if isinstance(samples, DataLoader):
        if collate is not None:
            raise TypeError(f"collate_fn: the DataLoader of {name} has its own; give one of them")
        shuffles = None if steps_per_epoch else is_shuffled(samples)
        if shuffles is not None:
            known_length(samples.dataset, name)
            return UserClips(
                samples.dataset, collate=samples.collate_fn, seed=config.seed, is_shuffled=shuffles
            )
        if "batch_size" in config.given and samples.batch_size:
            per_step = max(1, round(config.batch_size / samples.batch_size))
            stream = partial(stream, batches_per_step=per_step)
    elif not is_iterable:
        if steps_per_epoch:
            raise ValueError(
                f"steps_per_epoch is for data without len(): an epoch of {name} is its "
                f"{counted(len(samples), 'samples')}; use max_steps to end earlier"
            )
        lengths, count = getattr(samples, "lengths", None), known_length(samples, name)
        is_known = lengths is not None and len(lengths) == count
        return UserClips(
            samples,
            lengths=np.asarray(lengths, np.int64) if is_known else None,
            collate=collate,
            seed=config.seed,
        )
    elif not hasattr(samples, "__iter__"):
        raise TypeError(f"{name}: expected len() and [index], got {type(samples).__name__}")
    elif iter(samples) is samples:
        raise TypeError(
            f"{name}: a {type(samples).__name__} can be read through once only; give an "
            "IterableDataset, whose iter() begins again"
        )
    if name == "train_set" and not steps_per_epoch:
        known_length(samples, name)
    return UserClips([], stream=stream)


def settings_of_loader(train_set: Any, given: Container[str]) -> dict[str, Any]:
    """Return what a ready loader says of settings that were not given: its batch, its processes."""
    if not isinstance(train_set, DataLoader) or is_shuffled(train_set) is None:
        return {}
    size = train_set.batch_size
    settings = {"batch_size": size, "micro_batch": size, "workers": train_set.num_workers}
    return {name: value for name, value in settings.items() if name not in given}


def _notes_of(train_set: Any, config: TrainConfig) -> Iterator[Message]:
    """Yield what a user should know of training samples that come in an order of their own."""
    if isinstance(train_set, DataLoader):
        yield Message(
            "the DataLoader of train_set is used as it is: its sampler draws the order, and one "
            "process trains ({num_workers} loader processes of its own)",
            num_workers=train_set.num_workers,
        )
    elif config.workers > 1:
        yield Message(
            "{--workers:{workers}}: one loader process reads train_set, as two would read the "
            "same samples of an iterable",
            workers=config.workers,
        )


def make_user_workload(
    model: nn.Module,
    data: tuple[Any, Any],
    config: TrainConfig,
    *,
    loss: UserFunction,
    metric: Any = None,
    metrics: Any = None,
    choose_by: str = "",
    collate_fn: Collate | None = None,
    forward: Forward | None = None,
    optimizer: Any = None,
    scheduler: Any = None,
    scheduler_by: str = "epoch",
    steps_per_epoch: int = 0,
    **facts: Any,
) -> Workload:
    """Return the workload of what `fit` is given; `facts` are further fields of `Workload`."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    if not callable(loss):
        raise TypeError(f"loss: expected a function, got {type(loss).__name__}")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError("model: expected weights to train, got none that requires a gradient")
    named = read_metrics(metric, metrics)
    main = choose_by or next(iter(named), "loss")
    if main not in (*named, "loss"):
        raise ValueError(
            f"choose_by: expected one of {', '.join([*named, 'loss'])}, got {choose_by!r}"
        )
    train_set, val_set = data
    if named and val_set is None:
        raise ValueError(f"metrics are of the val_set: give one, or leave {', '.join(named)} out")
    train = read_split(
        "train_set", train_set, config, collate=collate_fn, steps_per_epoch=steps_per_epoch
    )
    val = None
    if val_set is not None:
        val = read_split("val_set", val_set, config, collate=collate_fn)
    # The same in every process: a spawned one has the script as `__mp_main__`.
    module = type(model).__module__.replace("__mp_main__", "__main__")
    return Workload(
        # A copy: the tensors of a model that was sent to several processes are in memory that
        # they share, and each would move the weights of all.
        model=copy.deepcopy(model),
        train=train,
        val=val,
        task=UserTask(loss, named, main, model=model, forward=forward),
        identity={"kind": OWN, "class": f"{module}.{type(model).__qualname__}"},
        notes=tuple(_notes_of(train_set, config)) if train.stream else (),
        make_optimizer=make_optimizer_maker(model, optimizer, scheduler, scheduler_by),
        **facts,
    )
