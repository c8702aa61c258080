"""A user's data set as clips, and its samples in batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from posemill.records import IntArray
from posemill.training.data.batches import Batch, Draw
from posemill.training.data.clips import Clips, Grid, Loader, Shape, keep_readable
from posemill.training.runtime import own_draws
from posemill.training.video.pixel_clips import grid_of
from posemill.training.video.video_clips import VideoClips

Collate = Callable[[list[Any]], Any]


def make_user_batch(values: Any, indices: Sequence[int], *, counts: bool = True) -> Batch:
    """Return the batch of what a collate function made of some samples.

    `values` are `(input, …, target)`, a dict with or without `target`, or anything; a batch that
    only fills up a rank's share does not count.
    """
    target = values
    if isinstance(values, (tuple, list)):
        target = values[-1]
    elif isinstance(values, Mapping):
        target = values.get("target", values)
    weights = torch.full((len(indices),), float(counts))
    return Batch(values, target, torch.tensor(indices, dtype=torch.int64), weights)


class UserClips(Clips):
    """A user's data set; see `Clips`.

    `collate` makes a batch of a list of samples; by default the data set's own `collate_fn`, or
    torch's. Seed, epoch and index decide what a sample draws at random. Of a `stream` samples are
    not used.
    """

    def __init__(
        self,
        samples: Any,
        *,
        lengths: IntArray | None = None,
        collate: Collate | None = None,
        seed: int = 0,
        is_shuffled: bool = True,
        stream: Callable[..., Loader] | None = None,
    ) -> None:
        self._by_turn = [samples]  # in the shape of each batch of an epoch in turn
        self._rows = np.arange(len(samples))
        self.lengths = np.ones(len(samples), np.int64) if lengths is None else lengths
        self._collate, self._seed = collate, seed
        self.is_shuffled, self.stream = is_shuffled, stream
        # What samples draw at random comes from generators that the model draws from, too.
        self.is_threadsafe = hasattr(samples, "at_epoch")
        self.video = samples if isinstance(samples, VideoClips) else None

    def select(self, indices: Sequence[int] | IntArray) -> UserClips:
        """Return these samples only."""
        chosen, selected = np.asarray(indices, np.int64), copy.copy(self)
        selected.lengths, selected._rows = self.lengths[chosen], self._rows[chosen]
        return selected

    def __getitems__(self, draws: Sequence[Draw]) -> Batch:
        """Return the batch of these draws.

        A data set with `at_epoch(index, epoch)` is asked so: its draws are then the same wherever
        a training goes on. One that may drop samples returns None for them.
        """
        samples, items = self._by_turn[draws[0].turn], []
        collate: Collate = self._collate or getattr(samples, "collate_fn", None) or default_collate
        with own_draws() as seed_draws:
            for draw in draws:
                row = int(self._rows[draw.clip])
                if hasattr(samples, "at_epoch"):
                    items.append(samples.at_epoch(row, draw.epoch))
                else:
                    seed_draws(self._seed, draw.epoch, draw.clip)
                    items.append(samples[row])
            if getattr(samples, "may_drop", False):
                draws, items = keep_readable(samples, draws, items, self._rows)
            counts = bool(draws[0].weight)
            return make_user_batch(collate(items), [draw.clip for draw in draws], counts=counts)

    @property
    def grid(self) -> Grid | None:
        """How clips of video become shorter and smaller."""
        return None if self.video is None else grid_of(self.video)

    def in_shapes(self, shapes: tuple[Shape, ...]) -> UserClips:
        """Return clips of video in other shapes."""
        assert self.video is not None  # only these have a grid
        frames, reshaped = shapes[0].num_frames, copy.copy(self)
        reshaped._by_turn = [self.video.reshaped(frames, shape.size) for shape in shapes]
        reshaped.video = reshaped._by_turn[0]
        reshaped.lengths = np.full(len(self), frames, np.int64)
        reshaped.batch_factors = tuple(shape.batch for shape in shapes)
        return reshaped


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
