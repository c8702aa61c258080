"""Video frames by torchcodec, in its exact mode: the approximate one misses on variable rates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from posemill.decoders.checked_reader import CheckedReader
from posemill.errors import MissingExtraError
from posemill.messages import Message
from posemill.records import Frame

try:
    from torchcodec.decoders import VideoDecoder
except (RuntimeError, OSError) as error:
    raise MissingExtraError(
        "decoder 'torchcodec' is installed, but cannot load FFmpeg's shared libraries (4 to 8), "
        "or not beside this torch (0.13 goes with 2.13); on Debian run: apt install ffmpeg"
    ) from error

_BATCH = 16  # frames asked for at a time when reading on: bounds the memory


class TorchcodecReader(CheckedReader):
    """A `VideoReader` on torchcodec."""

    name: ClassVar[str] = "torchcodec"

    def _start(self) -> None:
        self._refuse_unless_sure()
        is_transposed, flip = self.first_frame.orientation
        if is_transposed != (flip in (0, 1)):  # all but turns by 0, 90, 180 and 270 degrees
            self._refuse(Message("it is mirrored, which torchcodec does not see"))
        if self.first_frame.is_askew:
            self._refuse(
                Message("it is turned by an angle that is no quarter, which torchcodec rounds")
            )
        try:
            self._decoder = VideoDecoder(
                self.path,
                dimension_order="NHWC",
                num_ffmpeg_threads=self._library_threads,
                seek_mode="exact",
            )
        except (RuntimeError, ValueError) as error:
            self._refuse(Message("torchcodec says: {error}", error=error))

    def _read(self, numbers: list[int]) -> Iterator[Frame]:
        seconds = self.index().seconds
        for start in range(0, len(numbers), _BATCH):
            some = numbers[start : start + _BATCH]
            try:
                batch = self._decoder.get_frames_at(some)
            except (RuntimeError, IndexError) as error:
                self._damaged(some[0], Message("torchcodec says: {error}", error=error), error)
            times = batch.pts_seconds.numpy()
            for number, time, pixels in zip(some, times, batch.data.numpy(), strict=True):
                if abs(time - times[0] - (seconds[number] - seconds[some[0]])) > 1e-3:
                    self._damaged(
                        number,
                        Message("torchcodec gives the frame at {time:.3f} s for it", time=time),
                    )
                yield np.ascontiguousarray(pixels)
