"""What the decoders beside PyAV share: their library gives pixels, PyAV says what the file holds.

Opening, refusing, counting, times and turning are PyAV's, so that all decoders mean the same by
"frame 7". A file on which a library is known to be wrong, or in which it could not notice damage,
is refused with the reason `unsupported`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, ClassVar, NoReturn

import av
import av.error

from posemill.decoders.losses_pyav import LossWatch
from posemill.decoders.opening import StrPath, TargetSize, raise_decode_error
from posemill.decoders.stream_pyav import resize_rgb, scaled_wh
from posemill.decoders.video_pyav import PyavReader
from posemill.messages import Message
from posemill.records import Frame


class CheckedReader(PyavReader, ABC):
    """A `VideoReader` whose pixels come from another library; see `PyavReader` for the arguments.

    Subclasses have a `name`, open their library in `_start` and read in `_read`.
    """

    name: ClassVar[str]

    def __init__(
        self, path: StrPath, *, threads: int, target_size: TargetSize = None, **window: Any
    ) -> None:
        super().__init__(path, threads=1, target_size=target_size, **window)
        self._library_threads, self._target_size = threads, target_size
        try:
            if not self.path.isprintable():  # OpenCV would crash on stray bytes
                self._refuse(Message("its name is not plain text"))
            if self.is_cut:
                why = "it is cut off, and this decoder does not say where frames are lost"
                self._refuse(Message(why))
            if self.index().has_corrupt:
                why = "packets of it are damaged, and this decoder does not say where"
                self._refuse(Message(why))
            if self.first_frame.bits_per_channel > 8:
                why = (
                    "it has more than 8 bits a colour channel, which this decoder rounds otherwise"
                )
                self._refuse(Message(why))
            if self._has_other_sizes():
                why = "its frames change their size, and this decoder gives them one"
                self._refuse(Message(why))
            self._first, self._stop = self.window()
            self._start()
        except BaseException:
            self.close()
            raise
        self.num_frames = self._stop - self._first

    def _has_other_sizes(self) -> bool:
        """Return whether key frames differ in size: all of them, or 64 spread over a long video."""
        numbers = self.index().keys
        chosen = {*numbers[:: max(1, len(numbers) // 64)].tolist(), *numbers[-1:].tolist()}
        if len(chosen) < 2:
            return False
        sizes = set()
        container, stream = self._open()
        with container, suppress(av.error.FFmpegError), LossWatch(container, stream).listen():
            packets = (packet for packet in container.demux(stream) if packet.size)
            for number, packet in enumerate(packets):
                if number in chosen:
                    frames = [*packet.decode(), *stream.codec_context.decode(None)]
                    sizes |= {(frame.width, frame.height) for frame in frames}
                    stream.codec_context.flush_buffers()
        return len(sizes) > 1

    def _read_frames(self, start_index: int, stride: int) -> Iterator[Frame]:
        return self._read_window(range(start_index, self._stop - self._first, stride))

    def _go_to(self, wanted: list[int]) -> dict[int, Frame]:
        if wanted[-1] >= self._stop - self._first:
            self.raise_no_such_frame(wanted[-1], self._stop - self._first)
        return dict(zip(wanted, self._read_window(wanted), strict=True))

    def _read_window(self, numbers: Iterable[int]) -> Iterator[Frame]:
        if self._first == self._stop:
            self.raise_no_frames()
        shifted = [self._first + number for number in numbers]
        for frame in self._read(shifted):
            yield resize_rgb(frame, scaled_wh(frame.shape[1::-1], self._target_size))

    def _refuse(self, why: str) -> NoReturn:
        """Raise the error for a file that this library is not to be trusted with."""
        raise_decode_error(
            self.path,
            "unsupported",
            Message("decoder {name!r}: {why}; use the decoder 'pyav'", name=self.name, why=why),
        )

    def _damaged(self, number: int, why: str, cause: BaseException | None = None) -> NoReturn:
        """Raise the error for a frame that did not come, or not as it should."""
        good = max(0, number - self._first)
        raise_decode_error(
            self.path,
            "corrupt",
            Message("{good} frames could be read, then: {why}", good=good, why=why),
            frame_index=good,
            cause=cause,
        )

    def _refuse_unless_sure(self) -> None:
        """Refuse a file on which libraries that go to a frame by its time were seen to miss."""
        index = self.index()
        if not index.is_sure:
            self._refuse(Message("its frames cannot be told by their times alone"))
        if index.has_open_keys:
            self._refuse(
                Message("its key frames are not whole by themselves (open GOP, intra refresh)")
            )
        if index.has_hidden:
            self._refuse(Message("an edit list hides a part of it"))

    @abstractmethod
    def _start(self) -> None:
        """Open the file `self.path` in the library, or `_refuse` it."""

    @abstractmethod
    def _read(self, numbers: list[int]) -> Iterator[Frame]:
        """Yield frames of the file, upright RGB, by ascending numbers counted from its first."""
