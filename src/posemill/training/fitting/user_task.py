"""A user's loss and metrics as a task: how the model is called, and the mean of each metric."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from posemill.records import IntArray
from posemill.training.data.batches import Batch
from posemill.training.tasks.metrics import confusion_matrix
from posemill.training.tasks.task import Row, Task

UserFunction = Callable[[Any, Any], Any]  # of output and target: a loss or a metric
Forward = Callable[[nn.Module, Any], Any]
_DIRECTIONS = {"max": True, "min": False}
_MOST_CLASSES = 100  # a larger confusion matrix cannot be read
_CONFUSION = ""  # its place in a row: no metric has an empty name


@dataclass(frozen=True)
class Metric:
    """A function of output and target, and whether higher is better."""

    function: UserFunction
    is_higher_better: bool = True


def read_metrics(metric: Any, metrics: Any) -> dict[str, Metric]:
    """Return the metrics that a user gave, by name; wrong ones are a `TypeError`."""
    if metric is not None and metrics:
        raise TypeError("metric and metrics say the same thing: give one of them")
    given = {"metric": metric} if metric is not None else metrics or {}
    if not isinstance(given, Mapping):
        raise TypeError(
            f"metrics: expected a dict of functions by name, got {type(given).__name__}"
        )
    found = {}
    for name, value in given.items():
        function, direction = value if isinstance(value, (tuple, list)) else (value, "max")
        if not callable(function) or direction not in _DIRECTIONS:
            raise TypeError(
                f"metrics[{name!r}]: expected a function, or (function, 'max' or 'min'), "
                f"got {value!r}"
            )
        if not isinstance(name, str) or not name or name == "loss":
            raise TypeError(f"metrics: expected names other than 'loss', got {name!r}")
        found[name] = Metric(function, _DIRECTIONS[direction])
    return found


class UserTask(Task):
    """A user's loss, and the mean of each metric over samples.

    A row says `{name: (sum, number)}`. A metric may return one number, the mean over the batch, or
    one for each sample `(B,)`; NaN there says that a sample has none. `main` is the metric that
    chooses the best weights, or `loss`. The `forward` of `model` is looked at for what it is called
    with: a tuple is inputs and the target, which the model does not see; of a dict it gets the
    entries that it names; anything else it gets whole. `forward(model, values)` stands in place of
    all that.
    """

    is_own = True

    def __init__(
        self,
        loss: UserFunction,
        metrics: Mapping[str, Metric] | None = None,
        main: str = "loss",
        *,
        model: nn.Module | None = None,
        forward: Forward | None = None,
    ) -> None:
        self._loss, self._forward = loss, forward
        self.metrics, self.main = dict(metrics or {}), main
        self.higher_is_better = main != "loss" and self.metrics[main].is_higher_better
        self.per_sample: set[str] = set()
        signature = inspect.signature(model.forward) if model is not None else inspect.Signature()
        parameters, kinds = signature.parameters.values(), inspect.Parameter
        self._takes_any = any(one.kind is kinds.VAR_KEYWORD for one in parameters)
        by_name = (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
        # Whether the model needs each entry that it names.
        self._names = {p.name: p.default is p.empty for p in parameters if p.kind in by_name}

    def call(self, model: nn.Module, batch: Batch) -> Any:
        """Return what the model says of a batch."""
        values = batch.inputs
        if self._forward is not None:
            return self._forward(model, values)
        if isinstance(values, (tuple, list)):
            return model(*values[:-1])
        if isinstance(values, Mapping):
            named = values.keys() - {"target"} if self._takes_any else values.keys() & self._names
            return model(**{name: value for name, value in values.items() if name in named})
        return model(values)

    def missing_in(self, values: Any) -> list[str]:
        """Return what the model needs and a dict does not have."""
        if self._forward is not None or not isinstance(values, Mapping):
            return []
        return [name for name, needs in self._names.items() if needs and name not in values]

    def loss(self, output: Any, batch: Batch) -> tuple[Tensor, Tensor | float]:
        """Return `(sum, number)`; a mean is multiplied by the number of samples."""
        total, count = self._loss(output, batch.targets), None
        if isinstance(total, tuple) and len(total) == 2:
            total, count = total
        if not isinstance(total, Tensor) or total.ndim:
            got = tuple(total.shape) if isinstance(total, Tensor) else type(total).__name__
            raise ValueError(f"loss: expected the mean (one number) or (sum, number), got {got}")
        if count is None:
            total, count = total * len(batch), float(len(batch))
        # A batch counts or only fills up, as a whole; its weights are not read off a GPU for that.
        counts = batch.weights[0]
        return total * counts, count * counts

    def observe(self, output: Any, batch: Batch) -> list[Row]:
        """Return the rows of a batch: one for each sample, the first with what is of all."""
        if not batch.weights[0]:
            return []
        values: list[dict[str, Any]] = [{} for _ in range(len(batch))]
        for name, metric in self.metrics.items():
            found = as_numbers(metric.function(output, batch.targets), name, len(batch))
            if found.ndim:
                self.per_sample.add(name)
                for row, value in zip(values, found.tolist(), strict=True):
                    row[name] = (0.0, 0) if np.isnan(value) else (value, 1)
            else:
                values[0][name] = (float(found) * len(batch), len(batch))
        confusion = confusion_of(output, batch.targets)
        if confusion is not None:
            values[0][_CONFUSION] = confusion
        indices = batch.indices.tolist()
        return [Row(index, value) for index, value in zip(indices, values, strict=True) if value]

    def score(self, rows: Sequence[Row]) -> dict[str, float]:
        """Return the mean of each metric over all samples; NaN where no sample has it."""
        scores = {}
        for name in self.metrics:
            pairs = [row.said[name] for row in rows if name in row.said]
            count = sum(number for _, number in pairs)
            scores[name] = sum(total for total, _ in pairs) / count if count else float("nan")
        return scores

    def confusion(self, rows: Sequence[Row], num_classes: int = 0) -> IntArray | None:
        """Return `(classes, classes)` counts, row the true class; None where nothing classifies."""
        found = [row.said[_CONFUSION] for row in rows if _CONFUSION in row.said]
        return np.sum(found, axis=0) if found else None

    def sample_values(self, rows: Sequence[Row]) -> list[dict[str, float]]:
        """Return `{"index": …, metric: value}` of each sample, of the metrics that have one."""
        names = [name for name in self.metrics if name in self.per_sample]
        return [
            {"index": row.sample}
            | {name: row.said[name][0] if row.said[name][1] else float("nan") for name in names}
            for row in rows
            if names
        ]


def no_loss(output: Any, target: Any) -> Tensor:
    """Return 0: the loss of a model that is only looked at."""
    return torch.zeros(())


def as_numbers(value: Any, name: str, count: int) -> Any:
    """Return what a metric gave, one number or `(count,)`; anything else is a `ValueError`."""
    found = value.detach().cpu().double().numpy() if isinstance(value, Tensor) else value
    try:
        # None would become NaN: a function that forgot to return.
        found = np.asarray("none" if found is None else found, np.float64)
    except (TypeError, ValueError):
        got = type(value).__name__
    else:
        if found.ndim == 0 or found.shape == (count,):
            return found
        got = str(found.shape)
    raise ValueError(
        f"metric {name!r}: expected one number, or one of each of the {count} samples, got {got}"
    )


def confusion_of(output: Any, target: Any) -> IntArray | None:
    """Return the confusion matrix of a batch, None where it is not one of classes.

    Of scores `(B, C)` or, of pixels, `(B, C, …)`, and classes `(B,)` or `(B, …)`, or a dict with
    one such entry; its others do not count.
    """
    if not isinstance(output, Tensor) or not output.is_floating_point() or output.ndim < 2:
        return None
    classes = output.shape[1]
    found = [
        one
        for one in (target.values() if isinstance(target, Mapping) else [target])
        if isinstance(one, Tensor)
        and one.dtype in (torch.int64, torch.int32, torch.int16, torch.uint8)
        and one.shape == (*output.shape[:1], *output.shape[2:])
    ]
    if len(found) != 1 or not 2 <= classes <= _MOST_CLASSES:
        return None
    target = found[0]
    said, true = output.argmax(1).flatten().cpu().numpy(), target.flatten().cpu().numpy()
    is_counted = (true >= 0) & (true < classes)
    return confusion_matrix(said[is_counted], true[is_counted], classes)
