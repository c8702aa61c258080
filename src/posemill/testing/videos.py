"""Videos made on the spot, so that every frame is known."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np

from posemill.records import Frame


def numbered_frame(number: int, size_wh: tuple[int, int] = (64, 48)) -> Frame:
    """Return a frame whose number survives lossy coding; the fixture `number_of` reads it."""
    width, height = size_wh
    frame = np.zeros((height, width, 3), np.uint8)
    for bit in range(8):
        left = bit * width // 8
        frame[: height // 2, left : left + width // 8] = 255 if number >> bit & 1 else 0
    frame[height // 2 :, :] = (200, 40, 40)  # red below, so that turning and flipping shows
    frame[height // 2 :, : width // 4] = (40, 40, 200)  # blue on the left
    return frame


def number_of(frame: Frame) -> int:
    """Return the number `numbered_frame` painted."""
    height, width = frame.shape[:2]
    row = frame[height // 8 : height // 4].mean((0, 2))
    return sum(
        (row[bit * width // 8 + 2 : (bit + 1) * width // 8 - 2].mean() > 127) << bit
        for bit in range(8)
    )


def write_video(
    path: Path,
    num_frames: int = 30,
    *,
    codec: str = "libx264",
    size_wh: tuple[int, int] = (64, 48),
    pixel_format: str = "yuv420p",
    times: list[int] | None = None,
    options: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
    prepare: Callable[[Any], None] | None = None,
    paint: Callable[[int, tuple[int, int]], Frame] = numbered_frame,
) -> Path:
    """Write numbered frames, or those that `paint` gives, 25 a second or at `times` in 1/100 s."""
    with av.open(str(path), "w", options=container_options or {}) as container:
        stream: Any = container.add_stream(codec, rate=25, options=options or {})
        stream.width, stream.height = size_wh
        stream.pix_fmt = pixel_format
        base = Fraction(1, 100 if times else 25)
        stream.codec_context.time_base = base
        if prepare:
            prepare(stream)
        for number in range(num_frames):
            frame = av.VideoFrame.from_ndarray(paint(number, size_wh), format="rgb24")
            frame.pts = times[number] if times else number
            frame.time_base = base
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


# Videos of 30 numbered frames, in several containers and codecs: keywords of `write_video`.
VIDEO_KINDS: dict[str, dict[str, Any]] = {
    "h264.mp4": {"options": {"g": "8", "bf": "0"}},
    "b-frames.mkv": {"options": {"g": "12", "bf": "3"}},
    "mpeg4.avi": {"codec": "mpeg4", "options": {"g": "10"}},
    "vp9.webm": {"codec": "libvpx-vp9", "options": {"cpu-used": "8"}},
    "hevc10.mp4": {
        "codec": "libx265",
        "pixel_format": "yuv420p10le",
        "options": {"x265-params": "log-level=none:pools=1", "preset": "ultrafast"},
    },
}
_X265 = {"x265-params": "log-level=none:pools=1:keyint=12", "preset": "ultrafast"}
# More kinds, each by one property that has led a decoder astray.
OTHER_KINDS: dict[str, dict[str, Any]] = {
    "long-gop.mp4": {"options": {"g": "250", "bf": "3", "x264-params": "b-pyramid=normal"}},
    "open-gop.mkv": {"options": {"g": "8", "bf": "3", "x264-params": "open-gop=1:b-adapt=0"}},
    "intra-refresh.mp4": {"options": {"g": "8", "bf": "0", "x264-params": "intra-refresh=1"}},
    "hevc.mp4": {"codec": "libx265", "options": _X265},
    "h264-10.mp4": {"pixel_format": "yuv420p10le", "options": {"g": "8"}},
    "mpeg4.mp4": {"codec": "mpeg4", "options": {"g": "10", "bf": "2"}},
    "av1.mkv": {"codec": "libsvtav1", "options": {"g": "10", "preset": "12", "svtav1-params": ""}},
    "animated.gif": {"codec": "gif", "pixel_format": "rgb8"},
    "interlaced.mp4": {"options": {"g": "8", "x264-params": "interlaced=1"}},
    "stream.ts": {"options": {"g": "8", "bf": "2"}},
    "variable-rate.mp4": {"times": [number * number + 3 * number for number in range(30)]},
    "late-start.mkv": {"times": list(range(500, 620, 4)), "options": {"g": "8", "bf": "2"}},
    "early-start.mp4": {"times": list(range(-40, 80, 4)), "options": {"g": "8", "bf": "0"}},
    "negative.ts": {"times": list(range(-40, 80, 4)), "options": {"g": "8", "bf": "2"},
                    "container_options": {"avoid_negative_ts": "disabled"}},
    "negative-offsets.mp4": {"options": {"g": "8", "bf": "3"},
                             "container_options": {"movflags": "negative_cts_offsets"}},
    "turned.mp4": {"prepare": lambda stream: stream.set_display_rotation(90)},
    "mirrored.mp4": {"prepare": lambda stream: stream.set_display_rotation(0, hflip=True)},
    "bt709.mp4": {"prepare": lambda stream: setattr(stream.codec_context, "colorspace", 1)},
    "full-range.mp4": {"prepare": lambda stream: setattr(stream.codec_context, "color_range", 2)},
    "odd-size.mp4": {"size_wh": (66, 50), "options": {"g": "8"}},
}  # fmt: skip


def write_kind(folder: Path, kind: str) -> Path:
    """Write a video of one of the kinds into a folder, under the name of the kind."""
    path = folder / kind
    path.write_bytes(_encode_kind(kind))
    return path


@cache
def _encode_kind(kind: str) -> bytes:
    """Return the file of a kind, encoded once in this process."""
    with tempfile.TemporaryDirectory() as folder:
        options = {**VIDEO_KINDS, **OTHER_KINDS}[kind]
        return write_video(Path(folder) / kind, **options).read_bytes()
