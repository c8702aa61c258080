"""What the decoders beside PyAV share: their library gives pixels, PyAV says what the file holds.

Opening, refusing, counting, times and turning are PyAV's, so that all decoders mean the same by
"frame 7". A file on which a library is known to be wrong, or in which it could not notice damage,
is refused with the reason `unsupported`.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from posemill.decoders.opening import StrPath, TargetSize, check_numbers, raise_decode_error
from posemill.decoders.stream_pyav import resize_rgb, scaled_wh
from posemill.decoders.video_pyav import PyavReader
from posemill.records import Frame


class CheckedReader(ABC):
    """A `VideoReader` whose pixels come from another library; see `PyavReader` for the arguments.

    Subclasses have a `name`, open their library in `_start` and read in `_read`.
    """

    name: ClassVar[str]

    def __init__(
        self,
        path: StrPath,
        *,
        threads: int,
        start_seconds: float,
        end_seconds: float | None,
        max_pixels: int,
        target_size: TargetSize = None,
    ) -> None:
        self._target_size = target_size
        self._file = PyavReader(
            path,
            threads=1,
            start_seconds=start_seconds,
            end_seconds=end_seconds,
            max_pixels=max_pixels,
        )
        self.path = self._file.path
        try:
            if not self.path.isprintable():
                self._refuse("its name is not plain text")  # OpenCV would crash on stray bytes
            if self._file.is_cut:
                self._refuse("it is cut off, and this decoder does not say where frames are lost")
            self._threads = threads
            self._first, self._stop = self._file.window()
            self._start()
        except BaseException:
            self._file.close()
            raise
        self.fps = self._file.fps
        self.num_frames: int | None = self._stop - self._first

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"{kind}({self.path!r}, fps={self.fps}, num_frames={self.num_frames})"

    def __enter__(self) -> CheckedReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def size_wh(self) -> tuple[int, int]:
        """Width and height of the frames in pixels, turned as the rotation tag says."""
        return scaled_wh(self._file.size_wh, self._target_size)

    def count_frames(self) -> int:
        """Return how many frames should come."""
        return self._stop - self._first

    def frame_seconds(self) -> NDArray[np.float64]:
        """Return when each frame is shown, in seconds since the start of the file, ascending."""
        return self._file.frame_seconds()

    def __iter__(self) -> Iterator[Frame]:
        """Yield all frames, `(height, width, 3)` uint8 RGB each, in the order they are shown."""
        return self.read_frames()

    def read_frames(self, start_index: int = 0, *, stride: int = 1) -> Iterator[Frame]:
        """Yield the frames from number `start_index` on: the very ones a full reading gives."""
        check_numbers(start_index, stride)
        return self._read_window(range(start_index, self.count_frames(), stride))

    def frames_at(self, indices: Iterable[int]) -> list[Frame]:
        """Return the frames of these numbers in the order asked for."""
        numbers = [operator.index(each) for each in indices]
        for number in numbers:
            if not 0 <= number < self.count_frames():
                self._file.raise_no_such_frame(number, self.count_frames())
        wanted = sorted(set(numbers))
        found = dict(zip(wanted, self._read_window(wanted), strict=True))
        return [found[number] for number in numbers]

    def close(self) -> None:
        """Free the file and the decoder."""
        self._file.close()

    def _read_window(self, numbers: Iterable[int]) -> Iterator[Frame]:
        if self._first == self._stop:
            self._file.raise_no_frames()
        shifted = [self._first + number for number in numbers]
        for frame in self._read(shifted):
            yield resize_rgb(frame, scaled_wh(frame.shape[1::-1], self._target_size))

    def _refuse(self, why: str) -> NoReturn:
        """Raise the error for a file that this library is not to be trusted with."""
        raise_decode_error(
            self.path, "unsupported", f"decoder {self.name!r}: {why}; use the decoder 'pyav'"
        )

    def _damaged(self, number: int, why: str, cause: BaseException | None = None) -> NoReturn:
        """Raise the error for a frame that did not come, or not as it should."""
        good = max(0, number - self._first)
        raise_decode_error(
            self.path,
            "corrupt",
            f"{good} frames could be read, then: {why}",
            frame_index=good,
            cause=cause,
        )

    def _refuse_unless_sure(self) -> None:
        """Refuse a file on which libraries that go to a frame by its time were seen to miss."""
        index = self._file.index()
        if not index.is_sure:
            self._refuse("its frames cannot be told by their times alone")
        if index.has_open_keys:
            self._refuse("its key frames are not whole by themselves (open GOP, intra refresh)")
        if index.has_hidden:
            self._refuse("an edit list hides a part of it")

    @abstractmethod
    def _start(self) -> None:
        """Open the file `self.path` in the library, or `_refuse` it."""

    @abstractmethod
    def _read(self, numbers: list[int]) -> Iterator[Frame]:
        """Yield frames of the file, upright RGB, by ascending numbers counted from its first."""
