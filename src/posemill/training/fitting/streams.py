"""Data that comes in an order of its own: an `IterableDataset`, or a ready `DataLoader`."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import count, islice
from typing import Any

import numpy as np
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
)

from posemill.training.config.train_config import TrainConfig
from posemill.training.data.batches import Batch
from posemill.training.data.clips import Loader
from posemill.training.data.loaders import open_torch_loader, own_child_signals
from posemill.training.fitting.user_clips import Collate, count_samples, make_user_batch
from posemill.training.runtime import Runtime, own_draws

_END = object()


def is_shuffled(loader: DataLoader[Any]) -> bool | None:
    """Return whether a ready loader shuffles; None where it does more than that.

    The order of the others can be drawn by us: every mode takes the same steps then, and a training
    that goes on is bit-equal.
    """
    sampler = loader.sampler
    is_stream = isinstance(loader.dataset, IterableDataset)
    if is_stream or type(loader.batch_sampler) is not BatchSampler:
        return None
    if loader.drop_last or loader.worker_init_fn or loader.generator is not None:
        return None
    if isinstance(sampler, RandomSampler):
        is_whole = not sampler.replacement and sampler.num_samples == len(sampler.data_source)
        return True if is_whole else None
    if type(sampler) in (SequentialSampler, DistributedSampler):
        return bool(getattr(sampler, "shuffle", False))
    return None


class _Grouped(IterableDataset[Batch]):
    """The samples of an iterable in batches: steps of `batch_size`, in passes of `micro_batch`.

    One loader process reads it at most: two would read the same samples.
    """

    def __init__(
        self, source: Any, collate: Collate | None, config: TrainConfig, *, begins_again: bool
    ) -> None:
        self._source, self._collate = source, collate or default_collate
        self._size, self._micro = config.batch_size, config.micro_batch
        self._seed, self.epoch, self._begins_again = config.seed, 0, begins_again

    def __iter__(self) -> Iterator[Batch]:
        items = _seeded(self._source, (self._seed, self.epoch), begins_again=self._begins_again)
        at = 0
        while samples := list(islice(items, self._size)):
            passes = -(-len(samples) // self._micro)
            for piece in np.array_split(np.arange(len(samples)), passes):
                values = self._collate([samples[row] for row in piece])
                yield make_user_batch(values, (at + piece).tolist())
            at += len(samples)


class StreamLoader(Loader):
    """The batches of data in an order of their own, epoch by epoch; see `Loader`.

    One process trains on them. What the data draw at random, their order too, follows from seed and
    epoch, so that a training that goes on has the same samples.

    Args:
        source: An iterable of samples (`set_epoch(epoch)` is called before each epoch, where it has
            it), or a ready loader, each of whose batches is passed at once.
        is_training: False where all of it is read once, by several processes in turn.
        name: `train_set` or `val_set`.
        steps_per_epoch: Begin again when it is read through, until there were so many steps.
        batches_per_step: Batches of a loader that are accumulated for one step.
    """

    def __init__(
        self,
        source: Any,
        config: TrainConfig,
        runtime: Runtime,
        *,
        is_training: bool,
        name: str,
        collate: Collate | None = None,
        steps_per_epoch: int = 0,
        batches_per_step: int = 1,
    ) -> None:
        self._source, self._name, self._runtime, self._seed = source, name, runtime, config.seed
        self._is_training = is_training
        self._begins_again = is_training and steps_per_epoch > 0
        # Samples of a step and of a pass; of a loader that is ready, batches.
        self._step_items, self._pass_items = batches_per_step, 1
        self._loader = source
        if not isinstance(source, DataLoader):
            self._step_items, self._pass_items = config.batch_size, config.micro_batch
            workers = min(1, max(0, config.workers))
            grouped = _Grouped(source, collate, config, begins_again=self._begins_again)
            self._loader = open_torch_loader(
                grouped, config, runtime, workers=workers, batch_size=None
            )
        self._num_items = steps_per_epoch * self._step_items
        if is_training and not self._num_items:
            self._num_items = known_length(source, name)
        self.num_steps = -(-self._num_items // self._step_items)

    def num_micro_batches(self, step: int) -> int:
        """Return how many batches a step has."""
        left = self._num_items - step * self._step_items
        return -(-min(self._step_items, left) // self._pass_items)

    def batches(
        self, start: int = 0, stop: int = 1, *, start_step: int = 0
    ) -> Generator[Any, None, None]:
        """Yield the batches of the epochs `start` to `stop` (exclusive), from a step on.

        In evaluations several processes take turns.
        """
        for epoch in range(start, stop):
            sampler: Any = getattr(self._source, "sampler", self._source)
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)
            first = start_step if epoch == start else 0
            skipped = sum(map(self.num_micro_batches, range(first)))
            for number, batch in enumerate(self._epoch(epoch)):
                is_ours = self._is_training or number % self._runtime.size == self._runtime.rank
                if number >= skipped and is_ours:
                    yield batch

    def _epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield all batches of an epoch; too few of a training are a `ValueError`."""
        total = sum(map(self.num_micro_batches, range(self.num_steps)))
        at = num_batches = 0
        if isinstance(grouped := self._loader.dataset, _Grouped):
            grouped.epoch = epoch
        numbers = (self._seed, epoch)
        for batch in _seeded(self._loader, numbers, begins_again=self._begins_again):
            if not isinstance(batch, Batch):
                num_samples = count_samples(batch)
                if num_samples is None:
                    raise ValueError(
                        f"{self._name}: cannot tell how many samples a batch of the DataLoader "
                        f"has: there is no tensor in a {type(batch).__name__}; give its dataset "
                        "and collate_fn to fit() instead"
                    )
                batch = make_user_batch(batch, range(at, at + num_samples))
            at, num_batches = at + len(batch), num_batches + 1
            yield batch
            if self._is_training and num_batches == total:
                return
        if self._is_training:
            raise ValueError(
                f"{self._name}: len() says {self._num_items}, but it gave {at} samples in "
                f"{num_batches} batches; correct its len(), or give steps_per_epoch"
            )


def _seeded(source: Any, numbers: tuple[int, int], *, begins_again: bool) -> Iterator[Any]:
    """Yield what an iterable gives; what it draws at random follows from seed, epoch and number."""
    # Where torch orders the samples and processes make them, all is drawn here at the start. Others
    # are seeded for every batch: one that draws as it goes (a shuffle buffer) would come in another
    # order after `resume`.
    is_seeded_once = (
        isinstance(source, DataLoader)
        and source.num_workers > 0
        and type(source.batch_sampler) in (BatchSampler, type(None))
        and type(source.sampler).__module__.startswith("torch.utils.data.")
    )
    items: Iterator[Any] = iter(())
    is_open = True
    for number in count():
        value = next(items, _END) if is_seeded_once else _END
        if value is _END:
            with own_draws() as seed_draws, own_child_signals():
                seed_draws(*numbers, number)
                value = next(items, _END)
                if value is _END and is_open:
                    items = iter(source)
                    value = next(items, _END)
                    is_open = begins_again and value is not _END
        if value is _END:
            return
        yield value


def known_length(source: Any, name: str) -> int:
    """Return `len()`; a stream without one is a `ValueError` that says what to give."""
    try:
        count = len(source)
    except TypeError as error:
        raise ValueError(
            f"{name}: a {type(source).__name__} without len() does not say how long an epoch is; "
            "give steps_per_epoch"
        ) from error
    if not count:
        raise ValueError(f"{name}: expected samples, got none")
    return count
