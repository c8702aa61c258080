"""Reading a video from the middle without decoding all before, where the result is the same.

A jump lands on a key frame and decodes on from there. Only what was seen to be safe is done so:
containers with exact times, codecs whose packets are frames, a landing on a true key frame. In
all other cases (AVI, MPEG-TS, intra refresh) the caller reads from the start and drops frames.
Damage before the landing is not noticed, as the frames there are not looked at.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from itertools import chain
from typing import Any

import av
import av.error
from av.video.frame import PictureType

from posemill.decoders.losses_pyav import DamageError
from posemill.decoders.stream_pyav import Clock, decode_frames

_CONTAINERS = frozenset(["mp4", "matroska"])
_CODECS = frozenset(["h264", "hevc", "vp9", "av1", "libdav1d", "mjpeg", "mpeg4"])
# B-frames are stored after the frame shown next: step back by more than they can be out of order.
_MARGIN_SECONDS = 1.0


def can_jump(container: Any, stream: Any) -> bool:
    """Return whether times in this file can be trusted to find frames by them."""
    names = container.format.name.split(",")
    codec = stream.codec_context.name
    return not _CONTAINERS.isdisjoint(names) and codec in _CODECS


def first_time_at(container: Any, stream: Any, seconds: float) -> int:
    """Return the first time in the stream's units at or after so many seconds of the file."""
    start = (container.start_time or 0) / av.time_base
    return math.ceil((seconds + start) / float(stream.time_base))


def find_target(times: list[int], first_time: int, start_index: int) -> int | None:
    """Return the time of frame `start_index`, the first at `first_time` being 0; None if none."""
    position = bisect.bisect_left(times, first_time) + start_index
    return times[position] if position < len(times) else None


def jump(container: Any, stream: Any, target: int, *, must_hit: bool) -> Iterator[Any] | None:
    """Return the frames from a time on, or None where they might not be the true ones.

    Args:
        container: Just opened; of no use to others afterwards.
        stream: Its video stream.
        target: A time in the stream's units.
        must_hit: Whether a frame must have that very time.
    """
    margin = round(_MARGIN_SECONDS / float(stream.time_base))
    try:
        container.seek(max(0, target - margin), stream=stream, backward=True)
        frames = decode_frames(container, stream)
        landing = next(frames, None)
        if landing is None or landing.pts is None or landing.pts > target:
            return None
        # Intra refresh: not all of the picture is new. Interlaced: a packet may be half a frame.
        is_whole = landing.key_frame and landing.pict_type == PictureType.I
        if not is_whole or landing.interlaced_frame:
            return None
        frame = landing
        while frame is not None and (frame.pts is None or frame.pts < target):
            frame = next(frames, None)
    except (av.error.FFmpegError, DamageError):
        return None
    if frame is None:
        return None if must_hit else iter(())
    if must_hit and frame.pts != target:
        return None
    return chain([frame], frames)


def timed(container: Any, stream: Any, frames: Iterator[Any]) -> Iterator[tuple[Any, float]]:
    """Yield frames with the seconds since the start of the file at which they are shown."""
    clock = Clock(container, stream)
    for frame in frames:
        yield frame, clock.seconds_of(frame.pts)
