"""`DaliLoader`: the batches of a `VideoClips`, decoded by NVIDIA DALI on a GPU.

For the extra `dali`. Nothing of it was measured: the machines this was made on have no GPU. What
can be checked without one, on the codecs that DALI decodes on a CPU (VP8, VP9, MJPEG), is.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from posemill.errors import DeviceError, MissingExtraError, TrainingError
from posemill.machine.read_ahead import read_ahead
from posemill.training.video.video_clips import Item, VideoClips

_AHEAD = 2


class DaliLoader:
    """Yields batches as a `DataLoader` of the same clips does, their frames on the device.

    The same clips, frames, draws and rule for clips that cannot be opened; what DALI itself cannot
    decode is an error. Rotation tags are not looked at, and frames are resized by DALI: pixels
    differ a little from those of the other decoders. Frames that `posemill frames` wrote need no
    decoder: use a `DataLoader` for them.

    Args:
        clips: Videos, whole ones.
        batch_size: Clips of a batch; the last one of an epoch may have fewer.
        device: `cuda`, `cuda:1` …, or `cpu`, where DALI reads VP8, VP9 and MJPEG only.
        is_shuffled: In an order by seed and epoch; by default as the clips are for training.
        threads: Of DALI on the CPU.

    Raises:
        MissingExtraError: DALI is not installed.
        DeviceError: There is no such GPU.
    """

    def __init__(
        self,
        clips: VideoClips,
        *,
        batch_size: int,
        device: str = "cuda",
        is_shuffled: bool | None = None,
        threads: int = 2,
    ) -> None:
        if batch_size < 1 or threads < 1:
            raise ValueError(
                f"expected a batch and threads of 1 or more, got {batch_size} and {threads}"
            )
        _check_clips(clips)
        self.device = _check_device(device)
        dali = _import_dali()
        self.clips, self.batch_size = clips, batch_size
        self.is_shuffled = clips.is_training if is_shuffled is None else is_shuffled
        self._epoch = 0
        self._pipeline = _build(
            dali, clips, self.device, batch_size=batch_size, num_threads=threads
        )

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

    def _batch(self, piece: list[int], epoch: int) -> Item:
        found = [self.clips.plan(index, epoch) for index in piece]
        items = [item for item in found if item is not None]
        items = items or [self.clips.replacement(piece[0], epoch, self.clips._plan)]
        videos = [np.fromfile(item.pop("path"), np.uint8) for item in items]
        numbers = [item.pop("indices").astype(np.int32) for item in items]
        try:
            (decoded,) = self._pipeline.run(videos=videos, numbers=numbers)
            for row, item in enumerate(items):
                # a copy: DALI's own memory is for the next batch
                item["frames"] = from_dlpack(decoded[row]).clone()
        except RuntimeError as error:
            names = ", ".join(self.clips.clips[item["index"]].path for item in items[:3])
            raise TrainingError(
                f"DALI cannot decode a clip of this batch ({names} …): {_reason(error)}"
            ) from error
        return self.clips.collate_fn(items)


def _reason(error: Exception) -> str:
    """Return the line of DALI's page of text that says what happened."""
    lines = [line.strip() for line in str(error).partition("encountered:")[2].splitlines()]
    return next(filter(None, lines), str(error).splitlines()[0])


def _import_dali() -> Any:
    try:
        import_module("nvidia.dali.fn")
        return import_module("nvidia.dali")
    except ImportError as error:
        raise MissingExtraError(
            "the loader on DALI needs 'nvidia.dali' (Linux, NVIDIA); run: pip install "
            "'posemill[dali]'"
        ) from error


def _check_device(name: str) -> torch.device:
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise DeviceError(
            "DALI decodes on an NVIDIA GPU and torch sees none here; use a DataLoader of the same "
            "clips, or device='cpu' for VP8, VP9 and MJPEG"
        )
    if device.type not in ("cuda", "cpu"):
        raise DeviceError(f"device: expected cuda or cpu, got {name!r}")
    return device


def _check_clips(clips: VideoClips) -> None:
    if any(place.kind != "video" for place in clips.clips):
        raise TrainingError(
            "DALI decodes videos, and these clips are frames already: use a DataLoader"
        )
    if any(place.start_seconds or place.end_seconds for place in clips.clips):
        raise TrainingError(
            "DALI is given whole videos: start_seconds and end_seconds need a DataLoader"
        )


def _build(dali: Any, clips: VideoClips, device: torch.device, **sizes: int) -> Any:
    is_gpu = device.type == "cuda"
    pipeline = dali.Pipeline(
        **sizes,
        device_id=(device.index or 0) if is_gpu else None,
        prefetch_queue_depth=1,
        exec_dynamic=True,
    )
    with pipeline:
        fn = dali.fn
        videos = fn.external_source(name="videos", ndim=1, dtype=dali.types.UINT8)
        numbers = fn.external_source(name="numbers", ndim=1, dtype=dali.types.INT32)
        frames = fn.decoders.video(videos, frames=numbers, device="mixed" if is_gpu else "cpu")
        size = clips.size
        if size.size_wh is not None:
            width, height = size.size_wh
            mode = "stretch" if size.resize == "stretch" else "not_smaller"
            frames = fn.resize(frames, size=(height, width), mode=mode)
            if size.resize == "crop":
                frames = fn.crop(frames, crop=(height, width), rounding="truncate")
        pipeline.set_outputs(frames)
    pipeline.build()
    return pipeline
