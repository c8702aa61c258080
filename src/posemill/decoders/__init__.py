"""Frames out of picture and video files. A new video decoder is a module and a row in `DECODERS`.

Open a video inside the process that reads it: decoders do not survive a fork.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Protocol, cast

from posemill import plugins
from posemill.decoders.opening import MAX_PIXELS, StrPath
from posemill.records import Frame


class VideoReader(Protocol):
    """One open video, or a window of one: frames are counted from the window's first."""

    @property
    def size_wh(self) -> tuple[int, int]:
        """Width and height of the first frame in pixels, turned as the rotation tag says."""

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

    def read_frames(self, start_index: int = 0) -> Iterator[Frame]:
        """Yield the frames from number `start_index` on: the very ones a full reading gives.

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
}


def known_decoders() -> list[str]:
    """Return the names of `DECODERS` and of other packages' decoders."""
    return plugins.names_of("decoder", DECODERS)


def find_decoder(name: str) -> Callable[..., VideoReader]:
    """Return the class of a decoder, or raise the error that says what is known or missing."""
    return cast(Callable[..., VideoReader], plugins.load("decoder", DECODERS, name))


def open_video(
    path: StrPath,
    *,
    decoder: str = "pyav",
    threads: int = 1,
    start_seconds: float = 0.0,
    end_seconds: float | None = None,
    max_pixels: int = MAX_PIXELS,
) -> VideoReader:
    """Return a reader of that video file.

    Args:
        path: A video in any container and codec the decoder knows, or an animated GIF.
        decoder: One of `known_decoders`.
        threads: Threads the decoder may use.
        start_seconds: Frames shown before it are left out.
        end_seconds: Frames shown at it or later are left out; None for the end of the video.
        max_pixels: Per frame; refused above.

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
    return factory(
        path,
        threads=threads,
        start_seconds=start_seconds,
        end_seconds=end_seconds,
        max_pixels=max_pixels,
    )
