"""Frames far into a video: the very same as of a full reading, without one."""

import av
import numpy as np
import pytest
from made_up_videos import copy_packets

from posemill.decoders import open_video
from posemill.decoders.jump_pyav import can_jump, find_target, first_time_at, jump
from posemill.decoders.sparse_pyav import SparseDecoder
from posemill.decoders.stream_pyav import read_index
from posemill.decoders.video_pyav import PyavReader
from posemill.errors import DecodeError
from posemill.testing.videos import number_of, write_video

KINDS = {
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
    "long.mkv": {"options": {"g": "250", "bf": "3", "x264-params": "scenecut=0:b-pyramid=normal"}},
    "av1.mp4": {"codec": "libsvtav1", "options": {"g": "20", "preset": "12"}},
    # what cannot be jumped in, and must still be right: not in SAFE
    "intra_refresh.mp4": {
        "size_wh": (256, 48),
        "options": {"g": "25", "bf": "0", "x264-params": "intra-refresh=1"},
    },
    "mpeg4.avi": {"codec": "mpeg4", "options": {"g": "25", "bf": "2"}},
    "stream.ts": {"options": {"g": "25", "bf": "2"}},
}
SAFE = [*KINDS][:7]
SPARSE = [*KINDS][:9]


@pytest.fixture
def make(tmp_path):
    return lambda name: write_video(tmp_path / name, 150, **KINDS[name])


@pytest.mark.parametrize("name", KINDS)
def test_frames_after_a_jump_are_the_very_same(make, name):
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


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", SPARSE)
def test_any_frames_are_found_without_reading_from_the_start(make, name, threads, monkeypatch):
    monkeypatch.setattr(PyavReader, "_pass_by", lambda *_: pytest.fail("read from the start"))
    generator = np.random.default_rng(0)
    with open_video(make(name), threads=threads) as video:
        whole = list(video)
        for size in (1, 2, 8, 30):
            numbers = generator.integers(0, 150, size)
            for number, frame in zip(numbers, video.frames_at(numbers), strict=True):
                np.testing.assert_array_equal(frame, whole[number])


@pytest.mark.parametrize("name", [*SAFE, "mpeg4.avi", "stream.ts"])
def test_a_jump_starts_near_its_target_in_containers_that_allow_it(make, name):
    path = make(name)
    with av.open(str(path)) as container, av.open(str(path)) as other:
        stream = container.streams.video[0]
        assert can_jump(container, stream) == (name in SAFE)
        if name not in SAFE:
            return  # read from the start
        index = read_index(other, other.streams.video[0], is_exact=True)
        assert index.is_sure
        times = index.pts[index.stored_at].tolist()
        assert len(times) == 150
        target = find_target(times, times[10], 100)
        assert target == times[110]
        frames = jump(container, stream, target, must_hit=True)
        assert frames is not None
        assert [frame.pts for frame in frames] == times[110:]


def test_a_time_between_frames_leads_to_the_next_one(make):
    with av.open(str(make("b_frames.mp4"))) as container:
        stream = container.streams.video[0]
        target = first_time_at(container, stream, 4.0) + 1
        frames = jump(container, stream, target, must_hit=False)
        assert next(frames).time == pytest.approx(4.04)
        assert jump(container, stream, target, must_hit=True) is None
    assert find_target([0, 4, 8], 1, 1) == 8
    assert find_target([0, 4, 8], 1, 2) is None


def test_a_cut_file_tells_the_same_end_after_a_jump(make):
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
def test_a_stream_cut_out_of_a_longer_one_is_counted_from_what_it_shows(make, tmp_path, name):
    with open_video(copy_packets(make(name), tmp_path / f"tail_{name}", 4)) as video:
        whole = list(video)
        part = list(video.read_frames(60))
    assert 60 < len(whole) < 140
    assert len(part) == len(whole) - 60
    np.testing.assert_array_equal(part[0], whole[60])


def decoded(path, numbers, monkeypatch):
    """Return how many packets the decoder was given for each group, and how many it skipped."""
    given = []

    class Counting(SparseDecoder):
        def _skip_unless(self, is_wanted):
            super()._skip_unless(is_wanted)
            given.append(self._context.skip_frame)

    with av.open(str(path)) as container, av.open(str(path)) as other:
        index = read_index(other, other.streams.video[0], is_exact=True)
        sparse = Counting(container, container.streams.video[0], index)
        found = sparse.read(numbers, lambda frame: frame)
        assert [frame.pts for frame in found.values()] == sorted(
            index.pts[index.stored_at[numbers]].tolist()
        )
    assert given.pop() == "DEFAULT"  # put back at the end
    return [len(given), given.count("NONREF")]


def test_no_more_than_from_the_key_frame_to_the_wanted_one_is_decoded(tmp_path, monkeypatch):
    options = {"g": "20", "bf": "0", "x264-params": "scenecut=0"}
    path = write_video(tmp_path / "a.mp4", 100, options=options)
    assert decoded(path, [47], monkeypatch) == [8, 6]
    assert decoded(path, [3, 40, 99], monkeypatch) == [4 + 1 + 20, 2 + 0 + 18]
    assert decoded(path, [1, 21, 23], monkeypatch) == [2 + 4, 0 + 1]
    plain = write_video(tmp_path / "a.mkv", 40, codec="mpeg4", options={"g": "20", "bf": "0"})
    assert decoded(plain, [23], monkeypatch) == [4, 0]


def damaged(path, length=60):
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


def test_damage_on_the_way_is_told_and_frames_before_it_are_had(tmp_path):
    path, lost = damaged(tmp_path / "a.mp4")
    with open_video(path) as video:
        assert [number_of(frame) for frame in video.frames_at([5, 2])] == [5, 2]
        with pytest.raises(DecodeError, match=f"corrupt: {lost} frames could be read") as caught:
            video.frames_at([5, 59])
        assert caught.value.frame_index == lost
        assert [number_of(frame) for frame in video.frames_at([lost - 1, 2])] == [lost - 1, 2]
    path, lost = damaged(tmp_path / "a.mkv", 300)
    with open_video(path) as video:
        assert number_of(video.frames_at([lost - 1])[0]) == lost - 1
        with pytest.raises(DecodeError, match=f"corrupt: {lost} frames could be read"):
            video.frames_at([80])


def test_frames_of_a_cut_file_come_up_to_the_cut(tmp_path):
    path = write_video(tmp_path / "a.mkv", 90, options={"g": "10"})
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * 0.6)])
    with open_video(path) as video:
        assert [number_of(frame) for frame in video.frames_at([25, 3])] == [25, 3]
        with pytest.raises(DecodeError, match=r"truncated: \d+ frames could be read"):
            video.frames_at([88])
