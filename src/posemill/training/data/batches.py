"""Batches: clips of like length padded together, in an order that only the seed decides.

The order is drawn for all ranks together and then dealt out, so one process, several processes and
any accumulation see the same clips in the same step. Each draw carries its epoch: augmentation
depends on seed, epoch and clip alone, never on which worker made the batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import Sampler

from posemill.machine.processes import thread_variables
from posemill.records import IntArray


class Draw(NamedTuple):
    """One clip of a batch: its place in the set, the epoch, its weight (0: only fills up).

    `turn` is the place of its batch in a cycle of batch sizes.
    """

    clip: int
    epoch: int = 0
    weight: float = 1.0
    turn: int = 0


@dataclass
class Batch:
    """Samples of one forward pass, of whatever kind.

    `inputs` are what a model is called with, tuples in it where there are several streams.
    Keypoints: points `(B, T, K, D)` float32, 0 where missing or padded, mask `(B, T, K)` bool,
    lengths. Video: frames `(B, T, height, width, 3)` uint8 RGB, black where padded, or features
    `(B, T, C)` float32 of a frozen backbone; lengths; view `(B, 12)` float32, how each clip is
    augmented, or `(B, 0)`. Of `fit`: what the collate function returned.
    """

    inputs: Any
    targets: Any  # `(B,)` int64 classes, or `(B, L)` glosses padded with 0; of `fit` any
    indices: torch.Tensor  # `(B,)` int64, where each sample is in its set, or in its stream
    weights: torch.Tensor  # `(B,)`, 0 for a sample that fills up a rank's share
    lengths: Any = None  # `(B,)` int64, frames of each clip; None of `fit`
    target_lengths: Any = None  # `(B,)` int64, 1 for classes; None of `fit`

    def __len__(self) -> int:
        return len(self.indices)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        """Return the batch on a device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        """Return the batch in page-locked memory; the loader calls it."""
        return self._each(lambda tensor: tensor.pin_memory())

    def _each(self, function: Callable[[Any], Any]) -> Batch:
        seen: dict[int, Any] = {}  # lengths are among the inputs, too: moved once
        return Batch(*(_each_tensor(getattr(self, f.name), function, seen) for f in fields(self)))


def _each_tensor(value: Any, function: Callable[[Any], Any], seen: dict[int, Any]) -> Any:
    """Return a value with every tensor in it after a function."""
    if isinstance(value, torch.Tensor) or (hasattr(value, "to") and hasattr(value, "pin_memory")):
        if id(value) not in seen:
            seen[id(value)] = function(value)
        return seen[id(value)]
    if isinstance(value, (list, tuple)):
        parts = [_each_tensor(part, function, seen) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, Mapping):
        return {key: _each_tensor(part, function, seen) for key, part in value.items()}
    return value


def pad_targets(
    targets: Sequence[int | IntArray], draws: Sequence[Draw]
) -> dict[str, torch.Tensor]:
    """Return `targets`, `target_lengths`, `indices` and `weights` of a batch."""
    found = [np.atleast_1d(np.asarray(target, np.int64)) for target in targets]
    padded = np.zeros((len(found), max(1, *(len(target) for target in found))), np.int64)
    for row, target in enumerate(found):
        padded[row, : len(target)] = target
    is_sequence = np.ndim(targets[0]) == 1
    return {
        "targets": torch.from_numpy(padded if is_sequence else padded[:, 0]),
        "target_lengths": torch.tensor([len(target) for target in found]),
        "indices": torch.tensor([draw.clip for draw in draws]),
        "weights": torch.tensor([draw.weight for draw in draws], dtype=torch.float32),
    }


class BucketSampler(Sampler[list[Draw]]):
    """Yields the draws of each micro-batch of one rank; clips of like length come together.

    `batch_sizes` are the clips of an optimizer step over all ranks, for the steps in turn;
    `micro_batch_sizes` are the most of a rank's forward pass, for each batch size. Clips are sorted
    by length within so many batches as `bucket_batches` says, over all without `shuffle`; 0 does
    not sort.
    """

    def __init__(
        self,
        lengths: IntArray,
        batch_sizes: Sequence[int],
        *,
        micro_batch_sizes: Sequence[int] = (),
        shuffle: bool = True,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        bucket_batches: int = 32,
    ) -> None:
        if min(batch_sizes) < 1 or not len(lengths):
            raise ValueError(
                f"expected clips and a batch of 1 or more, got {len(lengths)} clips, "
                f"batches {batch_sizes}"
            )
        self.lengths = np.asarray(lengths)
        self.batch_sizes = tuple(min(size, len(lengths)) for size in batch_sizes)
        self.micro_batch_sizes = tuple(micro_batch_sizes) or self.batch_sizes
        self.shuffle, self.seed, self.bucket_batches = shuffle, seed, bucket_batches
        self.rank, self.world_size = rank, world_size
        self.set_position(0)
        self._starts = [0]  # where each batch of an epoch begins, and the end of the last
        for size in cycle(self.batch_sizes):
            self._starts.append(min(len(lengths), self._starts[-1] + size))
            if self._starts[-1] == len(lengths):
                break
        self.num_steps = len(self._starts) - 1  # of an epoch, the same on all ranks

    def num_micro_batches(self, step: int) -> int:
        """Return how many micro-batches a step has; the same on all ranks."""
        of_one_rank = -(-(self._starts[step + 1] - self._starts[step]) // self.world_size)
        return -(-of_one_rank // self.micro_batch_sizes[step % len(self.batch_sizes)])

    def padding_share(self, most_steps: int = 200) -> float:
        """Return the share of the frames of an epoch's batches that only fill up shorter clips."""
        held = filled = 0
        for step, batch in enumerate(self._batches(self.epoch)[:most_steps]):
            for piece in self._share(batch, step, self.epoch):
                lengths = self.lengths[[draw.clip for draw in piece]]
                held += int(lengths.sum())
                filled += int(lengths.max()) * len(lengths)
        return 1 - held / filled if filled else 0.0

    def set_position(self, epoch: int, step: int = 0, *, stop_epoch: int | None = None) -> None:
        """Let the next iteration begin before a step of an epoch; by default it is of that one."""
        self.epoch, self.step = epoch, step
        self.stop_epoch = epoch + 1 if stop_epoch is None else stop_epoch

    def __iter__(self) -> Iterator[list[Draw]]:
        first_epoch, first_step = self.epoch, self.step  # another iteration may move them
        for epoch in range(first_epoch, self.stop_epoch):
            for step, batch in enumerate(self._batches(epoch)):
                if epoch > first_epoch or step >= first_step:
                    yield from self._share(batch, step, epoch)

    def _batches(self, epoch: int) -> list[IntArray]:
        """The whole epoch for all ranks: a list of arrays of clip indices."""
        count, turns = len(self.lengths), len(self.batch_sizes)
        if not self.shuffle:
            by_length = np.argsort(self.lengths, kind="stable")
            order = by_length if self.bucket_batches else np.arange(count)
            return np.split(order, self._starts[1:-1])
        rng = np.random.default_rng([self.seed, epoch])
        order = rng.permutation(count)
        if self.bucket_batches:
            chunk = sum(self.batch_sizes) * self.bucket_batches // turns
            parts = np.split(order, range(chunk, count, chunk))
            sorted_parts = [part[np.argsort(self.lengths[part], kind="stable")] for part in parts]
            order = np.concatenate(sorted_parts)
        batches = np.split(order, self._starts[1:-1])
        # The short batch stays last, so that every step but the last has the same size.
        is_full = len(batches[-1]) == self.batch_sizes[(len(batches) - 1) % turns]
        num_full = len(batches) if is_full else len(batches) - 1
        for turn in range(turns):  # each among those of its size
            alike = batches[turn:num_full:turns]
            batches[turn:num_full:turns] = [alike[i] for i in rng.permutation(len(alike))]
        return batches

    def _share(self, batch: IntArray, step: int, epoch: int) -> Iterator[list[Draw]]:
        """This rank's part of a step's micro-batches, filled up where it is smaller."""
        mine, turn = batch[self.rank :: self.world_size], step % len(self.batch_sizes)
        for piece in np.array_split(mine, self.num_micro_batches(step)):
            draws = [Draw(int(index), epoch, turn=turn) for index in piece]
            yield draws or [Draw(int(batch[0]), epoch, 0.0, turn)]


def start_worker(_: int) -> None:
    """Let a loader process compute with one thread."""
    torch.set_num_threads(1)
    os.environ.update(thread_variables(1))
