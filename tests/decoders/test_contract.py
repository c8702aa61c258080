"""What every video decoder has to do; a new row in `DECODERS` runs through all of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import av
import numpy as np
import pytest

from posemill.decoders import DECODERS, open_video
from posemill.decoders.opening import REASONS
from posemill.errors import ConfigError, DecodeError
from posemill.records import Frame

NumberOf = Callable[[Frame], int]
WriteVideo = Callable[..., Path]


@pytest.fixture(params=sorted(DECODERS))
def decoder(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def refusal(path: Path, decoder: str) -> DecodeError:
    """Return the error of opening and reading a file to its end."""
    with pytest.raises(DecodeError) as caught, open_video(path, decoder=decoder) as video:
        list(video)
    assert caught.value.reason in REASONS
    assert path.name in str(caught.value)
    return caught.value


def test_all_frames_come_once_in_order(any_video: Path, decoder: str, number_of: NumberOf) -> None:
    with open_video(any_video, decoder=decoder) as video:
        frames = list(video)
        assert [number_of(frame) for frame in frames] == list(range(30))
        assert video.count_frames() == 30
        assert video.num_frames in (30, None)
        assert video.fps == pytest.approx(25)
        assert video.size_wh == (64, 48)
    for frame in frames:
        assert frame.shape == (48, 64, 3)
        assert frame.dtype == np.uint8
        assert frame.flags.c_contiguous


def test_colours_are_rgb_and_upright(any_video: Path, decoder: str) -> None:
    with open_video(any_video, decoder=decoder) as video:
        frame = next(iter(video)).astype(int)
    np.testing.assert_allclose(frame[40, 50], (200, 40, 40), atol=12)
    np.testing.assert_allclose(frame[40, 6], (40, 40, 200), atol=12)


@pytest.mark.parametrize("start_index", [0, 1, 7, 8, 23, 29, 30, 99])
def test_reading_from_the_middle_gives_the_very_same_frames(
    any_video: Path, decoder: str, start_index: int
) -> None:
    with open_video(any_video, decoder=decoder) as video:
        whole = list(video)
        part = list(video.read_frames(start_index))
    assert len(part) == max(0, 30 - start_index)
    for one, other in zip(part, whole[start_index:], strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_reader_can_be_read_twice_and_at_the_same_time(any_video: Path, decoder: str) -> None:
    with open_video(any_video, decoder=decoder) as video:
        first, second = iter(video), video.read_frames(0)
        for _ in range(30):
            np.testing.assert_array_equal(next(first), next(second))
        assert len(list(video)) == 30


def test_a_frame_stays_as_it_is_while_the_next_ones_are_read(
    any_video: Path, decoder: str, number_of: NumberOf
) -> None:
    with open_video(any_video, decoder=decoder) as video:
        frames = iter(video)
        kept = next(frames)
        before = kept.copy()
        for _ in frames:
            pass
    np.testing.assert_array_equal(kept, before)
    assert number_of(kept) == 0


@pytest.mark.parametrize(
    ("start_seconds", "end_seconds", "expected"),
    [
        (0.0, None, range(30)),
        (0.12, None, range(3, 30)),
        (0.13, 0.2, range(4, 5)),
        (0.36, 0.48, range(9, 12)),
        (1.16, 99.0, range(29, 30)),
    ],
)
def test_a_window_holds_the_frames_shown_within_it(
    any_video: Path,
    decoder: str,
    number_of: NumberOf,
    start_seconds: float,
    end_seconds: float | None,
    expected: range,
) -> None:
    with open_video(
        any_video, decoder=decoder, start_seconds=start_seconds, end_seconds=end_seconds
    ) as video:
        assert [number_of(frame) for frame in video] == list(expected)
        assert [number_of(frame) for frame in video.read_frames(1)] == list(expected)[1:]
        assert video.count_frames() == len(expected)
        assert video.num_frames in (len(expected), None)


def test_variable_frame_rate_neither_drops_nor_doubles(
    tmp_path: Path, decoder: str, write_video: WriteVideo, number_of: NumberOf
) -> None:
    times = [0, 4, 5, 30, 31, 90, 120, 121]
    path = write_video(tmp_path / "phone.mp4", len(times), times=times)
    with open_video(path, decoder=decoder) as video:
        assert [number_of(frame) for frame in video] == list(range(8))
    with open_video(path, decoder=decoder, start_seconds=0.05, end_seconds=0.9) as video:
        assert [number_of(frame) for frame in video] == [2, 3, 4]


def test_threads_do_not_change_the_frames(any_video: Path, decoder: str) -> None:
    with open_video(any_video, decoder=decoder) as video:
        alone = list(video)
    with open_video(any_video, decoder=decoder, threads=2) as video:
        for one, other in zip(alone, video, strict=True):
            np.testing.assert_array_equal(one, other)


def test_files_that_are_no_video_are_told_apart(
    tmp_path: Path, decoder: str, write_video: WriteVideo
) -> None:
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_text("not a video at all " * 100)
    (tmp_path / "link.mp4").symlink_to("gone.mp4")
    (tmp_path / "folder.mp4").mkdir()
    expected = {
        "gone.mp4": "missing",
        "empty.mp4": "empty file",
        "text.mp4": "not a video",
        "link.mp4": "broken link",
        "folder.mp4": "not a file",
    }
    for name, reason in expected.items():
        assert refusal(tmp_path / name, decoder).reason == reason


def test_a_file_we_may_not_read_says_so(
    any_video: Path,
    decoder: str,
    without_permission: Callable[[Path], AbstractContextManager[None]],
) -> None:
    with without_permission(any_video):
        assert refusal(any_video, decoder).reason == "no permission"


def test_sound_alone_has_no_video_stream(tmp_path: Path, decoder: str) -> None:
    path = tmp_path / "song.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=8000, layout="mono")
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 2048), np.float32), "fltp", "mono")
        sound.sample_rate = 8000
        container.mux(stream.encode(sound))
        container.mux(stream.encode(None))
    assert "no video stream: the file holds audio" in str(refusal(path, decoder))


def test_a_window_without_frames_is_an_error(any_video: Path, decoder: str) -> None:
    with open_video(any_video, decoder=decoder, start_seconds=50) as video:
        assert video.count_frames() == 0
        with pytest.raises(DecodeError, match="no frames: no frame within the window asked for"):
            list(video)


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".avi"])
def test_a_cut_video_gives_its_good_frames_and_then_says_where_it_ends(
    tmp_path: Path, decoder: str, write_video: WriteVideo, number_of: NumberOf, suffix: str
) -> None:
    path = write_video(
        tmp_path / f"cut{suffix}",
        90,
        codec="mpeg4" if suffix == ".avi" else "libx264",
        options={"g": "12", "bf": "0" if suffix == ".avi" else "2"},
        container_options={"movflags": "faststart"} if suffix == ".mp4" else {},
    )
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * 0.6)])
    got: list[Frame] = []
    with open_video(path, decoder=decoder) as video:
        with pytest.raises(DecodeError, match="truncated: ") as caught:
            got.extend(video)
        assert 10 < len(got) < 90
        assert [number_of(frame) for frame in got] == list(range(len(got)))
        assert caught.value.frame_index == len(got)
        later: list[Frame] = []
        with pytest.raises(DecodeError) as again:
            later.extend(video.read_frames(5))
    assert len(later) == len(got) - 5
    assert again.value.frame_index == caught.value.frame_index


def test_damage_in_the_middle_stops_at_the_first_bad_frame(
    tmp_path: Path, decoder: str, write_video: WriteVideo, number_of: NumberOf
) -> None:
    path = write_video(
        tmp_path / "damaged.mkv", 90, size_wh=(128, 96), options={"g": "30", "bf": "2", "crf": "10"}
    )
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    noise = np.random.default_rng(0).integers(0, 255, 300, np.uint8)
    data[middle : middle + 300] = noise.tobytes()
    path.write_bytes(data)
    got: list[Frame] = []
    with (
        open_video(path, decoder=decoder) as video,
        pytest.raises(DecodeError, match=r"corrupt: \d+ frames could be read, then: ") as error,
    ):
        got.extend(video)
    assert 10 < len(got) < 80
    assert [number_of(frame) for frame in got] == list(range(len(got)))
    assert error.value.frame_index == len(got)


def test_a_frame_above_the_limit_is_refused_at_once(any_video: Path, decoder: str) -> None:
    with pytest.raises(DecodeError, match="too large: 64 x 48; allowed are 1,000 pixels"):
        open_video(any_video, decoder=decoder, max_pixels=1000)


def test_names_that_are_no_text_or_look_like_addresses_work(
    any_video: Path, decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(any_video.parent)
    for name in ("http:a.mp4", "pipe:0", 'it\'s "two"\nlines.mkv', "\udcff\udcfe.mp4"):
        shutil.copyfile(any_video, name)
        with open_video(name, decoder=decoder) as video:
            assert len(list(video)) == 30


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
