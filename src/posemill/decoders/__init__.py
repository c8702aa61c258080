"""Frames out of picture and video files. A new video decoder is a module and a row in `DECODERS`.

Open a video inside the process that reads it: decoders do not survive a fork.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, cast

from posemill import plugins
from posemill.decoders.opening import MAX_PIXELS, StrPath, TargetSize
from posemill.records import Frame

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class VideoReader(Protocol):
    """One open video, or a window of one: frames are counted from the window's first."""

    @property
    def size_wh(self) -> tuple[int, int]:
        """Width and height in pixels of the first frame as it comes: turned, and resized."""

    @property
    def fps(self) -> float | None:
        """Average frames per second as the container says; None where it does not."""

    @property
    def num_frames(self) -> int | None:
        """How many frames will come, where the container knows for sure; see `count_frames`."""

    def count_frames(self) -> int:
        """Return how many frames should come, by reading the packets without decoding them."""

    def __iter__(self) -> Iterator[Frame]:
        """Yield all frames, `(height, width, 3)` uint8 RGB each, in the order they are shown."""

    def frame_seconds(self) -> NDArray[np.float64]:
        """Return when each frame is shown, in seconds since the start of the file, ascending.

        As the file says, whatever its rate; read from the packets without decoding them.
        """

    def frames_at(self, indices: Iterable[int]) -> list[Frame]:
        """Return the frames of these numbers, in any order; where one is repeated, the same array.

        Raises:
            IndexError: The window has no frame of that number.
            DecodeError: At damage; `frame_index` is the number of the first frame that is lost.
        """

    def read_frames(self, start_index: int = 0, *, stride: int = 1) -> Iterator[Frame]:
        """Yield the frames from number `start_index` on: the very ones a full reading gives.

        Args:
            start_index: The number of the first one.
            stride: Every Nth frame comes; the others are decoded, but not made pixels of.

        Raises:
            DecodeError: At damage, after all frames before it; `frame_index` is the number of the
                first frame that could not be had.
        """

    def close(self) -> None:
        """Free the file and the decoder."""

    def __enter__(self) -> VideoReader:
        """Return the reader itself."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the reader."""


# name -> "module:class"; the class takes a path and the keywords of `open_video`. Other packages
# add theirs by entry points of the group `posemill.decoders`.
DECODERS = {
    "pyav": "posemill.decoders.video_pyav:PyavReader",
    "opencv": "posemill.decoders.video_opencv:OpencvReader",
    "torchcodec": "posemill.decoders.video_torchcodec:TorchcodecReader",
    "decord": "posemill.decoders.video_decord:DecordReader",
}


def known_decoders() -> list[str]:
    """Return the names of `DECODERS` and of other packages' decoders."""
    return plugins.names_of("decoder", DECODERS)


def decoder_choices() -> list[str]:
    """Return what `--decoder` may be: a name, or `auto` (see `posemill.decoders.choice`)."""
    return [*known_decoders(), "auto"]


def find_decoder(name: str) -> Callable[..., VideoReader]:
    """Return the class of a decoder, or raise the error that says what is known or missing."""
    if name not in known_decoders():
        is_auto = name == "auto"  # for commands and datasets, which see more than one file
        raise plugins.unknown("decoder", name, known_decoders() if is_auto else decoder_choices())
    return cast(Callable[..., VideoReader], plugins.load("decoder", DECODERS, name, extra=name))


def open_video(
    path: StrPath,
    *,
    decoder: str = "pyav",
    threads: int = 1,
    start_seconds: float = 0.0,
    end_seconds: float | None = None,
    max_pixels: int = MAX_PIXELS,
    target_size: TargetSize = None,
) -> VideoReader:
    """Return a reader of that video file.

    Args:
        path: A video in any container and codec the decoder knows, or an animated GIF.
        decoder: One of `known_decoders`.
        threads: Threads the decoder may use.
        start_seconds: Frames shown before it are left out.
        end_seconds: Frames shown at it or later are left out; None for the end of the video.
        max_pixels: Per frame; refused above.
        target_size: What frames are resized to: (width, height), or the short side alone, which
            keeps the shape; None leaves them as they are.

    Raises:
        DecodeError: The file is missing, empty, not a video, has sound only …; see
            `posemill.decoders.opening.REASONS`.
    """
    factory = find_decoder(decoder)
    if threads < 1:
        raise ValueError(f"threads: expected 1 or more, got {threads}")
    if start_seconds < 0 or (end_seconds is not None and end_seconds <= start_seconds):
        raise ValueError(
            f"expected 0 <= start_seconds < end_seconds, got {start_seconds} and {end_seconds}"
        )
    sides = target_size if isinstance(target_size, tuple) else (target_size,)
    if any(side is not None and side < 1 for side in sides):
        raise ValueError(f"target_size: expected 1 pixel or more, got {target_size}")
    return factory(
        path,
        threads=threads,
        start_seconds=start_seconds,
        end_seconds=end_seconds,
        max_pixels=max_pixels,
        target_size=target_size,
    )
