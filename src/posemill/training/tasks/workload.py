"""What a training works on: a model, batches, a loss and a scorer. The engine knows no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from torch import Tensor, nn
from torch.utils.data import Dataset

from posemill.records import BoolArray, FloatArray, IntArray

Row = tuple[int, Any]  # (index of the sample in its set, what the model said about it)
Forward = Callable[[nn.Module, Any], Any]
Loss = Callable[[Any, Any], "tuple[Tensor, Tensor | float]"]


class Scorer(Protocol):
    """Turns outputs into rows, and the rows of a whole set into scores."""

    main: str
    higher_is_better: bool

    def observe(self, output: Any, batch: Any) -> list[Row]:
        """Return one row for each sample of the batch that counts."""

    def score(self, rows: Sequence[Row]) -> dict[str, float]:
        """Return the scores of a set; `main` is among them."""


@dataclass
class Split:
    """The samples of one split.

    Args:
        batches: `__getitems__(draws)` returns a ready batch with `.to(device, non_blocking)`.
        lengths: `(N,)` frames of each sample, all 1 where unknown.
        scorer: Knows the targets of this split; None leaves the loss as the only score.
        show: Returns (clip id, points `(T, K, D)`, mask `(T, K)`) of a sample as it was filmed,
            for figures.
    """

    batches: Dataset[Any]
    lengths: IntArray
    scorer: Scorer | None = None
    show: Callable[[int], tuple[str, FloatArray, BoolArray]] | None = None

    def __len__(self) -> int:
        return len(self.lengths)


@dataclass
class Workload:
    """All that one process needs to train.

    Args:
        model: On the CPU, weights as they start.
        train: Samples to learn from.
        val: Samples that choose the best checkpoint, or None.
        forward: Calls the model on a batch.
        loss: `(sum over samples, number of samples)` of an output and its batch.
        identity: What makes two models the same, for checkpoints: name, options, sizes.
        tests: Splits scored once, at the end, by name.
        class_names: For figures and predictions.
        skeleton_name: For figures.
        recipe: How `posemill prepare` made the data, to do the same to new clips.
        notes: Sentences about the data that the user should read.
        decided: Settings that the data decided, by flat name, and why.
    """

    model: nn.Module
    train: Split
    val: Split | None
    forward: Forward
    loss: Loss
    identity: Mapping[str, Any]
    tests: Mapping[str, Split] = field(default_factory=dict)
    class_names: tuple[str, ...] = ()
    skeleton_name: str | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    decided: Mapping[str, tuple[Any, str]] = field(default_factory=dict)


def equal_lengths(count: int) -> IntArray:
    """Return the lengths of samples that are all alike."""
    return np.ones(count, np.int64)
