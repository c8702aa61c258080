"""Pictures and videos made on the spot, so that every pixel is known."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

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


def _number_of(frame: Frame) -> int:
    """Return the number `numbered_frame` painted."""
    height, width = frame.shape[:2]
    row = frame[height // 8 : height // 4].mean((0, 2))
    return sum((row[bit * width // 8 + 2 : (bit + 1) * width // 8 - 2].mean() > 127) << bit
               for bit in range(8))  # fmt: skip


def _write_video(
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
) -> Path:
    """Write numbered frames, 25 a second, or at `times` in 1/100 s."""
    with av.open(str(path), "w", options=container_options or {}) as container:
        stream: Any = container.add_stream(codec, rate=25, options=options or {})
        stream.width, stream.height = size_wh
        stream.pix_fmt = pixel_format
        base = Fraction(1, 100 if times else 25)
        stream.codec_context.time_base = base
        if prepare:
            prepare(stream)
        for number in range(num_frames):
            frame = av.VideoFrame.from_ndarray(numbered_frame(number, size_wh), format="rgb24")
            frame.pts = times[number] if times else number
            frame.time_base = base
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


@pytest.fixture(params=["h264.mp4", "b-frames.mkv", "mpeg4.avi", "vp9.webm", "hevc10.mp4"])
def any_video(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A video of 30 numbered frames, in several containers and codecs."""
    kinds: dict[str, dict[str, Any]] = {
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
    return _write_video(tmp_path / request.param, **kinds[request.param])


@contextlib.contextmanager
def _without_permission(path: Path) -> Iterator[None]:
    """Take the right to read a file away; skip where that means nothing (root)."""
    path.chmod(0)
    try:
        try:
            path.open("rb").close()
        except PermissionError:
            yield
        else:
            pytest.skip("this user may read everything")
    finally:
        path.chmod(0o600)


@pytest.fixture
def number_of() -> Callable[[Frame], int]:
    """Reads the number of a numbered frame."""
    return _number_of


@pytest.fixture
def write_video() -> Callable[..., Path]:
    """Writes a video of numbered frames."""
    return _write_video


@pytest.fixture
def without_permission() -> Callable[[Path], contextlib.AbstractContextManager[None]]:
    """A context in which a file cannot be read."""
    return _without_permission
