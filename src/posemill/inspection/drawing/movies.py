"""Whole clips as moving pictures: MP4 (H.264) that every player takes."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np

from posemill.files import atomic_path
from posemill.records import Frame


def write_movie(path: Path, frames: Iterable[Frame], *, fps: float = 25.0) -> int:
    """Write frames as a movie and return how many; the file appears whole or not at all.

    All frames take the size of the first: others are fitted into it, the ratio kept.

    Args:
        path: The file to write; its folder exists.
        frames: `(height, width, 3)` RGB each, taken one at a time.
        fps: Frames per second of what comes in.

    Raises:
        ValueError: No frames, or no such rate.
    """
    rate = _rate(fps)
    iterator = iter(frames)
    first = next(iterator, None)
    if first is None:
        raise ValueError("frames: expected at least one, got none")
    height, width = first.shape[:2]
    # yuv420p halves both sides.
    width, height = max(2, width - width % 2), max(2, height - height % 2)
    # The index at the start of the file: it plays while it loads.
    with (
        atomic_path(path) as temporary,
        av.open(str(temporary), "w", format="mp4", options={"movflags": "faststart"}) as container,
    ):
        # crf 20: lines of two pixels stay sharp.
        stream: Any = container.add_stream("libx264", rate=rate, options={"crf": "20"})
        stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
        stream.codec_context.thread_count = 1
        for number, picture in enumerate(chain([first], iterator)):
            frame = av.VideoFrame.from_ndarray(_fitted(picture, width, height), format="rgb24")
            frame.pts, frame.time_base = number, 1 / rate
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return number + 1


def _rate(fps: float) -> Fraction:
    if not 0 < fps <= 1000:
        raise ValueError(f"fps: expected more than 0 and at most 1000, got {fps}")
    return Fraction(fps).limit_denominator(1001)


def _fitted(picture: Frame, width: int, height: int) -> Frame:
    if picture.shape[:2] == (height, width):
        return np.ascontiguousarray(picture)
    if abs(picture.shape[0] - height) <= 1 and abs(picture.shape[1] - width) <= 1:
        return np.ascontiguousarray(picture[:height, :width])  # one row less is not worth a blur
    scale = min(width / picture.shape[1], height / picture.shape[0])
    size_wh = (
        min(width, max(1, round(picture.shape[1] * scale))),
        min(height, max(1, round(picture.shape[0] * scale))),
    )
    canvas = np.zeros((height, width, 3), np.uint8)
    canvas[: size_wh[1], : size_wh[0]] = cv2.resize(picture, size_wh, interpolation=cv2.INTER_AREA)
    return canvas
