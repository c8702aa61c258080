"""One pass over a video stream with PyAV: decoded frames, their times, and where damage begins."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, cast

import av
import av.error
import cv2
import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter

from posemill.decoders.losses_pyav import DamageError, Log, LossWatch
from posemill.decoders.opening import TargetSize
from posemill.decoders.packet_index import (
    IS_CORRUPT,
    IS_KEY,
    IS_OPEN,
    IS_SHOWN,
    PacketIndex,
    delay_of,
    make_index,
)
from posemill.decoders.pictures import keep_freed_memory
from posemill.messages import Message
from posemill.records import Frame

# Packets decoded between two looks at FFmpeg's log: a look costs as much as a small frame's copy.
_AT_ONCE = 4
# Frames decoded to see whether they come in the order of their times.
_TRIED = 32
# By how many places frames with B-frames are stored too late, with all usual encoders.
_USUAL_DELAYS = range(1, 5)


def decode_frames(
    container: Any, stream: Any, heard_at_opening: Sequence[Log] = ()
) -> Iterator[Any]:
    """Yield the stream's frames from where the container stands, in the order they are shown.

    Decoders go on after damage with pictures that are grey, smeared or of another moment; this
    stops at the first one they admit.

    Args:
        container: Open, at the place to begin.
        stream: Its video stream.
        heard_at_opening: See `LossWatch`.

    Raises:
        DamageError: After the last frame that is whole.
    """
    watch = LossWatch(container, stream, heard_at_opening)
    packets = _PacketDecoder(container.demux(stream), watch)
    at_once = 1
    while not packets.is_over:
        for frames, heard in packets.decode(at_once):
            watch.hear(heard)
            for frame in frames:
                watch.check(frame)
                yield frame
                at_once = _AT_ONCE
    if packets.damage is not None:
        yield from _frames_before(stream, packets.last_good_pts)
        raise DamageError(describe(packets.damage)) from packets.damage
    watch.finish()


class _PacketDecoder:
    """Decodes packets, a few at a time, up to the end or to damage.

    Frames wait in the decoder until those shown before have come. Of them, the ones shown before
    the damaged packet are good; one shown after it would have the wrong number.
    """

    def __init__(self, packets: Iterator[Any], watch: LossWatch) -> None:
        self.is_over = False
        self.damage: BaseException | None = None
        self.last_good_pts: float = math.inf
        self._packets = packets
        self._watch = watch
        self._has_key = False

    def decode(self, count: int) -> list[tuple[list[Any], list[Log]]]:
        """Return the frames of each of the next packets, and what FFmpeg said about it."""
        decoded: list[tuple[list[Any], list[Log]]] = []
        try:
            with self._watch.listen() as logs:
                while len(decoded) < count and not self.is_over:
                    frames = self._decode_next()
                    decoded.append((frames, logs.copy()))
                    logs.clear()
        except (av.error.FFmpegError, DamageError) as error:
            # Cut out of a longer stream, it begins with its first key frame.
            if self._has_key or self.last_good_pts == math.inf:
                self.is_over, self.damage = True, error
        return decoded

    def _decode_next(self) -> list[Any]:
        self.last_good_pts = math.inf
        packet = next(self._packets, None)
        if packet is None:
            self.is_over = True
            return []
        self.last_good_pts = -math.inf if packet.pts is None else packet.pts
        self._has_key = self._has_key or packet.is_keyframe
        if packet.is_corrupt:
            raise DamageError(Message("a packet is cut off or marked as corrupt"))
        if self._has_key and packet.size and not packet.is_discard:
            self._watch.take_packet()
        frames: list[Any] = packet.decode()
        return frames


def read_index(
    container: Any, stream: Any, *, is_exact: bool, heard_at_opening: Sequence[Log] = ()
) -> PacketIndex:
    """Return where the frames lie, by reading all packets without decoding them.

    Damage ends them in silence: what can be read is what can be counted.

    Args:
        container: Just opened; of no use to others afterwards.
        stream: Its video stream.
        is_exact: Whether the times of this kind of file can be trusted.
        heard_at_opening: See `LossWatch`.
    """
    packets: list[tuple[int | None, int]] = []
    times: list[int | None] = []
    has_key = False
    check_keys = is_exact and stream.codec_context.name == "h264"
    watch = LossWatch(container, stream, heard_at_opening)
    with watch.listen(), suppress(av.error.FFmpegError):
        for packet in container.demux(stream):
            if not packet.size:
                continue
            has_key = has_key or packet.is_keyframe
            # Before the first key frame nothing can be shown; one byte in an AVI means "as before".
            is_shown = has_key and packet.size > 1 and not packet.is_discard
            flags = (IS_SHOWN if is_shown else 0) | (IS_CORRUPT if packet.is_corrupt else 0)
            if packet.is_keyframe:
                flags |= IS_KEY | (IS_OPEN if check_keys and not _is_refresh(packet) else 0)
            packets.append((packet.pts, flags))
            if is_shown:
                times.append(packet.dts if packet.pts is None else packet.pts)
    # Where the codec reorders frames and their times do not, or more than encoders do, it is tried.
    delay = delay_of(np.array([-1 if pts is None else pts for pts in times], np.int64))
    may_lie = stream.codec_context.has_b_frames and delay not in _USUAL_DELAYS
    # Packets come in the order of decoding; a clock wants the order of showing.
    times.sort(key=lambda pts: -math.inf if pts is None else pts)
    clock = Clock(container, stream)
    seconds = [clock.seconds_of(pts) for pts in times]
    # What was logged means lost packets, and other numbers for all after them.
    if is_exact and times and not watch.has_heard:
        first = _first_times(container, stream, packets[0][0], count=_TRIED if may_lie else 1)
        is_exact = bool(first) and first == times[: len(first)]
    else:
        is_exact = False
    return make_index(packets, seconds, is_exact=is_exact)


def _is_refresh(packet: Any) -> bool:
    """Return whether a packet of H.264 in MP4 or Matroska begins anew (IDR)."""
    data, position = memoryview(packet), 0
    while position + 5 <= len(data):  # four bytes of length, then the kind of what follows
        kind = data[position + 4] & 31
        if kind in (1, 5):
            return kind == 5
        position += 4 + int.from_bytes(data[position : position + 4], "big")
    return False


def _first_times(container: Any, stream: Any, start: int | None, *, count: int) -> list[int | None]:
    """Return the times of the first frames that come: where a stream was cut, of later ones."""
    try:
        container.seek(start or 0, stream=stream, backward=True)
        frames = list(islice(decode_frames(container, stream), count))
    except (av.error.FFmpegError, DamageError):
        return []
    # Where lines are interlaced, a packet may be half a frame.
    return [] if any(frame.interlaced_frame for frame in frames) else [f.pts for f in frames]


def _frames_before(stream: Any, last_good_pts: float) -> Iterator[Any]:
    """Yield what still waits in the decoder and is shown before a damaged packet."""
    try:
        waiting = stream.codec_context.decode(None)
    except av.error.FFmpegError:
        return  # the damage itself is reported by the caller
    for frame in waiting:
        if frame.is_corrupt or frame.pts is None or frame.pts >= last_good_pts:
            return
        yield frame


def describe(error: BaseException) -> str:
    """Return what FFmpeg logged about an error, or else its general words for it."""
    if isinstance(error, av.error.FFmpegError):
        logged = str(error.log[-1]).strip() if error.log else ""
        return logged or error.strerror or type(error).__name__
    return str(error)


def turned(pixels: Frame, is_transposed: bool, flip: int | None) -> Frame:
    """Return stored pixels upright, contiguous; see `read_orientation`."""
    if is_transposed:
        pixels = cast(Frame, cv2.transpose(pixels))
    if flip is not None:
        pixels = cast(Frame, cv2.flip(pixels, flip))
    # A view of FFmpeg's memory where its rows are not padded, else a copy.
    return np.ascontiguousarray(pixels)


def resize_rgb(pixels: Frame, size_wh: tuple[int, int]) -> Frame:
    """Return RGB pixels in another size, scaled as `Converter` does on the way."""
    if pixels.shape[1::-1] == size_wh:
        return pixels
    frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
    resized: Any = VideoReformatter().reformat(frame, *size_wh, format="rgb24", threads=1)
    return np.ascontiguousarray(resized.to_ndarray())


def scaled_wh(size_wh: tuple[int, int], target_size: TargetSize) -> tuple[int, int]:
    """Return width and height after resizing: those given, or the short side as given."""
    if target_size is None:
        return size_wh
    if not isinstance(target_size, int):
        return target_size
    scale = target_size / min(size_wh)
    return max(1, round(size_wh[0] * scale)), max(1, round(size_wh[1] * scale))


class Clock:
    """Times of frames in seconds since the start of the file, as a player counts them."""

    def __init__(self, container: Any, stream: Any) -> None:
        self._time_base = float(stream.time_base or 0)
        self._start = (container.start_time or 0) / av.time_base
        rate = stream.average_rate or stream.guessed_rate
        self._step = 1 / float(rate) if rate else 0.0
        # AVI stores no times of showing, and those guessed for B-frames are shifted or swapped.
        self._counts = container.format.name == "avi" and rate
        self._last = -self._step

    def seconds_of(self, pts: int | None) -> float:
        """Return when a frame is shown, given all before it in their order.

        A time that is missing is guessed from the frame rate; one that goes backwards counts as
        the time before it.
        """
        if pts is None or self._counts:
            self._last += self._step
        else:
            self._last = max(self._last, pts * self._time_base - self._start)
        return self._last


class Converter:
    """Decoded frames to RGB, turned as their display matrix says, and resized on the way.

    Args:
        target_size: Of the frames that come: width and height, or the short side; None as stored.
    """

    def __init__(self, target_size: TargetSize = None) -> None:
        self._target_size = target_size
        # One for all frames: a new one for each costs a third of the time.
        self._reformatter = VideoReformatter()
        self._orientations: dict[int, tuple[bool, int | None]] = {}
        keep_freed_memory()

    def to_rgb(self, frame: Any) -> Frame:
        """Return `(height, width, 3)` uint8, contiguous."""
        # One thread: the default starts one for each core and wins nothing at these sizes.
        (width, height), (is_transposed, flip) = self.look(frame)
        if is_transposed:
            width, height = height, width
        # Scaling is bilinear over all pixels that fall into the new one, and part of the same pass.
        # In odd sizes colours are scaled even so: as the other libraries do it.
        is_same = (width, height) == (frame.width, frame.height)
        is_odd = is_same and (width % 2 or height % 2)
        method = Interpolation.BICUBIC if is_odd else Interpolation.BILINEAR
        converted: Any = self._reformatter.reformat(
            frame, width, height, format="rgb24", interpolation=method, threads=1
        )
        if converted is frame:  # RGB already, perhaps from the last row up
            return turned(converted.to_ndarray(), is_transposed, flip)
        plane = converted.planes[0]
        strides = (plane.line_size, 3, 1)
        pixels: Frame = np.ndarray((height, width, 3), np.uint8, plane, 0, strides)
        return turned(pixels, is_transposed, flip)

    def look(self, frame: Any) -> tuple[tuple[int, int], tuple[bool, int | None]]:
        """Return the width and height the frame will have in RGB, and how it is turned."""
        orientation = self._orientation_of(frame)
        width, height = int(frame.width), int(frame.height)
        size_wh = (height, width) if orientation[0] else (width, height)
        return scaled_wh(size_wh, self._target_size), orientation

    def _orientation_of(self, frame: Any) -> tuple[bool, int | None]:
        # Looked up once for each angle: touching a frame's side data makes a cycle of references,
        # and its pixels would stay until the garbage collector comes round.
        angle = frame.rotation
        if angle not in self._orientations:
            self._orientations[angle] = read_orientation(frame.side_data.get("DISPLAYMATRIX"))
        return self._orientations[angle]


def read_orientation(matrix: Any) -> tuple[bool, int | None]:
    """Return whether rows and columns change places, and then how `cv2.flip` has to turn it.

    Args:
        matrix: The nine numbers of a display matrix as bytes, or None.
    """
    if matrix is None:
        return False, None
    # x' = a x + c y, y' = b x + d y, in 16.16 fixed point; other angles go to the nearest of four.
    a, b, _, c, d, *_ = np.frombuffer(matrix, np.int32).tolist()
    is_transposed = abs(b) + abs(c) > abs(a) + abs(d)
    right, down = (c, b) if is_transposed else (a, d)
    if right < 0 and down < 0:
        return is_transposed, -1
    if right < 0 or down < 0:
        return is_transposed, 1 if right < 0 else 0
    return is_transposed, None
