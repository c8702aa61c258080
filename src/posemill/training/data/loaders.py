"""Batches ahead of the training: by loader processes, or by a thread of our own."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import DataLoader

from posemill.machine.read_ahead import read_ahead
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.batches import BucketSampler, start_worker
from posemill.training.data.clips import Clips, Loader
from posemill.training.runtime import Runtime


class EpochLoader:
    """The batches of a split, epoch by epoch, from any position; see `Loader`.

    `shuffle` gives the order of seed and epoch (training). For a GPU batches come from page-locked
    memory where the settings say so, and by a thread where there is no loader process.
    """

    def __init__(
        self, clips: Clips, config: TrainConfig, runtime: Runtime, *, shuffle: bool
    ) -> None:
        self.sampler = BucketSampler(
            clips.lengths,
            [config.batch_size * factor for factor in clips.batch_factors],
            micro_batch_sizes=[config.micro_batch * factor for factor in clips.batch_factors],
            shuffle=shuffle and clips.is_shuffled,
            seed=config.seed,
            rank=runtime.rank,
            world_size=runtime.size,
            bucket_batches=32 if config.bucket_by_length else 0,
        )
        workers = max(0, config.workers)
        ahead = {"persistent_workers": config.persistent_workers}
        self._loader = open_torch_loader(
            clips,
            config,
            runtime,
            workers=workers,
            batch_sampler=self.sampler,
            # The global one would be drawn from, which shifts every draw after it.
            generator=torch.Generator(),
            **(ahead | {"prefetch_factor": config.prefetch_factor} if workers else {}),
        )
        # What users' samples draw at random comes from generators that the model draws from, too.
        in_thread = config.parallel == "multi_thread" or runtime.is_on_gpu
        is_ahead = in_thread and clips.is_threadsafe and not workers
        self._ahead = config.prefetch_factor if is_ahead else 0

        self.num_steps = self.sampler.num_steps
        self.num_micro_batches = self.sampler.num_micro_batches
        self.padding_share = self.sampler.padding_share

    def batches(
        self, start: int = 0, stop: int = 1, *, start_step: int = 0
    ) -> Generator[Any, None, None]:
        """Yield the micro-batches of the epochs `start` to `stop` (exclusive), from a step on.

        It is one stream: loaders are ahead across epochs. Left early, it ends its loader processes.
        """
        self.sampler.set_position(start, start_step, stop_epoch=stop)
        with own_child_signals():
            source = iter(self._loader)
        try:
            yield from read_ahead(source, depth=self._ahead) if self._ahead else source
        except BaseException:
            if hasattr(source, "_shutdown_workers"):
                source._shutdown_workers()
            raise


def open_torch_loader(
    data: Any, config: TrainConfig, runtime: Runtime, *, workers: int, **options: Any
) -> DataLoader[Any]:
    """Return torch's loader of what makes whole batches by itself."""
    return DataLoader(
        data,
        collate_fn=_as_it_is,
        num_workers=workers,
        pin_memory=config.pin_memory and runtime.is_on_gpu,
        worker_init_fn=start_worker if workers else None,
        **options,
    )


def _as_it_is(batch: Any) -> Any:
    return batch


def open_loader(clips: Clips, config: TrainConfig, runtime: Runtime, *, shuffle: bool) -> Loader:
    """Return the loader of a split: of its stream, where it comes in an order of its own."""
    if clips.stream is not None:
        return clips.stream(config, runtime, is_training=shuffle)
    return EpochLoader(clips, config, runtime, shuffle=shuffle)


@contextmanager
def own_child_signals() -> Iterator[None]:
    """Undo what the block does to SIGCHLD.

    torch's loader lets every end of a child process look for dead loaders and raise, wherever the
    program is. Waiting for a batch it looks for itself, every five seconds.
    """
    is_main = threading.current_thread() is threading.main_thread()
    number = getattr(signal, "SIGCHLD", None)
    before = signal.getsignal(number) if is_main and number else None
    yield
    if number and before is not None:
        signal.signal(number, before)
