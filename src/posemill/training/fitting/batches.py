"""A user's samples in batches, and how a model and a loss are called with them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.utils.data import Dataset, default_collate

from posemill.training.data.batches import Draw
from posemill.training.loop.random_states import own_draws

Collate = Callable[[list[Any]], Any]
Forward = Callable[[nn.Module, Any], Any]


@dataclass
class UserBatch:
    """A collated batch, and which samples it has.

    Args:
        values: What the collate function made of the samples.
        indices: Of the samples in their set, or in their stream.
        counts: False for a batch that only fills up a rank's share.
    """

    values: Any
    indices: list[int]
    counts: bool = True

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def target(self) -> Any:
        """What losses and metrics are called with beside the output.

        The last entry of `(input, …, target)`, `target` of a dict that has it, or else all of it.
        """
        if isinstance(self.values, (tuple, list)):
            return self.values[-1]
        if isinstance(self.values, Mapping) and "target" in self.values:
            return self.values["target"]
        return self.values

    def to(self, device: Any, non_blocking: bool = False) -> UserBatch:
        """Return the batch on a device."""
        moved = _each_tensor(self.values, lambda part: part.to(device, non_blocking=non_blocking))
        return UserBatch(moved, self.indices, self.counts)

    def pin_memory(self) -> UserBatch:
        """Return the batch in page-locked memory; the loader calls it."""
        return UserBatch(
            _each_tensor(self.values, lambda part: part.pin_memory()), self.indices, self.counts
        )


class UserBatches(Dataset[UserBatch]):
    """Makes batches out of a user's data set.

    Args:
        samples: `[index]` gives a sample.
        collate: Makes a batch of a list of samples; by default the data set's own `collate_fn`,
            or torch's.
        seed: With epoch and index it decides what a sample draws at random, in whatever process.
    """

    def __init__(self, samples: Any, collate: Collate | None = None, *, seed: int = 0) -> None:
        self.samples, self.seed = samples, seed
        own = getattr(samples, "collate_fn", None)
        self.collate: Collate = collate or own or default_collate

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, draw: Draw) -> UserBatch:
        return self.__getitems__([draw])

    def __getitems__(self, draws: Sequence[Draw]) -> UserBatch:
        """Return the batch of these draws.

        A data set with `at_epoch(index, epoch)` is asked so: its draws are then the same wherever
        a training goes on. One that may drop samples returns None for them; a batch of nothing
        else has a replacement that does not count.
        """
        with own_draws() as seed_draws:
            samples = [self._sample(draw, seed_draws) for draw in draws]
            return self._collated(samples, draws)

    def _collated(self, samples: list[Any], draws: Sequence[Draw]) -> UserBatch:
        counts = bool(draws[0].weight)
        if getattr(self.samples, "may_drop", False):
            draws = [draw for draw, one in zip(draws, samples, strict=True) if one is not None] or [
                draws[0]._replace(weight=0.0)
            ]
            samples = [one for one in samples if one is not None]
            if not samples:
                samples, counts = [self.samples.replacement(*draws[0][:2])], False
        return UserBatch(self.collate(samples), [draw.clip for draw in draws], counts)

    def _sample(self, draw: Draw, seed_draws: Callable[[int, int, int], None]) -> Any:
        if hasattr(self.samples, "at_epoch"):
            return self.samples.at_epoch(draw.clip, draw.epoch)
        seed_draws(self.seed, draw.epoch, draw.clip)
        return self.samples[draw.clip]

    @property
    def is_threadsafe(self) -> bool:
        """Whether a thread may make batches beside the training: not if samples may draw."""
        return hasattr(self.samples, "at_epoch")


class CallModel:
    """Calls a user's model on a batch.

    A tuple is inputs and the target, which the model does not see. Of a dict the model gets the
    entries that its `forward` names. Anything else it gets whole.

    Args:
        model: Its `forward` is looked at.
        forward: `forward(model, values)` in place of all that.
    """

    def __init__(self, model: nn.Module, forward: Forward | None = None) -> None:
        self._forward = forward
        found = inspect.signature(model.forward).parameters.values()
        kinds = inspect.Parameter
        self._takes_any = any(one.kind is kinds.VAR_KEYWORD for one in found)
        named = [one for one in found if one.kind in (kinds.POSITIONAL_OR_KEYWORD,
                                                      kinds.KEYWORD_ONLY)]  # fmt: skip
        self._names = {one.name for one in named}
        self.required = [one.name for one in named if one.default is kinds.empty]

    def __call__(self, model: nn.Module, batch: UserBatch) -> Any:
        """Return the model's output."""
        values = batch.values
        if self._forward is not None:
            return self._forward(model, values)
        if isinstance(values, (tuple, list)):
            return model(*values[:-1])
        if isinstance(values, Mapping):
            return model(**{name: values[name] for name in self.names_of(values)})
        return model(values)

    def names_of(self, values: Mapping[str, Any]) -> list[str]:
        """Return the entries of a dict that the model is called with."""
        if self._takes_any:
            return [name for name in values if name != "target"]
        return [name for name in values if name in self._names]

    def missing_in(self, values: Any) -> list[str]:
        """Return what the model needs and a dict does not have."""
        if self._forward is not None or not isinstance(values, Mapping):
            return []
        return [name for name in self.required if name not in values]


def count_samples(values: Any) -> int | None:
    """Return the samples of a batch: the length of its first tensor, or None without one."""
    if isinstance(values, (Tensor, np.ndarray)):
        return len(values) if values.ndim else None
    parts = values.values() if isinstance(values, Mapping) else values
    if isinstance(parts, (str, bytes)) or not hasattr(parts, "__iter__"):
        return None
    return next((n for n in (count_samples(part) for part in parts) if n is not None), None)


def take_sample(values: Any, row: int, count: int) -> Any:
    """Return one sample of a batch of `count`, on the CPU; what has no samples is kept whole."""
    if isinstance(values, Mapping):
        return {name: take_sample(part, row, count) for name, part in values.items()}
    if isinstance(values, (tuple, list)) and any(
        isinstance(part, (Tensor, Mapping, tuple, list)) for part in values
    ):
        return type(values)(take_sample(part, row, count) for part in values)
    if isinstance(values, Tensor):
        values = values.detach().cpu()
    if isinstance(values, (Tensor, np.ndarray, list, tuple)) and np.ndim(values) != 0:
        return values[row] if len(values) == count else values
    return values


def _each_tensor(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, Tensor) or (hasattr(value, "to") and hasattr(value, "pin_memory")):
        return function(value)
    if isinstance(value, (list, tuple)):
        parts = [_each_tensor(part, function) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, Mapping):
        return {key: _each_tensor(part, function) for key, part in value.items()}
    return value
