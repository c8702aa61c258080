"""Users' own models and data sets as a workload of the engine."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.utils.data import Dataset, default_collate

from posemill.training.data.batches import Draw
from posemill.training.tasks.workload import Row, Split, Workload, equal_lengths

UserLoss = Callable[[Any, Any], Any]
Metric = Callable[[Any, Any], Any]


@dataclass
class UserBatch:
    """A collated batch: inputs, target, and which samples they are.

    Args:
        inputs: What the model is called with.
        target: The last entry of the samples.
        indices: Of the samples in their set.
        counts: False for a batch that only fills up a rank's share.
    """

    inputs: tuple[Any, ...]
    target: Any
    indices: list[int]
    counts: bool = True

    def __len__(self) -> int:
        return len(self.indices)

    def to(self, device: Any, non_blocking: bool = False) -> UserBatch:
        """Return the batch on a device."""
        inputs = tuple(_move(value, device, non_blocking) for value in self.inputs)
        target = _move(self.target, device, non_blocking)
        return UserBatch(inputs, target, self.indices, self.counts)

    def pin_memory(self) -> UserBatch:
        """Return the batch in page-locked memory; the loader calls it."""
        inputs = tuple(_pin(value) for value in self.inputs)
        return UserBatch(inputs, _pin(self.target), self.indices, self.counts)


class UserBatches(Dataset[UserBatch]):
    """Makes batches out of a user's data set."""

    def __init__(self, samples: Any) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, draw: Draw) -> UserBatch:
        return self.__getitems__([draw])

    def __getitems__(self, draws: Sequence[Draw]) -> UserBatch:
        """Return the batch of these draws."""
        rows = [self.samples[draw.clip] for draw in draws]
        *inputs, target = default_collate(rows)
        indices = [draw.clip for draw in draws]
        return UserBatch(tuple(inputs), target, indices, counts=bool(draws[0].weight))


class LossOfSum:
    """A user's loss as `(sum over samples, number of samples)`."""

    def __init__(self, loss: UserLoss) -> None:
        self.loss = loss

    def __call__(self, output: Any, batch: UserBatch) -> tuple[Tensor, Tensor | float]:
        """Return the pair; a mean is multiplied by the number of samples."""
        value = self.loss(output, batch.target)
        if isinstance(value, tuple):
            total, count = value
        else:
            total, count = value * len(batch), float(len(batch))
        if total.ndim:
            raise ValueError(
                f"loss: expected the mean (one number) or (sum, number), got {tuple(total.shape)}"
            )
        return (total, count) if batch.counts else (total * 0, count * 0)


class MetricScorer:
    """The mean of a user's metric over samples."""

    main = "metric"
    higher_is_better = True

    def __init__(self, metric: Metric) -> None:
        self.metric = metric

    def observe(self, output: Any, batch: UserBatch) -> list[Row]:
        """Return one row for the batch: the sum and the number of samples."""
        if not batch.counts:
            return []
        value = float(self.metric(output, batch.target))
        return [(batch.indices[0], (value * len(batch), len(batch)))]

    def score(self, rows: Sequence[Row]) -> dict[str, float]:
        """Return the mean over all samples."""
        total = sum(value[0] for _, value in rows)
        return {"metric": total / max(1, sum(value[1] for _, value in rows))}


def call_with_inputs(model: nn.Module, batch: UserBatch) -> Any:
    """Call a user's model on the inputs of a batch."""
    return model(*batch.inputs)


def make_user_workload(
    model: nn.Module,
    train_set: Any,
    *,
    val_set: Any = None,
    loss: UserLoss,
    metric: Metric | None = None,
) -> Workload:
    """Return the workload of a user's model; see `fit`."""
    for name, samples in (("train_set", train_set), ("val_set", val_set)):
        if samples is None:
            continue
        if not hasattr(samples, "__len__") or not hasattr(samples, "__getitem__"):
            raise TypeError(f"{name}: expected len() and [index], got {type(samples).__name__}")
        if not len(samples):
            raise ValueError(f"{name}: expected samples, got none")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError("model: expected weights to train, got none that requires a gradient")
    scorer = MetricScorer(metric) if metric else None
    return Workload(
        # A copy: the tensors of a model that was sent to several processes are in memory that
        # they share, and each would move the weights of all.
        model=copy.deepcopy(model),
        train=Split(UserBatches(train_set), _lengths(train_set)),
        val=Split(UserBatches(val_set), _lengths(val_set), scorer) if val_set is not None else None,
        forward=call_with_inputs,
        loss=LossOfSum(loss),
        identity={"class": f"{type(model).__module__}.{type(model).__qualname__}"},
    )


def _lengths(samples: Any) -> Any:
    lengths = getattr(samples, "lengths", None)
    if lengths is not None and len(lengths) == len(samples):
        return np.asarray(lengths, np.int64)
    return equal_lengths(len(samples))


def _move(value: Any, device: Any, non_blocking: bool) -> Any:
    if hasattr(value, "to"):
        return value.to(device, non_blocking=non_blocking)
    if isinstance(value, (list, tuple)):
        return type(value)(_move(part, device, non_blocking) for part in value)
    if isinstance(value, dict):
        return {key: _move(part, device, non_blocking) for key, part in value.items()}
    return value


def _pin(value: Any) -> Any:
    return value.pin_memory() if isinstance(value, Tensor) else value
