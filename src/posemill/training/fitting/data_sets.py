"""What `fit` may be given as data: a data set, an iterable one, or a ready loader."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, IterableDataset

from posemill.terminal import counted
from posemill.training.config.train_config import TrainConfig
from posemill.training.fitting.batches import Collate, UserBatches
from posemill.training.fitting.streams import (
    LoaderStream,
    SampleStream,
    known_length,
    take_apart,
)
from posemill.training.multigrid.video import reshape_video
from posemill.training.tasks.workload import Split, Stream, equal_lengths
from posemill.training.video.video_clips import VideoClips


class ReadData:
    """Makes splits of users' data; what is wrong with it is a `TypeError` or `ValueError`.

    Args:
        collate: Makes a batch of samples, or None.
        steps_per_epoch: Of training data without `len()`; 0 for none.
        config: The settings.
    """

    def __init__(self, collate: Collate | None, steps_per_epoch: int, config: TrainConfig) -> None:
        self._collate, self._steps, self._config = collate, steps_per_epoch, config
        self.notes: list[str] = []

    def split(self, name: str, samples: Any) -> Split:
        """Return the split of `train_set` or `val_set`."""
        if isinstance(samples, DataLoader):
            return self._of_loader(name, samples)
        has_items = hasattr(samples, "__getitem__") and hasattr(samples, "__len__")
        if isinstance(samples, IterableDataset) or (hasattr(samples, "__iter__") and not has_items):
            return self._of_iterable(name, samples)
        if not has_items:
            raise TypeError(f"{name}: expected len() and [index], got {type(samples).__name__}")
        if self._steps:
            raise ValueError(
                f"steps_per_epoch is for data without len(): an epoch of {name} is its "
                f"{counted(len(samples), 'samples')}; use max_steps to end earlier"
            )
        lengths = equal_lengths(known_length(samples, name))
        own = getattr(samples, "lengths", None)
        if own is not None and len(own) == len(samples):
            lengths = np.asarray(own, np.int64)
        made = Split(self._batches(samples), lengths)
        if isinstance(samples, VideoClips):
            made.reshape = reshape_video(made, samples, self._batches)
        return made

    def _batches(self, samples: Any) -> UserBatches:
        return UserBatches(samples, self._collate, seed=self._config.seed)

    def _of_iterable(self, name: str, samples: Any) -> Split:
        if iter(samples) is samples:
            raise TypeError(
                f"{name}: a {type(samples).__name__} can be read through once only; give an "
                "IterableDataset, whose iter() begins again"
            )
        if self._config.workers > 1:
            self.notes.append(
                f"--workers {self._config.workers}: one loader process reads {name}, as two would "
                "read the same samples of an iterable"
            )
        return self._of_stream(
            name, samples, SampleStream(samples, name, self._collate, self._steps)
        )

    def _of_loader(self, name: str, loader: DataLoader[Any]) -> Split:
        if self._collate is not None:
            raise TypeError(f"collate_fn: the DataLoader of {name} has its own; give one of them")
        parts = None if self._steps else take_apart(loader)
        if parts is not None:
            lengths = equal_lengths(known_length(parts.dataset, name))
            maker = UserBatches(parts.dataset, parts.collate, seed=self._config.seed)
            return Split(maker, lengths, is_shuffled=parts.is_shuffled)
        if name == "train_set":
            self.notes.append(
                "the DataLoader of train_set is used as it is: its sampler draws the order, and "
                f"one process trains ({loader.num_workers} loader processes of its own)"
            )
        each = 1
        if "batch_size" in self._config.given and loader.batch_size:
            each = max(1, round(self._config.batch_size / loader.batch_size))
        return self._of_stream(name, loader, LoaderStream(loader, name, self._steps, each))

    def _of_stream(self, name: str, source: Any, stream: Stream) -> Split:
        if name == "train_set" and not self._steps:
            known_length(source, name)
        return Split(UserBatches([]), equal_lengths(0), stream=stream)


def settings_of_loader(train_set: Any, given: Container[str]) -> dict[str, int]:
    """Return what a ready loader says of settings that were not given: its batch, its processes."""
    parts = take_apart(train_set) if isinstance(train_set, DataLoader) else None
    found = parts.settings if parts else {}
    return {name: value for name, value in found.items() if name not in given}
