"""Batches ahead of the training: by loader processes, or by a thread of our own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import torch
from torch.utils.data import DataLoader

from posemill.training.batches import BucketSampler, make_loader
from posemill.training.config import TrainConfig
from posemill.training.distributed import World
from posemill.training.workload import Split

_BUCKET_BATCHES = 32
_END: Any = object()


class EpochLoader:
    """The batches of a split, epoch by epoch, from any position.

    Args:
        split: What to load.
        config: Batch sizes and loader settings, `num_workers` resolved.
        world: This process gets its share of every step.
        shuffle: In the order of seed and epoch (training), or as they are (evaluation).
        pins: Put batches into page-locked memory.
        in_thread: Load in a thread where there is no loader process.
    """

    def __init__(
        self,
        split: Split,
        config: TrainConfig,
        world: World,
        *,
        shuffle: bool,
        pins: bool = False,
        in_thread: bool = False,
    ) -> None:
        self.sampler = BucketSampler(
            split.lengths,
            config.batch_size,
            micro_batch_size=config.micro_batch,
            shuffle=shuffle,
            seed=config.seed,
            rank=world.rank,
            world_size=world.size,
            bucket_batches=_BUCKET_BATCHES if config.bucket_by_length else 0,
        )
        workers = max(0, config.num_workers)
        self._loader: DataLoader[Any] = make_loader(
            cast(Any, split.batches),
            self.sampler,
            num_workers=workers,
            pin_memory=pins,
            persistent_workers=config.persistent_workers and shuffle,
            prefetch_factor=config.prefetch_factor,
        )
        # Its own generator: the loader would draw from the global one at every epoch, and a
        # training that continues in the middle of an epoch would not be bit-equal.
        self._loader.generator = torch.Generator()
        self._ahead = config.prefetch_factor if in_thread and not workers else 0

    @property
    def num_steps(self) -> int:
        """Optimizer steps of an epoch."""
        return self.sampler.num_steps

    def epoch(self, epoch: int, start_step: int = 0) -> Iterator[Any]:
        """Yield the micro-batches of an epoch from a step on."""
        self.sampler.set_position(epoch, start_step)
        if self._ahead:
            yield from read_ahead(self._loader, self._ahead)
        else:
            yield from self._loader


def read_ahead(items: Iterable[Any], ahead: int) -> Iterator[Any]:
    """Yield the items, read by a thread up to `ahead` of them early; its errors are raised here."""
    source = iter(items)
    pool = ThreadPoolExecutor(1, thread_name_prefix="posemill-loader")
    try:
        pending = deque(pool.submit(next, source, _END) for _ in range(ahead))
        while (item := pending.popleft().result()) is not _END:
            pending.append(pool.submit(next, source, _END))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)
