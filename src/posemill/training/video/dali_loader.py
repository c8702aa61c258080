"""`DaliLoader`: the batches of a `VideoClips`, decoded by NVIDIA DALI on a GPU.

For the extra `dali`. Nothing of it was measured: the machines this was made on have no GPU. What
can be checked without one, on the codecs that DALI decodes on a CPU (VP8, VP9, MJPEG), is.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from posemill.errors import MissingExtraError
from posemill.records import IntArray
from posemill.training.video.device_loader import DeviceLoader
from posemill.training.video.video_clips import VideoClips


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
