"""What every video decoder must do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from posemill.decoders import open_video
from posemill.decoders.opening import REASONS
from posemill.errors import DecodeError
from posemill.records import Frame

VIDEOS = ("h264.mp4", "b-frames.mkv", "mpeg4.avi", "vp9.webm", "hevc10.mp4")


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


def number_of(frame: Frame) -> int:
    """Return the number `numbered_frame` painted."""
    height, width = frame.shape[:2]
    row = frame[height // 8 : height // 4].mean((0, 2))
    return sum((row[bit * width // 8 + 2 : (bit + 1) * width // 8 - 2].mean() > 127) << bit
               for bit in range(8))  # fmt: skip


def write_video(
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


def refusal(path: Path, decoder: str) -> DecodeError:
    """Return the error of opening and reading a file to its end."""
    with pytest.raises(DecodeError) as caught, open_video(path, decoder=decoder) as video:
        list(video)
    assert caught.value.reason in REASONS
    assert path.name in str(caught.value)
    return caught.value


# Videos of 30 numbered frames, in several containers and codecs: keywords of `write_video`.
VIDEO_KINDS: dict[str, dict[str, Any]] = {
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


class DecoderContract:
    """Subclass it as `TestX` with the decoder's name; `videos` are the kinds it claims to read."""

    name: str = ""
    videos: tuple[str, ...] = VIDEOS

    @pytest.fixture(params=list(VIDEO_KINDS))
    def any_video(self, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
        """A video of 30 numbered frames, in several containers and codecs."""
        if request.param not in self.videos:
            pytest.skip(f"{self.name} does not claim {request.param}")
        return write_video(tmp_path / request.param, **VIDEO_KINDS[request.param])

    def test_all_frames_come_once_in_order(self, any_video: Path) -> None:
        with open_video(any_video, decoder=self.name) as video:
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

    def test_colours_are_rgb_and_upright(self, any_video: Path) -> None:
        with open_video(any_video, decoder=self.name) as video:
            frame = next(iter(video)).astype(int)
        np.testing.assert_allclose(frame[40, 50], (200, 40, 40), atol=12)
        np.testing.assert_allclose(frame[40, 6], (40, 40, 200), atol=12)

    @pytest.mark.parametrize("start_index", [0, 1, 7, 8, 23, 29, 30, 99])
    def test_reading_from_the_middle_gives_the_very_same_frames(
        self, any_video: Path, start_index: int
    ) -> None:
        with open_video(any_video, decoder=self.name) as video:
            whole = list(video)
            part = list(video.read_frames(start_index))
        assert len(part) == max(0, 30 - start_index)
        for one, other in zip(part, whole[start_index:], strict=True):
            np.testing.assert_array_equal(one, other)

    def test_a_reader_can_be_read_twice_and_at_the_same_time(self, any_video: Path) -> None:
        with open_video(any_video, decoder=self.name) as video:
            first, second = iter(video), video.read_frames(0)
            for _ in range(30):
                np.testing.assert_array_equal(next(first), next(second))
            assert len(list(video)) == 30

    def test_a_frame_stays_as_it_is_while_the_next_ones_are_read(self, any_video: Path) -> None:
        with open_video(any_video, decoder=self.name) as video:
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
        self,
        any_video: Path,
        start_seconds: float,
        end_seconds: float | None,
        expected: range,
    ) -> None:
        with open_video(
            any_video, decoder=self.name, start_seconds=start_seconds, end_seconds=end_seconds
        ) as video:
            assert [number_of(frame) for frame in video] == list(expected)
            assert [number_of(frame) for frame in video.read_frames(1)] == list(expected)[1:]
            assert video.count_frames() == len(expected)
            assert video.num_frames in (len(expected), None)

    def test_variable_frame_rate_neither_drops_nor_doubles(self, tmp_path: Path) -> None:
        times = [0, 4, 5, 30, 31, 90, 120, 121]
        path = write_video(tmp_path / "phone.mp4", len(times), times=times)
        with open_video(path, decoder=self.name) as video:
            assert [number_of(frame) for frame in video] == list(range(8))
        with open_video(path, decoder=self.name, start_seconds=0.05, end_seconds=0.9) as video:
            assert [number_of(frame) for frame in video] == [2, 3, 4]

    def test_threads_do_not_change_the_frames(self, any_video: Path) -> None:
        with open_video(any_video, decoder=self.name) as video:
            alone = list(video)
        with open_video(any_video, decoder=self.name, threads=2) as video:
            for one, other in zip(alone, video, strict=True):
                np.testing.assert_array_equal(one, other)

    def test_files_that_are_no_video_are_told_apart(self, tmp_path: Path) -> None:
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
            assert refusal(tmp_path / name, self.name).reason == reason

    def test_sound_alone_has_no_video_stream(self, tmp_path: Path) -> None:
        path = tmp_path / "song.mp4"
        with av.open(str(path), "w") as container:
            stream = container.add_stream("aac", rate=8000, layout="mono")
            sound = av.AudioFrame.from_ndarray(np.zeros((1, 2048), np.float32), "fltp", "mono")
            sound.sample_rate = 8000
            container.mux(stream.encode(sound))
            container.mux(stream.encode(None))
        assert "no video stream: the file holds audio" in str(refusal(path, self.name))

    def test_a_window_without_frames_is_an_error(self, any_video: Path) -> None:
        with open_video(any_video, decoder=self.name, start_seconds=50) as video:
            assert video.count_frames() == 0
            with pytest.raises(
                DecodeError, match="no frames: no frame within the window asked for"
            ):
                list(video)

    @pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".avi"])
    def test_a_cut_video_gives_its_good_frames_and_then_says_where_it_ends(
        self, tmp_path: Path, suffix: str
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
        with open_video(path, decoder=self.name) as video:
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

    def test_damage_in_the_middle_stops_at_the_first_bad_frame(self, tmp_path: Path) -> None:
        path = write_video(
            tmp_path / "damaged.mkv",
            90,
            size_wh=(128, 96),
            options={"g": "30", "bf": "2", "crf": "10"},
        )
        data = bytearray(path.read_bytes())
        middle = len(data) // 2
        noise = np.random.default_rng(0).integers(0, 255, 300, np.uint8)
        data[middle : middle + 300] = noise.tobytes()
        path.write_bytes(data)
        got: list[Frame] = []
        with (
            open_video(path, decoder=self.name) as video,
            pytest.raises(DecodeError, match=r"corrupt: \d+ frames could be read, then: ") as error,
        ):
            got.extend(video)
        assert 10 < len(got) < 80
        assert [number_of(frame) for frame in got] == list(range(len(got)))
        assert error.value.frame_index == len(got)

    def test_a_frame_above_the_limit_is_refused_at_once(self, any_video: Path) -> None:
        with pytest.raises(DecodeError, match="too large: 64 x 48; allowed are 1,000 pixels"):
            open_video(any_video, decoder=self.name, max_pixels=1000)
        with open_video(any_video, decoder=self.name, max_pixels=64 * 48) as video:
            assert len(list(video)) == 30

    def test_names_that_are_no_text_or_look_like_addresses_work(
        self, any_video: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(any_video.parent)
        for name in ("http:a.mp4", "pipe:0", 'it\'s "two"\nlines.mkv', "\udcff\udcfe.mp4"):
            shutil.copyfile(any_video, name)
            with open_video(name, decoder=self.name) as video:
                assert len(list(video)) == 30
