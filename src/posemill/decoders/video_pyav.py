"""Video frames by PyAV (FFmpeg): in order, turned upright, exact after a jump."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import Any, NamedTuple, NoReturn

import av
import av.error
import numpy as np
from av.stream import Disposition
from numpy.typing import NDArray

from posemill.decoders.container_ends import missing_bytes
from posemill.decoders.jump_pyav import can_jump, find_target, first_time_at, jump, timed
from posemill.decoders.losses_pyav import DamageError, Log, listening
from posemill.decoders.opening import (
    StrPath,
    TargetSize,
    check_numbers,
    open_regular,
    raise_decode_error,
    shown,
)
from posemill.decoders.packet_index import (
    PacketIndex,
    find_index,
    identity_of,
    keep_index,
)
from posemill.decoders.sparse_pyav import SparseDecoder
from posemill.decoders.stream_pyav import Converter, decode_frames, describe, read_index
from posemill.errors import DecodeError
from posemill.messages import Message
from posemill.records import Frame

# A frame less than this before a bound of the window counts as on it: bounds are decimals (0.12),
# times are fractions (3/25).
_SLACK_SECONDS = 1e-6
# Below these, frames are decoded and dropped: that costs no more than finding the place.
_NEAR_FRAMES = 50
_NEAR_SECONDS = 3.0
_PLAYLISTS = frozenset(["concat", "concatf", "hls", "dash", "imf"])


class FirstFrame(NamedTuple):
    """What the first frame of a video says.

    Args:
        size_wh: In pixels, turned as the rotation tag says.
        is_interlaced: Whether it is made of two fields.
        orientation: How it is turned; see `read_orientation`.
        is_askew: Whether it should be turned by an angle that is no quarter; it is not.
        bits_per_channel: Of its colours as they are stored, 8 in most videos.
    """

    size_wh: tuple[int, int]
    is_interlaced: bool
    orientation: tuple[bool, int | None]
    is_askew: bool
    bits_per_channel: int


class PyavReader:
    """A `VideoReader` on PyAV. Interlaced video comes as stored, both fields in one frame.

    Args:
        path: Of the file; opened at once, so this is where most errors come.
        threads: Threads of the decoder.
        start_seconds: Frames before it are left out.
        end_seconds: Frames from it on are left out; None for the end.
        max_pixels: Larger frames are refused.
        target_size: What frames are resized to: width and height, or the short side.
    """

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
        # Absolute, so that a file called `http:x.mp4` is a file and not an address.
        self.path = os.path.abspath(os.fsdecode(path))  # noqa: PTH100
        self._threads = threads
        self._start_seconds = start_seconds - _SLACK_SECONDS
        self._end_seconds = math.inf if end_seconds is None else end_seconds - _SLACK_SECONDS
        self._has_window = start_seconds > 0 or end_seconds is not None
        self._max_pixels = max_pixels
        self._index: PacketIndex | None = None
        self._sparse: SparseDecoder | None = None
        self._converter = Converter(target_size)
        descriptor, _ = open_regular(self.path)
        with os.fdopen(descriptor, "rb") as handle:
            self._identity = identity_of(handle.fileno())
        self._heard_at_opening: list[Log] = []
        self._container, self._stream = self._open()
        self._is_fresh = True
        self.codec: str = self._stream.codec_context.codec.canonical_name
        rate = self._stream.average_rate or self._stream.guessed_rate
        self.fps: float | None = float(rate) if rate else None
        self.num_frames: int | None = None if self._has_window else self._read_num_frames()

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"{kind}({self.path!r}, fps={self.fps}, num_frames={self.num_frames})"

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
        if self._sparse is not None:
            self._sparse.container.close()

    @cached_property
    def is_cut(self) -> bool:
        """Whether a part of the file is missing, or cannot be reached: asked for at its end."""
        try:
            with open(self.path, "rb") as handle:  # noqa: PTH123
                return missing_bytes(handle) > 0
        except OSError:
            return False  # gone since it was opened: the demuxer has its own words for that

    @property
    def size_wh(self) -> tuple[int, int]:
        """Width and height of the first frame in pixels, turned as the rotation tag says."""
        return self.first_frame.size_wh

    def count_frames(self) -> int:
        """Return how many frames should come, by reading the packets without decoding them."""
        return len(self.frame_seconds())

    def frame_seconds(self) -> NDArray[np.float64]:
        """Return when each frame is shown, in seconds since the start of the file, ascending."""
        first, stop = self.window()
        return self.index().seconds[first:stop]

    def __iter__(self) -> Iterator[Frame]:
        """Yield all frames, `(height, width, 3)` uint8 RGB each, in the order they are shown."""
        return self.read_frames()

    def read_frames(self, start_index: int = 0, *, stride: int = 1) -> Iterator[Frame]:
        """Yield the frames from number `start_index` on: the very ones a full reading gives."""
        check_numbers(start_index, stride)
        return self._read_frames(start_index, stride)

    def frames_at(self, indices: Iterable[int]) -> list[Frame]:
        """Return the frames of these numbers in the order asked for."""
        numbers = [operator.index(each) for each in indices]
        wanted = sorted(set(numbers))
        if wanted and wanted[0] < 0:
            self.raise_no_such_frame(wanted[0], None)
        found = self._go_to(wanted) if wanted else {}
        if found is None:
            found = self._pass_by(wanted)
        return [found[number] for number in numbers]

    def _go_to(self, wanted: list[int]) -> dict[int, Frame] | None:
        """Return frames by decoding little more than them; None where only a full reading is sure.

        Args:
            wanted: Ascending, each once.
        """
        if self.is_cut or not can_jump(self._container, self._stream):
            return None
        index = self.index(keep=True)
        first, stop = self.window()
        if not index.is_sure:
            return None
        if wanted[-1] >= stop - first:
            self.raise_no_such_frame(wanted[-1], stop - first)
        if self._sparse is None:
            self._sparse = SparseDecoder(*self._take(), index)
        found = self._sparse.read([first + each for each in wanted], self._convert)
        if found is None:
            # Damage, intra refresh, or the file has changed in secret: from the start from now on.
            self._sparse.container.close()
            self._sparse, self._is_fresh = None, False
            self._index = replace(index, is_sure=False)
            keep_index(self.path, self._identity, self._index)
            return None
        return {number - first: frame for number, frame in found.items()}

    def _pass_by(self, wanted: list[int]) -> dict[int, Frame]:
        """Return frames by decoding all before them, and turning only these into pixels."""
        found: dict[int, Frame] = {}
        number, missing = -1, set(wanted)
        for number, frame in self._decode(0):
            if number in missing:
                missing.remove(number)
                found[number] = self._converter.to_rgb(frame)
                if not missing:
                    break
        else:
            self.raise_no_such_frame(wanted[-1], number + 1)
        return found

    def raise_no_such_frame(self, number: int, num_frames: int | None) -> NoReturn:
        """Raise the error for a number that no frame has."""
        total = self.count_frames() if num_frames is None else num_frames
        raise IndexError(f"{shown(self.path)}: no frame {number}; expected 0 to {total - 1}")

    def raise_no_frames(self) -> NoReturn:
        """Raise the error for a video, or a window of one, in which there is nothing."""
        detail = "no frame within the window asked for" if self._has_window else "none inside"
        raise_decode_error(self.path, "no frames", Message(detail), frame_index=0)

    def index(self, *, keep: bool = False) -> PacketIndex:
        """Return where the frames lie.

        Args:
            keep: Whether to keep it on the disk for the next who opens this file.
        """
        if self._index is None:
            self._index = find_index(self.path, self._identity)
        if self._index is None:
            container, stream = self._open()
            with container:
                self._index = read_index(
                    container,
                    stream,
                    is_exact=can_jump(container, stream),
                    heard_at_opening=self._heard_at_opening,
                )
            if keep:
                keep_index(self.path, self._identity, self._index)
        return self._index

    def window(self) -> tuple[int, int]:
        """Return the number of the window's first frame, and of the first after it."""
        seconds = self.index().seconds
        first = int(np.searchsorted(seconds, self._start_seconds))
        return first, max(first, int(np.searchsorted(seconds, self._end_seconds)))

    def _refuse_large(self, frame: Any) -> None:
        if frame.width * frame.height > self._max_pixels:
            template = "a frame of {width} x {height} pixels"
            raise DamageError(Message(template, width=frame.width, height=frame.height))

    def _convert(self, frame: Any) -> Frame:
        self._refuse_large(frame)
        return self._converter.to_rgb(frame)

    def _read_frames(self, start_index: int, stride: int) -> Iterator[Frame]:
        for number, frame in self._decode(start_index):
            if (number - start_index) % stride == 0:
                yield self._converter.to_rgb(frame)

    def _decode(self, start_index: int) -> Iterator[tuple[int, Any]]:
        """Yield decoded frames with their numbers, from that number on."""
        container = None
        number = 0
        try:
            container, number, frames = self._position(start_index)
            for frame, seconds in frames:
                if seconds >= self._end_seconds:
                    break
                if seconds < self._start_seconds:
                    continue
                self._refuse_large(frame)
                if number >= start_index:
                    yield number, frame
                number += 1
            else:
                if self.is_cut:
                    why = "the file is cut off, or broken inside; copy it again"
                    raise DamageError(Message(why))
        except DamageError as error:
            reason = "truncated" if self.is_cut else "corrupt"
            template = "{num_frames:frame|frames} could be read, then: {error}"
            detail = Message(template, num_frames=number, error=error)
            raise_decode_error(self.path, reason, detail, frame_index=number, cause=error)
        finally:
            if container is not None and container is not self._container:
                container.close()
        if not number:
            self.raise_no_frames()

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
        frames = decode_frames(container, stream, self._heard_at_opening)
        return container, 0, timed(container, stream, frames)

    def _find_target(self, container: Any, stream: Any, start_index: int) -> int | None:
        """Return the time to jump to; None where reading from the start is as good or better."""
        is_near = start_index < _NEAR_FRAMES and self._start_seconds < _NEAR_SECONDS
        if is_near or not can_jump(container, stream):
            return None
        first_time = first_time_at(container, stream, self._start_seconds)
        if not start_index:
            return first_time
        index = self.index()
        if not index.is_sure:
            return None
        times = index.pts[index.stored_at].tolist()
        return find_target(times, first_time, start_index)

    def _take(self) -> tuple[Any, Any]:
        """Return a container at its beginning: the one already open, after that new ones."""
        if self._is_fresh:
            self._is_fresh = False
            return self._container, self._stream
        return self._open()

    def _open(self) -> tuple[Any, Any]:
        """Return a new container and its video stream."""
        try:
            with listening() as self._heard_at_opening:
                container = av.open(
                    self.path, metadata_errors="ignore", options={"protocol_whitelist": "file"}
                )
        except av.error.FFmpegError as error:
            reason = "truncated" if self.is_cut else "not a video"
            detail = Message("FFmpeg says: {describe}", describe=describe(error))
            raise_decode_error(self.path, reason, detail, cause=error)
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
            raise_decode_error(self.path, "not a video", Message("it is a list of other files"))
        best = container.streams.best("video")
        if best is None or best.disposition & Disposition.attached_pic:
            others = ", ".join(sorted({each.type for each in container.streams})) or "nothing"
            raise_decode_error(
                self.path, "no video stream", Message("the file holds {others}", others=others)
            )
        context = best.codec_context
        if context is None:
            raise_decode_error(
                self.path, "not a video", Message("its codec is not part of this build of FFmpeg")
            )
        if context.width * context.height > self._max_pixels:
            size, template = (
                f"{context.width} x {context.height}",
                "{size}; allowed are {most:,} pixels",
            )
            detail = Message(template, size=size, most=self._max_pixels)
            raise_decode_error(self.path, "too large", detail)
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

    @cached_property
    def first_frame(self) -> FirstFrame:
        """What the first frame says about the others."""
        container, stream = self._open()
        with container:
            try:
                frame = next(decode_frames(container, stream), None)
            except DamageError as error:
                detail = Message("no frame could be read: {error}", error=error)
                raise_decode_error(self.path, "corrupt", detail, cause=error)
            if frame is None:
                raise_decode_error(self.path, "no frames", Message("none inside"), frame_index=0)
            size_wh, orientation = self._converter.look(frame)
            is_interlaced, is_askew = bool(frame.interlaced_frame), frame.rotation % 90 != 0
            bits = max(component.bits for component in frame.format.components)
        return FirstFrame(size_wh, is_interlaced, orientation, is_askew, bits)
