"""One pass over a video stream with PyAV: decoded frames, their times, and where damage begins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

import av
import av.error
import cv2
import numpy as np
from av.video.reformatter import VideoReformatter

from posemill.decoders.losses_pyav import DamageError, LossWatch
from posemill.records import Frame


def decode_frames(container: Any, stream: Any) -> Iterator[Any]:
    """Yield the stream's frames from where the container stands, in the order they are shown.

    Decoders go on after damage with pictures that are grey, smeared or of another moment; this
    stops at the first one they admit.

    Raises:
        DamageError: After the last frame that is whole.
    """
    packets = container.demux(stream)
    watch = LossWatch(container, stream)
    has_key = False
    while True:
        # Frames wait in the decoder until those shown before have come. Of them, the ones shown
        # before the damaged packet are good; one shown after it would have the wrong number.
        last_good_pts: float = math.inf
        try:
            with watch.listen():
                packet = next(packets, None)
            if packet is None:
                watch.finish()
                return
            last_good_pts = -math.inf if packet.pts is None else packet.pts
            has_key = has_key or packet.is_keyframe
            if packet.is_corrupt:
                raise DamageError("a packet is cut off or marked as corrupt")
            if has_key and packet.size and not packet.is_discard:
                watch.take_packet()
            with watch.listen():
                frames = packet.decode()
        except (av.error.FFmpegError, DamageError) as error:
            if not has_key and last_good_pts < math.inf:
                continue  # cut out of a longer stream: it begins with its first key frame
            yield from _frames_before(stream, last_good_pts)
            raise DamageError(describe(error)) from error
        for frame in frames:
            watch.check(frame)
            yield frame


def shown_packets(container: Any, stream: Any) -> Iterator[Any]:
    """Yield the packets that become frames, in the order they are stored, without decoding.

    Damage ends them in silence: what can be read is what can be counted.
    """
    has_key = False
    try:
        for packet in container.demux(stream):
            has_key = has_key or packet.is_keyframe
            # Before the first key frame nothing can be shown; one byte in an AVI means "as before".
            if has_key and packet.size > 1 and not packet.is_discard:
                yield packet
    except av.error.FFmpegError:
        return


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
    """Decoded frames to RGB, turned as their display matrix says."""

    def __init__(self) -> None:
        # One for all frames: a new one for each costs a third of the time.
        self._reformatter = VideoReformatter()
        self._orientations: dict[int, tuple[bool, int | None]] = {}

    def to_rgb(self, frame: Any) -> Frame:
        """Return `(height, width, 3)` uint8, contiguous."""
        # One thread: the default starts one for each core and wins nothing at these sizes.
        converted: Any = self._reformatter.reformat(frame, format="rgb24", threads=1)
        pixels: Frame = converted.to_ndarray()
        is_transposed, flip = self._orientation_of(frame)
        if is_transposed:
            pixels = cast(Frame, cv2.transpose(pixels))
        if flip is not None:
            pixels = cast(Frame, cv2.flip(pixels, flip))
        # A view of FFmpeg's memory where its rows are not padded, else a copy.
        return np.ascontiguousarray(pixels)

    def size_wh_of(self, frame: Any) -> tuple[int, int]:
        """Return the width and height the frame will have in RGB."""
        width, height = int(frame.width), int(frame.height)
        return (height, width) if self._orientation_of(frame)[0] else (width, height)

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
