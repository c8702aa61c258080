"""Batches of a `VideoClips` that NVIDIA DALI or torchcodec decode where the network is.

    pip install 'posemill[dali]'         # or 'posemill[torchcodec]', and its build for CUDA

    train = posemill.VideoClips("videos", is_training=True)
    for batch in DaliLoader(train, batch_size=8, device="cuda"):  # or TorchcodecLoader
        ...

Nothing of it was measured on a GPU: the machines this was made on have none. On a CPU its batches
are checked: torchcodec's, and those of the codecs that DALI decodes there (VP8, VP9, MJPEG).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.dlpack import from_dlpack

from posemill import VideoClips
from posemill.errors import DeviceError, MissingExtraError, TrainingError
from posemill.machine.read_ahead import read_ahead
from posemill.records import IntArray
from posemill.training.video.reading import FrameSize
from posemill.training.video.video_clips import Item

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
        found = [self.clips.at_epoch(index, epoch, is_planned=True) for index in piece]
        items = [item for item in found if item is not None]
        items = items or [self.clips.replacement(piece[0], epoch, is_planned=True)]
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


class DaliLoader(DeviceLoader):
    """A `DeviceLoader` on DALI, which does not look at rotation tags.

    Args:
        clips: Videos, whole ones.
        threads: Of DALI on the CPU.
        options: As `DeviceLoader` has them.
    """

    name = "DALI"
    on_cpu = "VP8, VP9 and MJPEG"

    def __init__(self, clips: VideoClips, *, threads: int = 2, **options: Any) -> None:
        super().__init__(clips, **options)
        if threads < 1:
            raise ValueError(f"threads: expected 1 or more, got {threads}")
        self._pipeline = self._build(_import_dali(), threads)

    def decode(self, paths: Sequence[str], numbers: Sequence[IntArray]) -> list[Tensor]:
        """Return `(T, height, width, 3)` uint8 on the device for each video, in the clips' size."""
        (decoded,) = self._pipeline.run(
            videos=[np.fromfile(path, np.uint8) for path in paths],
            numbers=[each.astype(np.int32) for each in numbers],
        )
        # copies: DALI's own memory is for the next batch
        return [from_dlpack(decoded[row]).clone() for row in range(len(paths))]

    def _build(self, dali: Any, threads: int) -> Any:
        is_gpu = self.device.type == "cuda"
        pipeline = dali.Pipeline(
            batch_size=self.batch_size,
            num_threads=threads,
            device_id=(self.device.index or 0) if is_gpu else None,
            prefetch_queue_depth=1,
            exec_dynamic=True,
        )
        with pipeline:
            fn = dali.fn
            videos = fn.external_source(name="videos", ndim=1, dtype=dali.types.UINT8)
            numbers = fn.external_source(name="numbers", ndim=1, dtype=dali.types.INT32)
            frames = fn.decoders.video(videos, frames=numbers, device="mixed" if is_gpu else "cpu")
            size = self.clips.size
            if size.size_wh is not None:
                width, height = size.size_wh
                mode = "stretch" if size.resize == "stretch" else "not_smaller"
                frames = fn.resize(frames, size=(height, width), mode=mode)
                if size.resize == "crop":
                    frames = fn.crop(frames, crop=(height, width), rounding="truncate")
            pipeline.set_outputs(frames)
        pipeline.build()
        return pipeline


def _import_dali() -> Any:
    try:
        import_module("nvidia.dali.fn")
        return import_module("nvidia.dali")
    except ImportError as error:
        raise MissingExtraError(
            "the loader on DALI needs 'nvidia.dali' (Linux, NVIDIA); run: pip install "
            "'posemill[dali]'"
        ) from error


class TorchcodecLoader(DeviceLoader):
    """A `DeviceLoader` on torchcodec, in its exact mode.

    Args:
        clips: Videos, whole ones.
        options: As `DeviceLoader` has them.
    """

    name = "torchcodec"
    on_cpu = "all that FFmpeg decodes"

    def __init__(self, clips: VideoClips, **options: Any) -> None:
        super().__init__(clips, **options)
        self._decoder = _import_decoder()

    def decode(self, paths: Sequence[str], numbers: Sequence[IntArray]) -> list[Tensor]:
        """Return `(T, height, width, 3)` uint8 on the device for each video, in the clips' size."""
        return [
            resize_on_device(self._frames(path, each.tolist()), self.clips.size)
            for path, each in zip(paths, numbers, strict=True)
        ]

    def _frames(self, path: str, numbers: list[int]) -> Tensor:
        decoder = self._decoder(
            path, dimension_order="NCHW", num_ffmpeg_threads=1, seek_mode="exact",
            device=str(self.device),
        )  # fmt: skip
        frames: Tensor = decoder.get_frames_at(numbers).data
        return frames


def resize_on_device(frames: Tensor, size: FrameSize) -> Tensor:
    """Return `(T, height, width, 3)` uint8 of `(T, 3, height, width)`, in a size."""
    height, width = frames.shape[-2:]
    wide, high = size.scaled_wh((width, height))
    if (wide, high) != (width, height):
        scaled = functional.interpolate(
            frames.float(), (high, wide), mode="bilinear", align_corners=False, antialias=True
        )
        frames = scaled.round_().clamp_(0, 255).to(torch.uint8)
    if size.size_wh is not None:
        to_width, to_height = size.size_wh
        top, left = (high - to_height) // 2, (wide - to_width) // 2
        frames = frames[..., top : top + to_height, left : left + to_width]
    return frames.permute(0, 2, 3, 1).contiguous()


def _import_decoder() -> Any:
    try:
        return import_module("torchcodec.decoders").VideoDecoder
    except ImportError as error:
        raise MissingExtraError(
            "the loader on torchcodec needs 'torchcodec'; run: pip install 'posemill[torchcodec]'"
        ) from error
    except (RuntimeError, OSError) as error:
        raise MissingExtraError(
            "torchcodec cannot load FFmpeg's shared libraries, or is not for this torch (0.13 goes "
            "with 2.13); on Debian run: apt install ffmpeg"
        ) from error
