"""What every video decoder must do."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import av
import numpy as np
import pytest

from posemill.decoders import find_decoder, open_video
from posemill.decoders.opening import REASONS
from posemill.errors import DecodeError, MissingExtraError
from posemill.records import Frame
from posemill.testing.videos import OTHER_KINDS, VIDEO_KINDS, number_of, write_kind, write_video


def refusal(path: Path, decoder: str) -> DecodeError:
    """Return the error of opening and reading a file to its end."""
    with pytest.raises(DecodeError) as caught, open_video(path, decoder=decoder) as video:
        list(video)
    assert caught.value.reason in REASONS
    assert path.name in str(caught.value)
    return caught.value


class DecoderContract:
    """Subclass it as `TestX` with the decoder's name.

    `refused` are the kinds it does not read, and must say so. One that does not notice damage as
    the contract asks (`finds_damage`) must refuse files that are cut. `bounds`: where its pixels
    differ from those of `pyav`, by how much on average at most.
    """

    name: str = ""
    refused: tuple[str, ...] = ()
    finds_damage: bool = True
    bounds: Mapping[str, float] = {}

    @pytest.fixture(autouse=True)
    def is_installed(self) -> None:
        """Skip the suite, with the reason, where the decoder's package is missing."""
        try:
            find_decoder(self.name)
        except MissingExtraError as error:
            pytest.skip(str(error))

    @pytest.fixture(params=list(VIDEO_KINDS))
    def any_video(self, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
        """A video of 30 numbered frames, in several containers and codecs."""
        if request.param in self.refused:
            pytest.skip(f"{self.name} refuses {request.param}")
        return write_kind(tmp_path, request.param)

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

    def test_reading_from_the_middle_gives_the_very_same_frames(self, any_video: Path) -> None:
        with open_video(any_video, decoder=self.name) as video:
            whole = list(video)
            for start_index in (0, 1, 7, 8, 23, 29, 30, 99):
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
        if not self.finds_damage:
            assert "it is cut off, and this decoder does not" in str(refusal(path, self.name))
            return
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
        if not self.finds_damage:
            pytest.skip(f"{self.name} fills in damage inside a stream without a word")
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
            if not name.isprintable() and not self.finds_damage:
                with pytest.raises(DecodeError, match=r"unsupported: .* name is not plain text"):
                    open_video(name, decoder=self.name)
                continue
            with open_video(name, decoder=self.name) as video:
                assert len(list(video)) == 30

    @pytest.mark.parametrize("kind", [*VIDEO_KINDS, *OTHER_KINDS])
    def test_frames_by_number_are_those_of_a_full_reading(self, tmp_path: Path, kind: str) -> None:
        path = write_kind(tmp_path, kind)
        if kind in self.refused:
            assert refusal(path, self.name).reason == "unsupported"
            return
        with open_video(path, decoder="pyav") as video:
            expected, seconds = list(video), video.frame_seconds()
        last = len(expected) - 1
        assert last == (19 if kind == "early-start.mp4" else 29)  # before 0 nothing is shown
        with open_video(path, decoder=self.name) as video:
            np.testing.assert_array_equal(video.frame_seconds(), seconds)
            assert video.size_wh == expected[0].shape[1::-1]
            for numbers in ([last], [3, 4, last - 1], [17, 2, 2, last, 0], [9, 8]):
                frames = video.frames_at(numbers)
                for number, frame in zip(numbers, frames, strict=True):
                    self._check_pixels(kind, frame, expected[number])
            for number, frame in enumerate(video.read_frames(5, stride=7)):
                self._check_pixels(kind, frame, expected[5 + 7 * number])
            assert 5 + 7 * number == (19 if last == 19 else 26)
            assert video.frames_at([]) == []

    def _check_pixels(self, kind: str, frame: Frame, expected: Frame) -> None:
        assert frame.dtype == np.uint8
        assert frame.shape == expected.shape
        assert frame.flags.c_contiguous
        difference = np.abs(frame.astype(int) - expected).mean()
        assert difference <= self.bounds.get(kind, 0), f"{kind}: {difference}"

    def test_a_number_that_no_frame_has_is_named(self, any_video: Path) -> None:
        with open_video(any_video, decoder=self.name, end_seconds=1.0) as video:
            assert number_of(video.frames_at([24])[0]) == 24
            for number in (25, -1, 10**12):
                words = rf"{any_video.name}': no frame {number}; expected 0 to 24"
                with pytest.raises(IndexError, match=words):
                    video.frames_at([3, number])
            assert number_of(video.frames_at([7])[0]) == 7
        with open_video(any_video, decoder=self.name, start_seconds=0.4) as video:
            assert [number_of(frame) for frame in video.frames_at([3, 0])] == [13, 10]

    @pytest.mark.parametrize(
        ("target_size", "expected"), [((40, 30), (40, 30)), (36, (48, 36)), (96, (128, 96))]
    )
    def test_frames_are_resized_alike(
        self, any_video: Path, target_size: tuple[int, int] | int, expected: tuple[int, int]
    ) -> None:
        with open_video(any_video, decoder="pyav", target_size=target_size) as video:
            model = list(video)
        with open_video(any_video, decoder=self.name, target_size=target_size) as video:
            assert video.size_wh == expected
            for number, frame in zip([20, 4], video.frames_at([20, 4]), strict=True):
                assert frame.shape == (*expected[::-1], 3)
                assert number_of(frame) == number
                # Scaled as stored or as RGB: colours at edges differ a little.
                assert np.abs(frame.astype(int) - model[number]).mean() < 3

    def test_a_stride_must_go_forward(self, any_video: Path) -> None:
        with open_video(any_video, decoder=self.name) as video:
            for stride in (0, -2):
                with pytest.raises(ValueError, match=f"stride: expected 1 or more, got {stride}"):
                    video.read_frames(0, stride=stride)
