"""`Clips`: the clips of one split, of one kind of data: what is known of them, batches of them."""

from __future__ import annotations

import dataclasses
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset

from posemill.records import BoolArray, FloatArray, IntArray
from posemill.training.data.batches import Batch, Draw

# Shares of (frames, size) that Multigrid goes through, and of the size from batch to batch.
LONG_CYCLE = ((1 / 4, sqrt(1 / 2)), (1 / 2, sqrt(1 / 2)), (1 / 2, 1.0), (1.0, 1.0))
TIME_ONLY = ((1 / 4, 1.0), (1 / 2, 1.0), (1.0, 1.0))
SHORT_CYCLE = (1 / 2, sqrt(1 / 2))


class Shape(NamedTuple):
    """A shape of clips, for Multigrid."""

    batch: int  # how many such clips cost as much as a whole one
    num_frames: int
    size: int  # of the side of its pictures


class Grid(NamedTuple):
    """How clips can become shorter and smaller, for Multigrid."""

    num_frames: int  # of a whole clip
    size: int  # of the side of its pictures
    cycle: tuple[tuple[float, float], ...]  # shares of both that the long cycle may go through
    has_short_cycle: bool  # whether the size may change from batch to batch
    notes: tuple[str, ...] = ()


ClipKey = tuple[str, str]  # split and id: ids are unique within a split only
Target = int | IntArray  # a class, or gloss indices `(L,)`


class Picture(NamedTuple):
    """A clip to be looked at."""

    clip_id: str
    # `(T, K, D)` and mask `(T, K)`, as they were found; None of video.
    points: tuple[FloatArray, BoolArray] | None = None
    # `(T, height, width, 3)` of video, as the model is shown them.
    frames: npt.NDArray[np.uint8] | None = None


class Loader(Protocol):
    """The batches of a split, epoch by epoch, from any position."""

    num_steps: int  # optimizer steps of an epoch

    def num_micro_batches(self, step: int) -> int:
        """Return how many batches a step of an epoch has; the same in all processes."""

    def padding_share(self) -> float | None:
        """Return the share of frames that only fill up shorter clips; None if it is unknown."""
        return None

    def batches(
        self, start: int = 0, stop: int = 1, *, start_step: int = 0
    ) -> Generator[Any, None, None]:
        """Yield the batches of the epochs `start` to `stop` (exclusive), from a step on."""


class Clips(Dataset[Batch], ABC):
    """Base of the clips of a split; one class for each kind of data.

    A kind of your own needs `lengths`, `targets`, `class_names`, `keys` and `__getitems__`; all
    else has a default.
    """

    lengths: IntArray  # `(N,)` frames of each clip, all 1 where unknown
    targets: Sequence[Target] = ()
    class_names: tuple[str, ...] = ()  # for ctc glosses after `<blank>` and `<unk>`
    keys: Sequence[ClipKey] = ()  # empty where clips have none
    groups: Sequence[str] = ()  # whose each clip is; empty where nothing says it
    group_column: str = ""  # the column that says so
    is_share: bool = False  # whether these clips were set aside out of the training clips
    # Clips with fewer output steps than their glosses need; of the training those left out.
    num_too_short: int = 0
    # Clips of a step for one of `batch_size`, of the steps of an epoch in turn.
    batch_factors: tuple[int, ...] = (1,)
    # Where the samples come in an order of their own, what returns the loader of one process:
    # `stream(config, runtime, is_training=…)`; no draws are asked for then.
    stream: Callable[..., Loader] | None = None
    is_shuffled: bool = True  # False where training takes the samples in their order
    is_threadsafe: bool = True  # whether a thread may make batches beside the training
    gives_frames: bool = False  # whether a model is given the pixels of frames
    video: Any = None  # the `VideoClips` that reads videos; None for other data

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, draw: Draw) -> Batch:
        return self.__getitems__([draw])

    @abstractmethod
    def __getitems__(self, draws: Sequence[Draw]) -> Batch:
        """Return the batch of these draws; the loader calls it once per batch."""

    @property
    def clip_ids(self) -> tuple[str, ...]:
        """The id of each clip; empty where they have none."""
        return tuple(clip_id for _, clip_id in self.keys)

    @property
    def digest(self) -> str:
        """What tells these clips from others: of their ids alone."""
        return hashlib.sha256(repr(sorted(self.clip_ids)).encode()).hexdigest()[:16]

    @property
    def shape(self) -> Mapping[str, Any]:
        """The sizes that a model for these clips is built with; part of its identity."""
        return {}

    def select(self, indices: Sequence[int] | IntArray) -> Self:
        """Return these clips only, in this order."""
        raise NotImplementedError(f"{type(self).__name__} cannot be divided")

    def picture(self, index: int) -> Picture | None:
        """Return a clip to be looked at; None where there is nothing to see."""
        return None

    def features(self, indices: IntArray) -> FloatArray:
        """Return `(N, F)`: cheap numbers of some clips, alike for clips that look alike; or NaN."""
        return np.full((len(indices), 1), np.nan, np.float32)

    @property
    def grid(self) -> Grid | None:
        """How clips can become shorter and smaller; None where they cannot."""
        return None

    def in_shapes(self, shapes: tuple[Shape, ...]) -> Clips:
        """Return the clips in other shapes, one for each batch of an epoch in turn."""
        raise NotImplementedError(f"{type(self).__name__} has one shape")

    def describe_shape(self, shape: Shape) -> str:
        """Return a shape in words."""
        return f"{shape.num_frames} x {shape.size}²"


def keep_readable(
    samples: Any, draws: Sequence[Draw], items: Sequence[Any], rows: IntArray
) -> tuple[list[Draw], list[Any]]:
    """Return draws and items without those that are None; of none, one that does not count.

    `samples` has a `replacement(row, epoch)`; `rows` `(N,)` says which sample each clip is.
    """
    pairs = [pair for pair in zip(draws, items, strict=True) if pair[1] is not None]
    if not pairs:
        draw = draws[0]._replace(weight=0.0)
        pairs = [(draw, samples.replacement(int(rows[draw.clip]), draw.epoch))]
    return [draw for draw, _ in pairs], [item for _, item in pairs]


@dataclass(frozen=True, eq=False, kw_only=True)
class SplitClips(Clips):
    """Base of clips that were read with their labels and divided into splits."""

    rows: IntArray  # `(N,)`: which clips of what is read these are
    targets: tuple[Target, ...]
    keys: tuple[ClipKey, ...]
    class_names: tuple[str, ...]
    task: str = "classify"
    is_share: bool = False
    num_too_short: int = 0
    groups: tuple[str, ...] = ()
    group_column: str = ""
    batch_factors: tuple[int, ...] = (1,)
    time_stride: int = 1  # frames per output step of the model (ctc)

    has_lengths = True  # False where only opening the clips would tell

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def steps_needed(self) -> IntArray:
        """`(N,)`: output steps CTC needs: one per gloss and a blank between two equal ones."""
        glosses = [np.asarray(target) for target in self.targets]
        return np.asarray([len(own) + int((own[1:] == own[:-1]).sum()) for own in glosses])

    def select(self, indices: Sequence[int] | IntArray) -> Self:
        """Return these clips only."""
        chosen = np.asarray(indices, np.int64)
        facts: dict[str, Any] = {
            name: tuple(getattr(self, name)[i] for i in chosen)
            for name in ("targets", "keys", "groups")
            if getattr(self, name)
        }
        return dataclasses.replace(self, rows=self.rows[chosen], **facts)
