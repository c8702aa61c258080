"""What a training works on: a model, batches, a loss and a scorer. The engine knows no more."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn
from torch.utils.data import Dataset

from posemill.records import BoolArray, FloatArray, IntArray
from posemill.training.multigrid.schedule import Shape

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


class Loader(Protocol):
    """The batches of a split, epoch by epoch, from any position."""

    @property
    def num_steps(self) -> int:
        """Optimizer steps of an epoch."""

    def num_micro_batches(self, step: int) -> int:
        """Return how many batches a step of an epoch has; the same in all processes."""

    def padding_share(self) -> float | None:
        """Return the share of frames that only fill up shorter clips; None if it is unknown."""

    def batches(
        self, start: int = 0, stop: int = 1, *, start_step: int = 0
    ) -> Generator[Any, None, None]:
        """Yield the batches of the epochs `start` to `stop` (exclusive), from a step on."""


class Stream(Protocol):
    """Samples that come in an order of their own."""

    is_divisible: bool

    def open(
        self, config: Any, world: Any, *, is_training: bool, pins: bool, in_thread: bool
    ) -> Loader:
        """Return the loader of one process."""


@dataclass(frozen=True)
class Reshape:
    """How a split's clips become shorter and smaller, for Multigrid.

    Args:
        num_frames: Frames of a whole clip.
        size: Side of its pictures.
        grid: Shares of both that the long cycle may go through.
        has_short_cycle: Whether the size may change from batch to batch.
        at: Returns the split with the shapes of a phase.
        describe: Returns a shape in words.
        notes: What the user should read about it.
    """

    num_frames: int
    size: int
    grid: tuple[tuple[float, float], ...]
    has_short_cycle: bool
    at: Callable[[tuple[Shape, ...]], Split]
    describe: Callable[[Shape], str]
    notes: tuple[str, ...] = ()


@dataclass
class Split:
    """The samples of one split.

    Args:
        batches: `__getitems__(draws)` returns a ready batch with `.to(device, non_blocking)`.
        lengths: `(N,)` frames of each sample, all 1 where unknown.
        scorer: Knows the targets of this split; None leaves the loss as the only score.
        show: Returns (clip id, points `(T, K, D)`, mask `(T, K)`) of a sample as it was filmed,
            for figures.
        film: Returns (clip id, frames `(T, height, width, 3)` uint8) of a sample of video, for
            figures.
        names: The id of each clip, where they have one.
        stream: Where the samples come in an order of their own; `batches` is not used then.
        is_shuffled: False where training takes the samples in their order.
        batch_factors: Clips of a step for one of `batch_size`, of the steps of an epoch in turn.
        reshape: How its clips become shorter and smaller; None where they cannot.
    """

    batches: Dataset[Any]
    lengths: IntArray
    scorer: Scorer | None = None
    show: Callable[[int], tuple[str, FloatArray, BoolArray]] | None = None
    film: Callable[[int], tuple[str, npt.NDArray[np.uint8]]] | None = None
    names: Sequence[str] = ()
    stream: Stream | None = None
    is_shuffled: bool = True
    batch_factors: tuple[int, ...] = (1,)
    reshape: Reshape | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def is_threadsafe(self) -> bool:
        """Whether a thread may make batches beside the training; users' samples may draw."""
        return bool(getattr(self.batches, "is_threadsafe", True))


@dataclass(frozen=True)
class Callbacks:
    """A user's functions, each called with a `Moment` in every process; True ends the training."""

    on_step: Callable[[Any], Any] | None = None
    on_evaluate: Callable[[Any], Any] | None = None
    on_epoch: Callable[[Any], Any] | None = None


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
        find_leaks: Returns sentences about clips that are on both sides of a split; it may take a
            second.
        decided: Settings that the data decided, by flat name, and why.
        make_optimizer: The user's own, built for a model; None builds what the settings say.
        callbacks: Called after steps, evaluations and epochs.
        loggers: Get every line of the log, see `posemill.training.loggers`.
        draw_sample: `draw_sample(axes, sample, output)` draws one sample of `fit`.
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
    find_leaks: Callable[[], list[str]] = list
    decided: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    make_optimizer: Callable[[nn.Module, Any, Any], Any] | None = None
    callbacks: Callbacks = field(default_factory=Callbacks)
    loggers: tuple[Any, ...] = ()
    draw_sample: Callable[[Any, Any, Any], None] | None = None


def equal_lengths(count: int) -> IntArray:
    """Return the lengths of samples that are all alike."""
    return np.ones(count, np.int64)
