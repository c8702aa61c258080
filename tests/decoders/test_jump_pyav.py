from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
from av.video.frame import PictureType

from posemill.decoders import jump_pyav, open_video
from posemill.decoders.jump_pyav import can_jump, find_target, first_time_at, jump
from posemill.decoders.stream_pyav import read_index
from posemill.errors import DecodeError

WriteVideo = Callable[..., Path]

KINDS: dict[str, dict[str, Any]] = {
    "b_frames.mp4": {"options": {"g": "25", "bf": "3"}},
    "open_gop.mp4": {"options": {"g": "25", "bf": "3", "x264-params": "open-gop=1:b-adapt=0"}},
    "open_gop.mkv": {"options": {"g": "25", "bf": "3", "x264-params": "open-gop=1:b-adapt=0"}},
    "hevc.mp4": {
        "codec": "libx265",
        "options": {
            "x265-params": "log-level=none:pools=1:keyint=25:open-gop=1:bframes=3",
            "preset": "ultrafast",
        },
    },
    "vp9.webm": {"codec": "libvpx-vp9", "options": {"g": "25", "cpu-used": "8"}},
    "mjpeg.mkv": {"codec": "mjpeg", "pixel_format": "yuvj420p"},
    "mpeg4.mp4": {"codec": "mpeg4", "options": {"g": "25", "bf": "2"}},
    # what cannot be jumped in, and must still be right
    "intra_refresh.mp4": {
        "size_wh": (256, 48),
        "options": {"g": "25", "bf": "0", "x264-params": "intra-refresh=1"},
    },
    "mpeg4.avi": {"codec": "mpeg4", "options": {"g": "25", "bf": "2"}},
    "stream.ts": {"options": {"g": "25", "bf": "2"}},
}
SAFE = [
    "b_frames.mp4",
    "open_gop.mp4",
    "open_gop.mkv",
    "hevc.mp4",
    "vp9.webm",
    "mjpeg.mkv",
    "mpeg4.mp4",
]


@pytest.fixture
def make(tmp_path: Path, write_video: WriteVideo) -> Callable[[str], Path]:
    return lambda name: write_video(tmp_path / name, 150, **KINDS[name])


@pytest.mark.parametrize("name", KINDS)
def test_frames_after_a_jump_are_the_very_same(make: Callable[[str], Path], name: str) -> None:
    path = make(name)
    with open_video(path) as video:
        whole = list(video)
        assert len(whole) == 150
        for start_index in (49, 50, 75, 99, 149):
            part = list(video.read_frames(start_index))
            assert len(part) == 150 - start_index
            for one, other in zip(part, whole[start_index:], strict=True):
                np.testing.assert_array_equal(one, other)
        assert list(video.read_frames(150)) == []
    for start_seconds in (2.98, 3.0, 3.48, 5.5):
        first = round(start_seconds * 25 + 0.499)
        with open_video(path, start_seconds=start_seconds, end_seconds=5.96) as video:
            for start_index in (0, 2):
                part = list(video.read_frames(start_index))
                assert len(part) == 149 - first - start_index
                np.testing.assert_array_equal(part[0], whole[first + start_index])


@pytest.mark.parametrize("name", SAFE)
def test_a_jump_starts_near_its_target(make: Callable[[str], Path], name: str) -> None:
    path = make(name)
    with av.open(str(path)) as container, av.open(str(path)) as other:
        stream = container.streams.video[0]
        assert can_jump(container, stream)
        index = read_index(other, other.streams.video[0], is_exact=True)
        assert index.is_sure
        times = index.pts[index.stored_at].tolist()
        assert len(times) == 150
        target = find_target(times, times[10], 100)
        assert target == times[110]
        frames = jump(container, stream, target, must_hit=True)
        assert frames is not None
        assert [frame.pts for frame in frames] == times[110:]


def test_intra_refresh_is_not_jumped_into(make: Callable[[str], Path]) -> None:
    path = make("intra_refresh.mp4")
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        target = first_time_at(container, stream, 4.0)
        assert jump(container, stream, target, must_hit=False) is None


def test_other_containers_are_read_from_the_start(make: Callable[[str], Path]) -> None:
    for name in ("mpeg4.avi", "stream.ts"):
        with av.open(str(make(name))) as container:
            assert not can_jump(container, container.streams.video[0])


def test_a_time_between_frames_leads_to_the_next_one(make: Callable[[str], Path]) -> None:
    with av.open(str(make("b_frames.mp4"))) as container:
        stream = container.streams.video[0]
        target = first_time_at(container, stream, 4.0) + 1
        frames = jump(container, stream, target, must_hit=False)
        assert frames is not None
        assert next(frames).time == pytest.approx(4.04)
    assert find_target([0, 4, 8], 1, 1) == 8
    assert find_target([0, 4, 8], 1, 2) is None


def test_a_time_that_no_frame_has_is_noticed(make: Callable[[str], Path]) -> None:
    with av.open(str(make("b_frames.mp4"))) as container:
        stream = container.streams.video[0]
        target = first_time_at(container, stream, 4.0) + 1
        assert jump(container, stream, target, must_hit=True) is None


def test_a_window_behind_the_end_is_found_empty(make: Callable[[str], Path]) -> None:
    with (
        open_video(make("b_frames.mp4"), start_seconds=60) as video,
        pytest.raises(DecodeError, match="no frames: no frame within the window asked for"),
    ):
        list(video)


def test_a_cut_file_tells_the_same_end_after_a_jump(make: Callable[[str], Path]) -> None:
    path = make("open_gop.mkv")
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * 0.8)])
    ends = []
    for start_index in (0, 60):
        with open_video(path) as video, pytest.raises(DecodeError, match="truncated: ") as caught:
            list(video.read_frames(start_index))
        ends.append(caught.value.frame_index)
    assert ends[0] == ends[1]
    assert 60 < ends[0] < 150


@pytest.mark.parametrize("name", ["open_gop.mkv", "intra_refresh.mp4"])
def test_a_stream_cut_out_of_a_longer_one_is_counted_from_what_it_shows(
    make: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    path = tmp_path / f"tail_{name}"
    with av.open(str(make(name))) as source, av.open(str(path), "w") as target:
        stream = source.streams.video[0]
        copy = target.add_stream_from_template(stream)
        for number, packet in enumerate(source.demux(stream)):
            if packet.size and number > 3:
                packet.stream = copy
                target.mux(packet)
    with open_video(path) as video:
        whole = list(video)
        part = list(video.read_frames(60))
    assert 60 < len(whole) < 140
    assert len(part) == len(whole) - 60
    np.testing.assert_array_equal(part[0], whole[60])


@pytest.mark.parametrize(
    ("is_key", "kind", "is_interlaced", "is_taken"),
    [
        (True, PictureType.I, False, True),
        (True, PictureType.P, False, False),  # a key frame of intra refresh
        (False, PictureType.I, False, False),  # frames before it may be needed
        (True, PictureType.I, True, False),
    ],
)
def test_a_jump_must_land_on_a_whole_frame(
    monkeypatch: pytest.MonkeyPatch,
    is_key: bool,
    kind: PictureType,
    is_interlaced: bool,
    is_taken: bool,
) -> None:
    landing = SimpleNamespace(
        pts=512, key_frame=is_key, pict_type=kind, interlaced_frame=is_interlaced
    )
    monkeypatch.setattr(jump_pyav, "decode_frames", lambda *_: iter([landing]))
    stream: Any = SimpleNamespace(time_base=Fraction(1, 1024))
    container = SimpleNamespace(seek=lambda *_, **__: None)
    frames = jump(container, stream, 512, must_hit=True)
    assert (frames is not None) == is_taken
