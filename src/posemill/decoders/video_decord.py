"""Video frames by decord2, the fork of decord that is kept up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import decord

from posemill.decoders.checked_reader import CheckedReader
from posemill.messages import Message
from posemill.records import Frame

_BATCH = 16  # frames asked for at a time when reading on: bounds the memory


class DecordReader(CheckedReader):
    """A `VideoReader` on decord2."""

    name: ClassVar[str] = "decord"

    def _start(self) -> None:
        self._refuse_unless_sure()
        index = self.index()
        if index.has_leading:
            self._refuse(
                Message("frames are stored after a key frame that is shown later (open GOP)")
            )
        if self.first_frame.orientation != (False, None):
            self._refuse(Message("it is turned or mirrored, which decord does not always see"))
        try:
            self._decoder = decord.VideoReader(self.path, num_threads=self._library_threads)
        except (decord.DECORDError, RuntimeError) as error:
            self._refuse(Message("decord says: {error}", error=error))
        if len(self._decoder) != len(index.seconds):
            self._refuse(
                Message(
                    "decord counts {num_counted} frames, not {num_frames}",
                    num_counted=len(self._decoder),
                    num_frames=len(index.seconds),
                )
            )

    def _read(self, numbers: list[int]) -> Iterator[Frame]:
        for start in range(0, len(numbers), _BATCH):
            some = numbers[start : start + _BATCH]
            try:
                batch = self._decoder.get_batch(some).asnumpy()
            except (decord.DECORDError, RuntimeError, IndexError) as error:
                self._damaged(some[0], Message("decord says: {error}", error=error), error)
            yield from batch.copy()
