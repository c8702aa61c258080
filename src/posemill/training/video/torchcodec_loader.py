"""`TorchcodecLoader`: the batches of a `VideoClips`, decoded by torchcodec, on a GPU or a CPU.

For the extra `torchcodec`, on a GPU with a build of it for CUDA. Nothing of that was measured: the
machines this was made on have no GPU. On a CPU its batches are checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from posemill.errors import MissingExtraError
from posemill.records import IntArray
from posemill.training.video.device_loader import DeviceLoader
from posemill.training.video.reading import FrameSize
from posemill.training.video.video_clips import VideoClips


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
