"""Batches of a `VideoClips` that are decoded where the network is, by loaders without workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from posemill.errors import DeviceError, TrainingError
from posemill.machine.read_ahead import read_ahead
from posemill.records import IntArray
from posemill.training.video.video_clips import Item, VideoClips

_AHEAD = 2


class DeviceLoader(ABC):
    """Yields batches as a `DataLoader` of the same clips does, their frames on the device.

    The same clips, frames, draws and rule for clips that cannot be opened; what the library itself
    cannot decode is an error. Frames are resized by it: pixels differ a little from those of the
    other decoders. Frames that `posemill frames` wrote need no decoder: use a `DataLoader`.

    Args:
        clips: Videos, whole ones.
        batch_size: Clips of a batch; the last one of an epoch may have fewer.
        device: `cuda`, `cuda:1` …, or `cpu`.
        is_shuffled: In an order by seed and epoch; by default as the clips are for training.

    Raises:
        MissingExtraError: The library is not installed.
        DeviceError: There is no such GPU.
    """

    name: ClassVar[str]  # of the library, as its users know it
    on_cpu: ClassVar[str]  # what it decodes without a GPU

    def __init__(
        self,
        clips: VideoClips,
        *,
        batch_size: int,
        device: str = "cuda",
        is_shuffled: bool | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size: expected 1 or more, got {batch_size}")
        self._check_clips(clips)
        self.device = self._check_device(device)
        self.clips, self.batch_size = clips, batch_size
        self.is_shuffled = clips.is_training if is_shuffled is None else is_shuffled
        self._epoch = 0

    def __len__(self) -> int:
        return -(-len(self.clips) // self.batch_size)

    def set_epoch(self, epoch: int) -> None:
        """Let order and draws of the next iteration be those of an epoch."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[Item]:
        order = np.arange(len(self.clips))
        if self.is_shuffled:
            order = np.random.default_rng([self.clips.seed, self._epoch]).permutation(order)
        starts = range(0, len(order), self.batch_size)
        pieces = [order[start : start + self.batch_size].tolist() for start in starts]
        epoch, self._epoch = self._epoch, self._epoch + 1
        yield from read_ahead((self._batch(piece, epoch) for piece in pieces), depth=_AHEAD)

    @abstractmethod
    def decode(self, paths: Sequence[str], numbers: Sequence[IntArray]) -> list[Tensor]:
        """Return `(T, height, width, 3)` uint8 on the device for each video, in the clips' size."""

    def _batch(self, piece: list[int], epoch: int) -> Item:
        found = [self.clips.plan(index, epoch) for index in piece]
        items = [item for item in found if item is not None]
        items = items or [self.clips.replacement(piece[0], epoch, self.clips._plan)]
        paths = [item.pop("path") for item in items]
        try:
            frames = self.decode(paths, [item.pop("indices") for item in items])
        except (RuntimeError, ValueError, IndexError) as error:
            raise TrainingError(
                f"{self.name} cannot decode a clip of this batch ({', '.join(paths[:3])} …): "
                f"{_reason(error)}"
            ) from error
        return self.clips.collate_fn(
            [{**item, "frames": one} for item, one in zip(items, frames, strict=True)]
        )

    def _check_device(self, name: str) -> torch.device:
        device = torch.device(name)
        if device.type == "cuda" and not torch.cuda.is_available():
            raise DeviceError(
                f"{self.name} was to decode on an NVIDIA GPU and torch sees none here; use a "
                f"DataLoader of the same clips, or device='cpu' for {self.on_cpu}"
            )
        if device.type not in ("cuda", "cpu"):
            raise DeviceError(f"device: expected cuda or cpu, got {name!r}")
        return device

    def _check_clips(self, clips: VideoClips) -> None:
        if any(place.kind != "video" for place in clips.clips):
            raise TrainingError(
                f"{self.name} decodes videos, and these clips are frames already: use a DataLoader"
            )
        if any(place.start_seconds or place.end_seconds for place in clips.clips):
            raise TrainingError(
                f"{self.name} is given whole videos: start_seconds and end_seconds need a "
                "DataLoader"
            )


def _reason(error: Exception) -> str:
    """Return the line of a page of text that says what happened; DALI's pages have a mark."""
    text = str(error)
    lines = [line.strip() for line in text.rpartition("encountered:")[2].splitlines()]
    return next(filter(None, lines), type(error).__name__)
