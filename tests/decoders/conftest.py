"""Pictures and videos made on the spot, so that every pixel is known."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from posemill.records import Frame
from posemill.testing.decoders import number_of as _number_of
from posemill.testing.decoders import write_video as _write_video


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
