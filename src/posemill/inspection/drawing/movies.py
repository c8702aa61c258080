"""Whole clips as moving pictures: MP4 (H.264) that every player takes, or GIF."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np

from posemill.files import atomic_path
from posemill.records import Frame

_GIF_MAX_WIDTH = 480
_GIF_MAX_FPS = 15.0  # more doubles the size, and viewers slow down what is much faster


def write_movie(path: Path, frames: Iterable[Frame], *, kind: str, fps: float = 25.0) -> int:
    """Write frames as a movie and return how many; the file appears whole or not at all.

    All frames take the size of the first: others are fitted into it, the ratio kept.

    Args:
        path: The file to write; its folder exists.
        frames: `(height, width, 3)` RGB each, taken one at a time.
        kind: `mp4` or `gif`. A GIF is made at most 480 pixels wide and 15 frames a second, by
            leaving frames out.
        fps: Frames per second of what comes in.

    Raises:
        ValueError: No frames, or no such rate.
    """
    rate = _rate(fps)
    iterator = iter(frames)
    first = next(iterator, None)
    if first is None:
        raise ValueError("frames: expected at least one, got none")
    # The index of an mp4 at its start: it plays while it loads.
    options = {"movflags": "faststart"} if kind == "mp4" else {}
    with (
        atomic_path(path) as temporary,
        av.open(str(temporary), "w", format=kind, options=options) as container,
    ):
        write = _write_mp4 if kind == "mp4" else _write_gif
        return write(container, _same_size(first, iterator, kind), rate)


def _rate(fps: float) -> Fraction:
    if not 0 < fps <= 1000:
        raise ValueError(f"fps: expected more than 0 and at most 1000, got {fps}")
    return Fraction(fps).limit_denominator(1001)


def _write_mp4(container: Any, frames: Iterator[Frame], rate: Fraction) -> int:
    stream, count = None, 0
    for picture in frames:
        if stream is None:
            # crf 20: lines of two pixels stay sharp.
            stream = container.add_stream("libx264", rate=rate, options={"crf": "20"})
            stream.height, stream.width = picture.shape[:2]
            stream.pix_fmt = "yuv420p"
            stream.codec_context.thread_count = 1
        container.mux(stream.encode(_video_frame(picture, count, rate)))
        count += 1
    if stream is not None:
        container.mux(stream.encode())
    return count


def _write_gif(container: Any, frames: Iterator[Frame], rate: Fraction) -> int:
    step = max(1, int(np.ceil(float(rate) / _GIF_MAX_FPS)))
    rate = rate / step
    stream, graph, count = None, None, 0
    for number, picture in enumerate(frames):
        if number % step:
            continue
        height, width = picture.shape[:2]
        if stream is None or graph is None:
            stream = container.add_stream("gif", rate=rate)
            stream.height, stream.width, stream.pix_fmt = height, width, "pal8"
            graph = _palette_graph(width, height, rate)
        graph.push(_video_frame(picture, count, rate))
        count += 1
        container.mux(stream.encode(graph.pull()))
    if stream is not None:
        container.mux(stream.encode())
    return count


def _palette_graph(width: int, height: int, rate: Fraction) -> Any:
    """Return filters that give every frame the 256 colours that suit it: no second pass."""
    graph = av.filter.Graph()
    source = graph.add_buffer(
        width=width, height=height, format=av.VideoFormat("rgb24"), time_base=1 / rate
    )
    split = graph.add("split")
    palette = graph.add("palettegen", "stats_mode=single")
    use = graph.add("paletteuse", "new=1:dither=bayer:bayer_scale=3")
    sink = graph.add("buffersink")
    source.link_to(split)
    split.link_to(palette, 0, 0)
    split.link_to(use, 1, 0)
    palette.link_to(use, 0, 1)
    use.link_to(sink)
    graph.configure()
    return graph


def _video_frame(picture: Frame, number: int, rate: Fraction) -> Any:
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
    frame.pts, frame.time_base = number, 1 / rate
    return frame


def _same_size(first: Frame, rest: Iterator[Frame], kind: str) -> Iterator[Frame]:
    height, width = first.shape[:2]
    if kind == "gif" and width > _GIF_MAX_WIDTH:
        height, width = round(height * _GIF_MAX_WIDTH / width), _GIF_MAX_WIDTH
    # yuv420p halves both sides.
    width, height = max(2, width - width % 2), max(2, height - height % 2)
    yield _fitted(first, width, height)
    for picture in rest:
        yield _fitted(picture, width, height)


def _fitted(picture: Frame, width: int, height: int) -> Frame:
    if picture.shape[:2] == (height, width):
        return picture
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
