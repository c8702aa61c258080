"""A user's data set as clips, and its samples in batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from posemill.records import IntArray
from posemill.training.data.batches import Batch, Draw
from posemill.training.data.clips import Clips, Grid, Shape, Stream
from posemill.training.runtime import own_draws
from posemill.training.video.pixel_clips import grid_of
from posemill.training.video.video_clips import VideoClips

Collate = Callable[[list[Any]], Any]


def make_user_batch(values: Any, indices: Sequence[int], *, counts: bool = True) -> Batch:
    """Return the batch of what a collate function made of some samples.

    Args:
        values: `(input, …, target)`, a dict with or without `target`, or anything.
        indices: Of the samples in their set, or in their stream.
        counts: False for a batch that only fills up a rank's share.
    """
    weights = torch.full((len(indices),), float(counts))
    return Batch(values, _target_of(values), torch.tensor(indices, dtype=torch.int64), weights)


def _target_of(values: Any) -> Any:
    """Return the last entry of a tuple, `target` of a dict that has it, or else all of it."""
    if isinstance(values, (tuple, list)):
        return values[-1]
    if isinstance(values, Mapping) and "target" in values:
        return values["target"]
    return values


class UserClips(Clips):
    """A user's data set; see `Clips`.

    Args:
        samples: `[index]` gives a sample; several data sets of the same samples, one for each shape
            of a batch.
        lengths: `(N,)` of each sample.
        collate: Makes a batch of a list of samples; by default the data set's own `collate_fn`,
            or torch's.
        seed: With epoch and index it decides what a sample draws at random, in whatever process.
        is_shuffled: False where training takes the samples in their order.
        stream: Where they come in an order of their own; `samples` are not used then.
        rows: `(N,)`: which samples these are; all where None.
        batch_factors: See `Clips`.
    """

    def __init__(
        self,
        *samples: Any,
        lengths: IntArray | None = None,
        collate: Collate | None = None,
        seed: int = 0,
        is_shuffled: bool = True,
        stream: Stream | None = None,
        rows: IntArray | None = None,
        batch_factors: tuple[int, ...] = (1,),
    ) -> None:
        self.samples, self.seed, self._rows = samples, seed, rows
        self.lengths = np.ones(len(samples[0]), np.int64) if lengths is None else lengths
        own = getattr(samples[0], "collate_fn", None)
        self._given_collate = collate
        self.collate: Collate = collate or own or default_collate
        self.is_shuffled, self.stream, self.batch_factors = is_shuffled, stream, batch_factors
        # What samples draw at random comes from generators that the model draws from, too.
        self.is_threadsafe = hasattr(samples[0], "at_epoch")
        self.video = samples[0] if isinstance(samples[0], VideoClips) else None

    def select(self, indices: Sequence[int] | IntArray) -> UserClips:
        """Return these samples only."""
        chosen = np.asarray(indices, np.int64)
        rows = chosen if self._rows is None else self._rows[chosen]
        return self._changed(*self.samples, lengths=self.lengths[chosen], rows=rows)

    def _changed(self, *samples: Any, **changes: Any) -> UserClips:
        kept = {
            "lengths": self.lengths,
            "collate": self._given_collate,
            "seed": self.seed,
            "is_shuffled": self.is_shuffled,
            "rows": self._rows,
            "batch_factors": self.batch_factors,
        }
        return UserClips(*samples, **kept | changes)

    def __getitems__(self, draws: Sequence[Draw]) -> Batch:
        """Return the batch of these draws.

        A data set with `at_epoch(index, epoch)` is asked so: its draws are then the same wherever
        a training goes on. One that may drop samples returns None for them; a batch of nothing
        else has a replacement that does not count.
        """
        samples = self.samples[draws[0].turn]
        with own_draws() as seed_draws:
            items = [self._sample(samples, draw, seed_draws) for draw in draws]
            return self._collated(samples, items, draws)

    def _collated(self, samples: Any, items: list[Any], draws: Sequence[Draw]) -> Batch:
        counts = bool(draws[0].weight)
        if getattr(samples, "may_drop", False):
            pairs = [pair for pair in zip(draws, items, strict=True) if pair[1] is not None]
            counts = counts and bool(pairs)
            if not pairs:
                replacement = samples.replacement(self._row(draws[0]), draws[0].epoch)
                pairs = [(draws[0], replacement)]
            draws, items = [draw for draw, _ in pairs], [item for _, item in pairs]
        return make_user_batch(self.collate(items), [draw.clip for draw in draws], counts=counts)

    def _row(self, draw: Draw) -> int:
        return draw.clip if self._rows is None else int(self._rows[draw.clip])

    def _sample(self, samples: Any, draw: Draw, seed_draws: Callable[[int, int, int], None]) -> Any:
        if hasattr(samples, "at_epoch"):
            return samples.at_epoch(self._row(draw), draw.epoch)
        seed_draws(self.seed, draw.epoch, draw.clip)
        return samples[self._row(draw)]

    @property
    def grid(self) -> Grid | None:
        """How clips of video become shorter and smaller."""
        return None if self.video is None else grid_of(self.video)

    def in_shapes(self, shapes: tuple[Shape, ...]) -> UserClips:
        """Return clips of video in other shapes."""
        assert self.video is not None  # only these have a grid
        frames = shapes[0].num_frames
        return self._changed(
            *(self.video.reshaped(frames, shape.size) for shape in shapes),
            lengths=np.full(len(self), frames, np.int64),
            batch_factors=tuple(shape.batch for shape in shapes),
        )


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
