from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from posemill.decoders import open_video
from posemill.decoders.sparse_pyav import SparseDecoder
from posemill.decoders.stream_pyav import read_index
from posemill.decoders.video_pyav import PyavReader
from posemill.errors import DecodeError
from posemill.records import Frame

NumberOf = Callable[[Frame], int]
WriteVideo = Callable[..., Path]
X265 = "log-level=none:pools=1:keyint=20:open-gop=1:bframes=3"
KINDS: dict[str, dict[str, Any]] = {
    "b-frames.mp4": {"options": {"g": "20", "bf": "3", "x264-params": "b-pyramid=normal"}},
    "long.mkv": {"options": {"g": "250", "bf": "3", "x264-params": "scenecut=0"}},
    "open-gop.mp4": {
        "options": {"g": "20", "bf": "3", "x264-params": "open-gop=1:b-adapt=0:scenecut=0"}
    },
    "hevc.mp4": {"codec": "libx265", "options": {"x265-params": X265, "preset": "ultrafast"}},
    "vp9.webm": {"codec": "libvpx-vp9", "options": {"g": "20", "cpu-used": "8"}},
    "av1.mp4": {"codec": "libsvtav1", "options": {"g": "20", "preset": "12"}},
    "mpeg4.mkv": {"codec": "mpeg4", "options": {"g": "20", "bf": "2"}},
}


@pytest.fixture(params=list(KINDS))
def path(request: pytest.FixtureRequest, tmp_path: Path, write_video: WriteVideo) -> Path:
    return write_video(tmp_path / request.param, 100, **KINDS[request.param])


@pytest.mark.parametrize("threads", [1, 2])
def test_any_frames_are_found_without_reading_from_the_start(
    path: Path, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("read from the start")

    monkeypatch.setattr(PyavReader, "_pass_by", fail)
    generator = np.random.default_rng(0)
    with open_video(path, threads=threads) as video:
        whole = list(video)
        for size in (1, 2, 8, 30):
            numbers = generator.integers(0, 100, size)
            for number, frame in zip(numbers, video.frames_at(numbers), strict=True):
                np.testing.assert_array_equal(frame, whole[number])


def decoded(path: Path, numbers: list[int], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many packets the decoder was given for each group, and how many it skipped."""
    given: list[str] = []

    class Counting(SparseDecoder):
        def _skip_unless(self, is_wanted: bool) -> None:
            super()._skip_unless(is_wanted)
            given.append(self._context.skip_frame)

    with av.open(str(path)) as container, av.open(str(path)) as other:
        index = read_index(other, other.streams.video[0], is_exact=True)
        sparse = Counting(container, container.streams.video[0], index)
        found = sparse.read(numbers, lambda frame: frame)
        assert found is not None
        assert [frame.pts for frame in found.values()] == sorted(
            index.pts[index.stored_at[numbers]].tolist()
        )
    assert given.pop() == "DEFAULT"  # put back at the end
    return [len(given), given.count("NONREF")]


def test_no_more_than_from_the_key_frame_to_the_wanted_one_is_decoded(
    tmp_path: Path, write_video: WriteVideo, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"g": "20", "bf": "0", "x264-params": "scenecut=0"}
    path = write_video(tmp_path / "a.mp4", 100, options=options)
    assert decoded(path, [47], monkeypatch) == [8, 6]
    assert decoded(path, [3, 40, 99], monkeypatch) == [4 + 1 + 20, 2 + 0 + 18]
    assert decoded(path, [1, 21, 23], monkeypatch) == [2 + 4, 0 + 1]
    plain = write_video(tmp_path / "a.mkv", 40, codec="mpeg4", options={"g": "20", "bf": "0"})
    assert decoded(plain, [23], monkeypatch) == [4, 0]


def damaged(path: Path, write_video: WriteVideo, length: int = 60) -> tuple[Path, int]:
    """Return a video of three groups of 30 with noise in the second, and its first lost frame."""
    options = {"g": "30", "bf": "2", "crf": "10", "x264-params": "scenecut=0"}
    write_video(path, 90, size_wh=(128, 96), options=options)
    data = bytearray(path.read_bytes())
    with av.open(str(path)) as container:
        start = [packet.pos for packet in container.demux(video=0)][40] + 8
    noise = np.random.default_rng(0).integers(0, 255, length, np.uint8)
    data[start : start + length] = noise.tobytes()
    path.write_bytes(data)
    with open_video(path) as video, pytest.raises(DecodeError) as forward:
        list(video)
    assert forward.value.frame_index is not None
    assert 30 <= forward.value.frame_index < 60
    return path, forward.value.frame_index


def test_damage_on_the_way_is_told_and_frames_before_it_are_had(
    tmp_path: Path, write_video: WriteVideo, number_of: NumberOf
) -> None:
    path, lost = damaged(tmp_path / "a.mp4", write_video)
    with open_video(path) as video:
        assert [number_of(frame) for frame in video.frames_at([5, 2])] == [5, 2]
        with pytest.raises(DecodeError, match=f"corrupt: {lost} frames could be read") as caught:
            video.frames_at([5, 59])
        assert caught.value.frame_index == lost
        assert [number_of(frame) for frame in video.frames_at([lost - 1, 2])] == [lost - 1, 2]


def test_where_packets_are_lost_no_later_frame_has_a_number(
    tmp_path: Path, write_video: WriteVideo, number_of: NumberOf
) -> None:
    path, lost = damaged(tmp_path / "a.mkv", write_video, 300)
    with open_video(path) as video:
        assert number_of(video.frames_at([lost - 1])[0]) == lost - 1
        with pytest.raises(DecodeError, match=f"corrupt: {lost} frames could be read"):
            video.frames_at([80])


def test_frames_of_a_cut_file_come_up_to_the_cut(
    tmp_path: Path, write_video: WriteVideo, number_of: NumberOf
) -> None:
    path = write_video(tmp_path / "a.mkv", 90, options={"g": "10"})
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * 0.6)])
    with open_video(path) as video:
        assert [number_of(frame) for frame in video.frames_at([25, 3])] == [25, 3]
        with pytest.raises(DecodeError, match=r"truncated: \d+ frames could be read"):
            video.frames_at([88])


def test_a_size_that_changes_on_the_way_is_that_of_each_frame(
    tmp_path: Path, write_video: WriteVideo
) -> None:
    small = write_video(tmp_path / "small.mkv", 20, options={"g": "10", "bf": "0"})
    large = write_video(tmp_path / "l.mkv", 20, size_wh=(96, 64), options={"g": "10", "bf": "0"})
    path = tmp_path / "both.mkv"
    with av.open(str(path), "w") as target:
        for offset, source in ((0, small), (800, large)):
            with av.open(str(source)) as container:
                stream = container.streams.video[0]
                if not offset:
                    copy = target.add_stream_from_template(stream)
                head = bytes(stream.codec_context.extradata or b"")
                for packet in container.demux(stream):
                    if not packet.size:
                        continue
                    with_head = av.Packet(_parameter_sets(head) + bytes(packet))
                    with_head.pts = packet.pts + offset
                    with_head.dts = packet.pts + offset
                    with_head.time_base = packet.time_base
                    with_head.is_keyframe = packet.is_keyframe
                    with_head.stream = copy
                    target.mux(with_head)
    with open_video(path) as video:
        whole = list(video)
        assert [frame.shape[:2] for frame in whole] == [(48, 64)] * 20 + [(64, 96)] * 20
        for number, frame in zip([33, 4, 20], video.frames_at([33, 4, 20]), strict=True):
            np.testing.assert_array_equal(frame, whole[number])
    with open_video(path, target_size=(32, 24)) as video:
        assert {frame.shape for frame in video.frames_at(range(40))} == {(24, 32, 3)}
    with open_video(path, max_pixels=64 * 48) as video:
        with pytest.raises(DecodeError, match="20 frames could be read, then: a frame of 96 x 64"):
            video.frames_at([5, 30])
        assert len(video.frames_at([19])) == 1


def _parameter_sets(head: bytes) -> bytes:
    """Return what H.264 in MP4 has in its head as parts of a packet."""
    first = 8 + int.from_bytes(head[6:8], "big")
    second = int.from_bytes(head[first + 1 : first + 3], "big")
    parts = (head[8:first], head[first + 3 : first + 3 + second])
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
