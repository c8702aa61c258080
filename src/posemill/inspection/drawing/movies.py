"""Whole clips as moving pictures: MP4 (H.264) that every player takes, or GIF."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import chain, islice
from pathlib import Path
from typing import Any

import av
import numpy as np

from posemill.files import atomic_path
from posemill.inspection.drawing.picture_files import paste
from posemill.records import Frame

_GIF_MAX_WIDTH = 480
_GIF_MAX_FPS = 15.0  # more doubles the size, and viewers slow down what is much faster


def write_movie(path: Path, frames: Iterable[Frame], *, kind: str, fps: float | None = None) -> int:
    """Write frames as a movie and return how many; the file appears whole or not at all.

    `frames` are `(height, width, 3)` RGB, taken one at a time; all take the size of the first:
    others are fitted into it, the ratio kept. `kind` is `mp4` or `gif`, which is made at most 480
    pixels wide and 15 frames a second, by leaving frames out. `fps` is that of what comes in; 25
    where it is unknown or absurd.
    """
    if fps is None or not 0 < fps <= 1000:  # some files say thousands
        fps = 25.0
    is_gif = kind == "gif"
    step = math.ceil(fps / _GIF_MAX_FPS) if is_gif else 1
    rate = Fraction(fps).limit_denominator(1001) / step
    pictures = islice(frames, 0, None, step)
    first = next(pictures, None)
    if first is None:
        raise ValueError("frames: expected at least one, got none")
    height, width = first.shape[:2]
    scale = min(1.0, _GIF_MAX_WIDTH / width) if is_gif else 1.0
    # yuv420p halves both.
    width, height = (max(2, round(side * scale) // 2 * 2) for side in (width, height))
    codec, pixel_format = ("gif", "pal8") if is_gif else ("libx264", "yuv420p")
    # The index of an mp4 at its start: it plays while it loads. crf: lines of two pixels are sharp.
    file_options, options = ({}, {}) if is_gif else ({"movflags": "faststart"}, {"crf": "20"})
    with (
        atomic_path(path) as temporary,
        av.open(str(temporary), "w", format=kind, options=file_options) as container,
    ):
        stream: Any = container.add_stream(codec, rate=rate, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, pixel_format
        stream.codec_context.thread_count = 1
        graph = _palette_graph(width, height, rate) if is_gif else None
        for count, picture in enumerate(chain([first], pictures), start=1):
            canvas = np.zeros((height, width, 3), np.uint8)
            paste(canvas, picture)
            frame = av.VideoFrame.from_ndarray(canvas, format="rgb24")
            frame.pts, frame.time_base = count - 1, 1 / rate
            if graph is not None:
                graph.push(frame)
                frame = graph.pull()
            container.mux(stream.encode(frame))
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
    graph.link_nodes(source, split, palette).link_nodes(use, sink)
    split.link_to(use, 1, 0)
    palette.link_to(use, 0, 1)
    graph.configure()
    return graph
