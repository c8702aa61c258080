"""A user's metrics over a whole set, each with its direction, and the confusion of classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posemill.records import IntArray
from posemill.training.fitting.batches import UserBatch
from posemill.training.tasks.metrics import confusion_matrix
from posemill.training.tasks.workload import Row

MetricFunction = Callable[[Any, Any], Any]
_DIRECTIONS = {"max": True, "min": False}
_MOST_CLASSES = 100  # a larger confusion matrix cannot be read
_CONFUSION = ""  # its place in a row: no metric has an empty name


@dataclass(frozen=True)
class Metric:
    """A function of output and target, and whether higher is better."""

    function: MetricFunction
    is_higher_better: bool = True


def read_metrics(metric: Any, metrics: Any) -> dict[str, Metric]:
    """Return the metrics that a user gave, by name; wrong ones are a `TypeError`.

    Args:
        metric: One function, called `metric`, the higher the better; or None.
        metrics: By name: a function, or `(function, "max" or "min")`; or None.
    """
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


class UserScorer:
    """The mean of each metric over samples. A row's value is `{name: (sum, number)}`.

    A metric may return one number, the mean over the batch, or one for each sample `(B,)`; NaN
    there says that a sample has none.

    Args:
        metrics: By name.
        main: The one that chooses the best weights, or `loss`.
    """

    def __init__(self, metrics: Mapping[str, Metric], main: str = "loss") -> None:
        self.metrics, self.main = dict(metrics), main
        self.higher_is_better = main != "loss" and self.metrics[main].is_higher_better
        self.per_sample: set[str] = set()

    def observe(self, output: Any, batch: UserBatch) -> list[Row]:
        """Return the rows of a batch: one for each sample, the first with what is of all."""
        if not batch.counts:
            return []
        values: list[dict[str, Any]] = [{} for _ in batch.indices]
        for name, metric in self.metrics.items():
            found = as_numbers(metric.function(output, batch.target), name, len(batch))
            if found.ndim:
                self.per_sample.add(name)
                for row, value in zip(values, found.tolist(), strict=True):
                    row[name] = (0.0, 0) if np.isnan(value) else (value, 1)
            else:
                values[0][name] = (float(found) * len(batch), len(batch))
        confusion = confusion_of(output, batch.target)
        if confusion is not None:
            values[0][_CONFUSION] = confusion
        return [(i, value) for i, value in zip(batch.indices, values, strict=True) if value]

    def score(self, rows: Sequence[Row]) -> dict[str, float]:
        """Return the mean of each metric over all samples; NaN where no sample has it."""
        scores = {}
        for name in self.metrics:
            pairs = [value[name] for _, value in rows if name in value]
            count = sum(number for _, number in pairs)
            scores[name] = sum(total for total, _ in pairs) / count if count else float("nan")
        return scores

    def confusion(self, rows: Sequence[Row]) -> IntArray | None:
        """Return `(classes, classes)` counts, row the true class; None where nothing classifies."""
        found = [value[_CONFUSION] for _, value in rows if _CONFUSION in value]
        return np.sum(found, axis=0) if found else None

    def sample_values(self, rows: Sequence[Row]) -> list[dict[str, float]]:
        """Return `{"index": …, metric: value}` of each sample, of the metrics that have one."""
        names = [name for name in self.metrics if name in self.per_sample]
        return [
            {"index": index}
            | {name: value[name][0] if value[name][1] else float("nan") for name in names}
            for index, value in rows
            if names
        ]


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

    Args:
        output: Scores of classes `(B, C)` or, of pixels, `(B, C, …)`.
        target: Classes `(B,)` or `(B, …)`, or a dict with one such entry; those that are not 0 to
            C - 1 do not count.
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
