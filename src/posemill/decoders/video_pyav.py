"""Video frames by PyAV (FFmpeg): in order, turned upright, exact after a jump."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import av
import av.error
from av.stream import Disposition

from posemill.decoders.container_ends import missing_bytes
from posemill.decoders.jump_pyav import (
    can_jump,
    find_target,
    first_time_at,
    jump,
    read_times,
    timed,
)
from posemill.decoders.losses_pyav import DamageError
from posemill.decoders.opening import StrPath, open_regular, raise_decode_error
from posemill.decoders.stream_pyav import (
    Clock,
    Converter,
    decode_frames,
    describe,
    shown_packets,
)
from posemill.errors import DecodeError
from posemill.records import Frame

# A frame less than this before a bound of the window counts as on it: bounds are decimals (0.12),
# times are fractions (3/25).
_SLACK_SECONDS = 1e-6
# Below these, frames are decoded and dropped: that costs no more than finding the place.
_NEAR_FRAMES = 50
_NEAR_SECONDS = 3.0
_PLAYLISTS = frozenset(["concat", "concatf", "hls", "dash", "imf"])


class PyavReader:
    """A `VideoReader` on PyAV. Interlaced video comes as stored, both fields in one frame.

    Args:
        path: Of the file; opened at once, so this is where most errors come.
        threads: Threads of the decoder.
        start_seconds: Frames before it are left out.
        end_seconds: Frames from it on are left out; None for the end.
        max_pixels: Larger frames are refused.
    """

    def __init__(
        self,
        path: StrPath,
        *,
        threads: int,
        start_seconds: float,
        end_seconds: float | None,
        max_pixels: int,
    ) -> None:
        # Absolute, so that a file called `http:x.mp4` is a file and not an address.
        self.path = os.path.abspath(os.fsdecode(path))  # noqa: PTH100
        self._threads = threads
        self._start_seconds = start_seconds - _SLACK_SECONDS
        self._end_seconds = math.inf if end_seconds is None else end_seconds - _SLACK_SECONDS
        self._has_window = start_seconds > 0 or end_seconds is not None
        self._max_pixels = max_pixels
        self._size_wh: tuple[int, int] | None = None
        self._times: list[int] | None = None
        self._converter = Converter()
        descriptor, _ = open_regular(self.path)
        with os.fdopen(descriptor, "rb") as handle:
            self._is_cut = missing_bytes(handle) > 0
        self._container, self._stream = self._open()
        self._is_fresh = True
        rate = self._stream.average_rate or self._stream.guessed_rate
        self.fps: float | None = float(rate) if rate else None
        self.num_frames: int | None = None if self._has_window else self._read_num_frames()

    def __repr__(self) -> str:
        return f"PyavReader({self.path!r}, fps={self.fps}, num_frames={self.num_frames})"

    def __enter__(self) -> PyavReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the file and the decoder."""
        self._container.close()

    @property
    def size_wh(self) -> tuple[int, int]:
        """Width and height of the first frame in pixels, turned as the rotation tag says."""
        if self._size_wh is None:
            container, stream = self._open()
            with container:
                self._size_wh = self._first_size_wh(container, stream)
        return self._size_wh

    def count_frames(self) -> int:
        """Return how many frames should come, by reading the packets without decoding them."""
        container, stream = self._open()
        with container:
            times = [
                packet.dts if packet.pts is None else packet.pts
                for packet in shown_packets(container, stream)
            ]
            # Packets come in the order of decoding; a clock wants the order of showing.
            times.sort(key=lambda pts: -math.inf if pts is None else pts)
            clock = Clock(container, stream)
            seconds = [clock.seconds_of(pts) for pts in times]
        return sum(self._start_seconds <= each < self._end_seconds for each in seconds)

    def __iter__(self) -> Iterator[Frame]:
        """Yield all frames, `(height, width, 3)` uint8 RGB each, in the order they are shown."""
        return self.read_frames()

    def read_frames(self, start_index: int = 0) -> Iterator[Frame]:
        """Yield the frames from number `start_index` on: the very ones a full reading gives."""
        if start_index < 0:
            raise ValueError(f"start_index: expected 0 or more, got {start_index}")
        return self._read_frames(start_index)

    def _read_frames(self, start_index: int) -> Iterator[Frame]:
        container = None
        number = 0
        try:
            container, number, frames = self._position(start_index)
            for frame, seconds in frames:
                if seconds >= self._end_seconds:
                    break
                if seconds < self._start_seconds:
                    continue
                if frame.width * frame.height > self._max_pixels:
                    raise DamageError(f"a frame of {frame.width} x {frame.height} pixels")
                if number >= start_index:
                    yield self._converter.to_rgb(frame)
                number += 1
            else:
                if self._is_cut:
                    raise DamageError("the file ends before its container does; copy it again")
        except DamageError as error:
            reason = "truncated" if self._is_cut else "corrupt"
            raise_decode_error(
                self.path,
                reason,
                f"{number} frames could be read, then: {error}",
                frame_index=number,
                cause=error,
            )
        finally:
            if container is not None and container is not self._container:
                container.close()
        if not number:
            detail = "no frame within the window asked for" if self._has_window else "none inside"
            raise_decode_error(self.path, "no frames", detail, frame_index=0)

    def _position(self, start_index: int) -> tuple[Any, int, Iterator[tuple[Any, float]]]:
        """Return a container, and frames with their seconds from a place at or before the wanted.

        The number is the one the first of these frames has in the window, or 0 where some of them
        lie before the window.
        """
        container, stream = self._take()
        target = self._find_target(container, stream, start_index)
        if target is not None:
            frames = jump(container, stream, target, must_hit=start_index > 0)
            if frames is not None:
                return container, start_index, timed(container, stream, frames)
            if container is not self._container:
                container.close()
            container, stream = self._take()
        return container, 0, timed(container, stream, decode_frames(container, stream))

    def _find_target(self, container: Any, stream: Any, start_index: int) -> int | None:
        """Return the time to jump to; None where reading from the start is as good or better."""
        is_near = start_index < _NEAR_FRAMES and self._start_seconds < _NEAR_SECONDS
        if is_near or not can_jump(container, stream):
            return None
        first_time = first_time_at(container, stream, self._start_seconds)
        if not start_index:
            return first_time
        if self._times is None:
            self._times = self._read_times()
        return find_target(self._times, first_time, start_index)

    def _read_times(self) -> list[int]:
        """Return the time of every frame; empty where packets and frames do not go together."""
        container, stream = self._open()
        with container:
            times = read_times(container, stream)
        container, stream = self._open()
        with container:
            try:
                first = next(decode_frames(container, stream), None)
            except DamageError:
                return []
            # A stream that begins in the middle may show its first frame later than stored.
            return times if times and first is not None and first.pts == times[0] else []

    def _take(self) -> tuple[Any, Any]:
        """Return a container at its beginning: the one already open, after that new ones."""
        if self._is_fresh:
            self._is_fresh = False
            return self._container, self._stream
        return self._open()

    def _open(self) -> tuple[Any, Any]:
        """Return a new container and its video stream."""
        try:
            container = av.open(
                self.path, metadata_errors="ignore", options={"protocol_whitelist": "file"}
            )
        except av.error.FFmpegError as error:
            reason = "truncated" if self._is_cut else "not a video"
            raise_decode_error(self.path, reason, f"FFmpeg says: {describe(error)}", cause=error)
        try:
            stream = self._choose_stream(container)
        except DecodeError:
            container.close()
            raise
        stream.codec_context.thread_count = self._threads
        if self._threads > 1:
            stream.codec_context.thread_type = "AUTO"
        return container, stream

    def _choose_stream(self, container: Any) -> Any:
        """Return the stream a player would show; the cover picture of a song is none."""
        if container.format.name in _PLAYLISTS:
            raise_decode_error(self.path, "not a video", "it is a list of other files")
        best = container.streams.best("video")
        if best is None or best.disposition & Disposition.attached_pic:
            others = ", ".join(sorted({each.type for each in container.streams})) or "nothing"
            raise_decode_error(self.path, "no video stream", f"the file holds {others}")
        context = best.codec_context
        if context is None:
            raise_decode_error(
                self.path, "not a video", "its codec is not part of this build of FFmpeg"
            )
        if context.width * context.height > self._max_pixels:
            size = f"{context.width} x {context.height}"
            raise_decode_error(
                self.path, "too large", f"{size}; allowed are {self._max_pixels:,} pixels"
            )
        return best

    def _read_num_frames(self) -> int | None:
        """Return how many frames the container lists; None where that is not to be trusted."""
        # Only MP4 and MOV list every frame; the others carry a number that somebody once wrote.
        entries, promised = self._stream.index_entries, int(self._stream.frames)
        is_listed = "mp4" in self._container.format.name.split(",") and promised > 0
        if not is_listed or len(entries) != promised or not entries[0].is_keyframe:
            return None
        hidden = sum(bool(entry.is_discard) for entry in entries)  # cut off by an edit list
        return promised - hidden

    def _first_size_wh(self, container: Any, stream: Any) -> tuple[int, int]:
        try:
            frame = next(decode_frames(container, stream), None)
        except DamageError as error:
            raise_decode_error(
                self.path, "corrupt", f"no frame could be read: {error}", cause=error
            )
        if frame is None:
            raise_decode_error(self.path, "no frames", "none inside", frame_index=0)
        return self._converter.size_wh_of(frame)
