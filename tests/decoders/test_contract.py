"""What every video decoder has to do; a new row in `DECODERS` runs through all of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from posemill.decoders import DECODERS, open_video
from posemill.errors import ConfigError
from posemill.testing import DecoderContract
from posemill.testing.decoders import refusal

# What libraries that go to a frame by its time get wrong.
UNTIMED = ("mpeg4.avi", "animated.gif", "stream.ts", "interlaced.mp4", "open-gop.mkv",
           "intra-refresh.mp4", "early-start.mp4", "mirrored.mp4")  # fmt: skip
REFUSED = {
    "opencv": ("av1.mkv", "interlaced.mp4"),
    "torchcodec": UNTIMED,
    "decord": (*UNTIMED, "turned.mp4", "hevc.mp4", "mpeg4.mp4"),
}
# Beside PyAV, none says where a stream is damaged, and colours at 10 bits are guessed otherwise.
CLAIMS: dict[str, dict[str, Any]] = {"pyav": {}} | {
    name: {"refused": refused, "finds_damage": False, "bounds": {"hevc10.mp4": 4.0}}
    for name, refused in REFUSED.items()
}

# A suite for each row of the table.
globals().update({
    f"Test{name.title()}": type(
        f"Test{name.title()}", (DecoderContract,), {"name": name, **CLAIMS[name]}
    )
    for name in DECODERS
})  # fmt: skip


@pytest.fixture(params=["pyav", "opencv"])
def decoder(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_file_we_may_not_read_says_so(
    any_video: Path,
    decoder: str,
    without_permission: Callable[[Path], AbstractContextManager[None]],
) -> None:
    with without_permission(any_video):
        assert refusal(any_video, decoder).reason == "no permission"


def test_wrong_arguments_are_told(any_video: Path, decoder: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown decoder 'vlc'; known: .*pyav"):
        open_video(any_video, decoder="vlc")
    with pytest.raises(ValueError, match="threads: expected 1 or more, got 0"):
        open_video(any_video, decoder=decoder, threads=0)
    with pytest.raises(ValueError, match=r"expected 0 <= start_seconds < end_seconds, got 2 and 1"):
        open_video(any_video, decoder=decoder, start_seconds=2, end_seconds=1)
    with (
        open_video(any_video, decoder=decoder) as video,
        pytest.raises(ValueError, match="start_index: expected 0 or more, got -1"),
    ):
        video.read_frames(-1)
