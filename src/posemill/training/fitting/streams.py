"""Data that comes in an order of its own: an `IterableDataset`, or a ready `DataLoader`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

import numpy as np
import torch
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
from posemill.training.data.batches import Batch, BucketSampler, start_worker
from posemill.training.data.loaders import own_child_signals
from posemill.training.fitting.user_clips import Collate, count_samples, make_user_batch
from posemill.training.runtime import Runtime, own_draws, random_states_kept, seed_everything

_END = object()


@dataclass
class LoaderParts:
    """What a ready loader says, where its order can be drawn by us as well."""

    dataset: Any
    collate: Collate
    is_shuffled: bool
    settings: Mapping[str, int]


def take_apart(loader: DataLoader[Any]) -> LoaderParts | None:
    """Return the parts of a loader that only shuffles or does not, None where it does more.

    Then every mode takes the same steps, and a training that goes on is bit-equal: the order of
    other loaders is their own.
    """
    sampler, batches = loader.sampler, loader.batch_sampler
    if isinstance(loader.dataset, IterableDataset) or type(batches) is not BatchSampler:
        return None
    if loader.drop_last or loader.worker_init_fn or loader.generator is not None:
        return None
    if isinstance(sampler, RandomSampler):
        is_plain = not sampler.replacement and sampler.num_samples == len(sampler.data_source)
        is_shuffled = True
    else:
        is_plain = type(sampler) in (SequentialSampler, DistributedSampler)
        is_shuffled = bool(getattr(sampler, "shuffle", False))
    if not is_plain:
        return None
    size = batches.batch_size
    settings = {"batch_size": size, "micro_batch": size, "workers": loader.num_workers}
    return LoaderParts(loader.dataset, loader.collate_fn, is_shuffled, settings)


class SampleStream:
    """An iterable data set. Every process reads all of it and keeps its share of each step.

    One loader process reads it at most: two would read the same samples.

    Args:
        dataset: `iter()` gives the samples of an epoch; `set_epoch(epoch)` is called before, where
            it has it.
        name: `train_set` or `val_set`, for messages.
        collate: Makes a batch of samples.
        steps_per_epoch: Begin again when it is read through, until there were so many steps.
    """

    is_divisible = True

    def __init__(
        self, dataset: Any, name: str, collate: Collate | None = None, steps_per_epoch: int = 0
    ) -> None:
        self.dataset, self.name = dataset, name
        self.collate, self.steps_per_epoch = collate or default_collate, steps_per_epoch

    def open(self, config: TrainConfig, runtime: Runtime, *, is_training: bool) -> StreamLoader:
        """Return the loader of one process."""
        return _SampleLoader(self, config, runtime, is_training=is_training)


class LoaderStream:
    """A ready loader, used as it is: each of its batches is passed at once.

    Args:
        loader: Its order, its size of batches, its processes.
        name: `train_set` or `val_set`, for messages.
        steps_per_epoch: Begin again when it is read through, until there were so many steps.
        batches_per_step: Batches that are accumulated for one step.
    """

    is_divisible = False

    def __init__(
        self, loader: Any, name: str, steps_per_epoch: int = 0, batches_per_step: int = 1
    ) -> None:
        self.loader, self.name = loader, name
        self.steps_per_epoch, self.batches_per_step = steps_per_epoch, batches_per_step

    def open(self, config: TrainConfig, runtime: Runtime, *, is_training: bool) -> StreamLoader:
        """Return the loader of one process."""
        return _ReadyLoader(self, config, runtime, is_training)


class StreamLoader(ABC):
    """The batches of a stream, epoch by epoch; as `EpochLoader`."""

    def __init__(
        self, stream: SampleStream | LoaderStream, num_items: int, step_items: int
    ) -> None:
        self._stream = stream
        self._num_items, self._step_items = num_items, step_items

    @property
    def num_steps(self) -> int:
        """Optimizer steps of an epoch."""
        return -(-self._num_items // self._step_items)

    @abstractmethod
    def num_micro_batches(self, step: int) -> int:
        """Return how many batches a step has."""

    def padding_share(self) -> float | None:
        """Return None: lengths are known when samples come."""
        return None

    @abstractmethod
    def batches(
        self, start: int = 0, stop: int = 1, *, start_step: int = 0
    ) -> Generator[Any, None, None]:
        """Yield the batches of the epochs `start` to `stop` (exclusive), from a step on."""

    def _items(self, source: Any, *, is_training: bool) -> Iterator[Any]:
        """Yield what an epoch has; training begins again where `steps_per_epoch` asks for it."""
        found = 0
        while True:
            before = found
            for item in source:
                found += 1
                yield item
            if not is_training or found >= self._num_items:
                return
            if not self._stream.steps_per_epoch or found == before:
                kind = "samples" if isinstance(self._stream, SampleStream) else "batches"
                raise ValueError(
                    f"{self._stream.name}: len() says {self._num_items} {kind}, but it gave "
                    f"{found}; correct its len(), or give steps_per_epoch"
                )


class _SampleLoader(StreamLoader, IterableDataset[Batch]):
    """Cuts the samples of a stream into batches; itself what a loader process reads from."""

    _stream: SampleStream

    def __init__(
        self,
        stream: SampleStream,
        config: TrainConfig,
        runtime: Runtime,
        *,
        is_training: bool,
    ) -> None:
        size = config.batch_size
        count = stream.steps_per_epoch * size
        if is_training and not count:
            count = known_length(stream.dataset, stream.name)
        super().__init__(stream, count, min(size, count or size))
        self._runtime, self._is_training = runtime, is_training
        self._micro, self._seed = config.micro_batch, config.seed
        # Knows how many micro-batches a step has. One number stands for all lengths.
        self._sampler = BucketSampler(
            np.broadcast_to(np.int64(1), (count or size,)),
            size,
            micro_batch_size=config.micro_batch,
            rank=runtime.rank,
            world_size=runtime.size,
        )
        self._pins = config.pin_memory and runtime.is_on_gpu
        self._workers = min(1, max(0, config.workers))
        self._range = (0, 1, 0)

    def num_micro_batches(self, step: int) -> int:
        """Return how many batches a step has; the same on all ranks."""
        return self._sampler.num_micro_batches(step)

    def batches(
        self, start: int = 0, stop: int = 1, *, start_step: int = 0
    ) -> Generator[Any, None, None]:
        """Yield the micro-batches of the epochs, this rank's share."""
        self._range = (start, stop, start_step)
        options: dict[str, Any] = {"worker_init_fn": start_worker} if self._workers else {}
        loader: DataLoader[Any] = DataLoader(
            self,
            batch_size=None,
            num_workers=self._workers,
            pin_memory=self._pins,
            generator=torch.Generator(),
            **options,
        )
        with own_child_signals():
            source = iter(loader)
        yield from source

    def __iter__(self) -> Iterator[Batch]:
        start, stop, start_step = self._range
        for epoch in range(start, stop):
            if hasattr(self._stream.dataset, "set_epoch"):
                self._stream.dataset.set_epoch(epoch)
            items = self._seeded(epoch)
            first = start_step if epoch == start else 0
            if self._is_training:
                yield from self._training_steps(items, first)
            else:
                yield from self._all(items)

    def _seeded(self, epoch: int) -> Iterator[Any]:
        """Yield the samples of an epoch; what each draws at random follows from the seed."""
        items = self._items(self._stream.dataset, is_training=self._is_training)
        for number in count():
            with own_draws() as seed_draws:
                seed_draws(self._seed, epoch, number)
                sample = next(items, _END)
            if sample is _END:
                return
            yield sample

    def _training_steps(self, items: Iterator[Any], first: int) -> Iterator[Batch]:
        size = self._step_items
        at = sum(1 for _ in islice(items, first * size))
        for step in range(first, self.num_steps):
            samples = list(islice(items, min(size, self._num_items - at)))
            mine = range(self._runtime.rank, len(samples), self._runtime.size)
            for piece in np.array_split(np.asarray(mine), self.num_micro_batches(step)):
                yield self._batch(samples, piece.tolist() or [0], at, counts=len(piece) > 0)
            at += len(samples)

    def _all(self, items: Iterator[Any]) -> Iterator[Batch]:
        """Yield all of an evaluation, which may end when it likes."""
        at, size = 0, self._micro * self._runtime.size
        while samples := list(islice(items, size)):
            if mine := list(range(self._runtime.rank, len(samples), self._runtime.size)):
                yield self._batch(samples, mine, at, counts=True)
            at += len(samples)

    def _batch(self, samples: list[Any], rows: list[int], at: int, *, counts: bool) -> Batch:
        values = self._stream.collate([samples[row] for row in rows])
        return make_user_batch(values, [at + row for row in rows], counts=counts)


class _ReadyLoader(StreamLoader):
    """Passes on the batches of a user's loader; in evaluations each rank takes its turns."""

    _stream: LoaderStream

    def __init__(
        self, stream: LoaderStream, config: TrainConfig, runtime: Runtime, is_training: bool
    ) -> None:
        each = stream.batches_per_step
        count = stream.steps_per_epoch * each
        if is_training and not count:
            count = known_length(stream.loader, stream.name)
        super().__init__(stream, count, each)
        self._seed, self._runtime, self._is_training = config.seed, runtime, is_training

    def num_micro_batches(self, step: int) -> int:
        """Return how many batches a step has."""
        return min(self._step_items, self._num_items - step * self._step_items)

    def batches(
        self, start: int = 0, stop: int = 1, *, start_step: int = 0
    ) -> Generator[Any, None, None]:
        """Yield the batches of the epochs; the loader's draws depend on seed and epoch alone."""
        for epoch in range(start, stop):
            source = _Seeded(self._stream.loader, self._seed, epoch)
            items: Iterator[Any] = enumerate(self._items(source, is_training=self._is_training))
            skipped = start_step * self._step_items if epoch == start else 0
            if skipped:
                with random_states_kept():
                    for _ in islice(items, skipped):
                        pass
            if self._is_training:
                items = islice(items, self._num_items - skipped)
            at = 0
            for number, values in items:
                count = self._count(values)
                if self._is_training or number % self._runtime.size == self._runtime.rank:
                    yield make_user_batch(values, range(at, at + count))
                at += count

    def _count(self, values: Any) -> int:
        count = count_samples(values)
        if count is None:
            raise ValueError(
                f"{self._stream.name}: cannot tell how many samples a batch of the DataLoader has: "
                f"there is no tensor in a {type(values).__name__}; give its dataset and collate_fn "
                "to fit() instead"
            )
        return count


class _Seeded:
    """An epoch of a loader whose first draws, which make the order, follow from a seed."""

    def __init__(self, loader: Any, seed: int, epoch: int) -> None:
        self._loader, self._seed, self._epoch = loader, seed, epoch

    def __iter__(self) -> Iterator[Any]:
        sampler: Any = getattr(self._loader, "sampler", None)
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(self._epoch)
        with random_states_kept(), own_child_signals():
            seed_everything(self._seed * 1_000_003 + self._epoch)
            items = iter(self._loader)
            first = list(islice(items, 1))
        yield from first
        yield from items


def known_length(source: Iterable[Any], name: str) -> int:
    """Return `len()`; a stream without one is a `ValueError` that says what to give."""
    try:
        count = len(source)  # type: ignore[arg-type]
    except TypeError as error:
        raise ValueError(
            f"{name}: a {type(source).__name__} without len() does not say how long an epoch is; "
            "give steps_per_epoch"
        ) from error
    if not count:
        raise ValueError(f"{name}: expected samples, got none")
    return count
