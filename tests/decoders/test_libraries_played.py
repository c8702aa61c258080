"""Readers on decord and torchcodec where neither is installed: PyAV plays the library."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from posemill.decoders import open_video
from posemill.errors import DecodeError
from posemill.testing.videos import write_video


class Library:
    """Both libraries' reader of a file; a test says what is wrong with it."""

    num_missing, fails_from, seconds_late = 0, 10**9, 0.0

    def __init__(self, path, **_):
        with open_video(path) as video:
            self._frames, self._seconds = list(video), np.array(video.frame_seconds())

    def __len__(self):
        return len(self._frames) - self.num_missing

    def get_frames_at(self, numbers):
        assert len(numbers) <= 16
        if max(numbers) >= self.fails_from:
            raise RuntimeError("no such frame")
        seconds = self._seconds[numbers]
        seconds[1:] += self.seconds_late
        data = np.stack([self._frames[number] for number in numbers])
        return SimpleNamespace(
            data=SimpleNamespace(numpy=lambda: data),
            pts_seconds=SimpleNamespace(numpy=lambda: seconds),
            asnumpy=lambda: data,
        )

    get_batch = get_frames_at


@pytest.fixture(params=["decord", "torchcodec"])
def library(request, monkeypatch):
    module = ModuleType(request.param)
    module.VideoReader, module.DECORDError = Library, RuntimeError
    module.decoders = SimpleNamespace(VideoDecoder=Library)
    monkeypatch.setitem(sys.modules, request.param, module)
    monkeypatch.setitem(sys.modules, f"{request.param}.decoders", module.decoders)
    name = f"posemill.decoders.video_{request.param}"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))  # put back after the test
    del sys.modules[name]
    return str(request.param)


@pytest.fixture
def path(tmp_path):
    return write_video(tmp_path / "a.mp4", 40, options={"g": "10", "bf": "0"})


def test_frames_are_those_of_the_library(library, path):
    with open_video(path) as video:
        expected = list(video)
    with open_video(path, decoder=library) as video:
        np.testing.assert_array_equal(list(video), expected)
        np.testing.assert_array_equal(
            video.frames_at([33, 2, 33]), [expected[n] for n in (33, 2, 33)]
        )


@pytest.mark.parametrize(
    ("wrong", "number", "message"),
    [
        ({"fails_from": 20}, 16, "says: no such frame"),
        ({"seconds_late": 0.01}, 1, "gives the frame at 0.050 s for it"),
    ],
)
def test_a_library_that_fails_or_gives_another_frame_is_noticed_there(
    library, path, monkeypatch, wrong, number, message
):
    if library == "decord" and "seconds_late" in wrong:
        pytest.skip("decord does not say when a frame is shown")
    for name, value in wrong.items():
        monkeypatch.setattr(Library, name, value)
    found = []
    with open_video(path, decoder=library) as video, pytest.raises(DecodeError) as caught:
        found.extend(video)
    assert message in str(caught.value)
    assert (caught.value.frame_index, len(found)) == (number, number)


def test_files_that_a_library_would_read_wrong_are_refused(library, path, tmp_path, monkeypatch):
    def refused(file):
        with pytest.raises(DecodeError) as caught:
            open_video(file, decoder=library)
        assert caught.value.reason == "unsupported"
        return str(caught.value)

    mirrored = write_video(
        tmp_path / "mirrored.mp4",
        3,
        prepare=lambda stream: stream.set_display_rotation(0, hflip=True),
    )
    assert "mirrored" in refused(mirrored)
    options = {"g": "10", "bf": "3", "x264-params": "open-gop=1:b-adapt=0"}
    assert "open GOP" in refused(write_video(tmp_path / "open.mkv", 30, options=options))
    if library == "decord":
        monkeypatch.setattr(Library, "num_missing", 1)
        assert "decord counts 39 frames, not 40" in refused(path)


def test_a_file_that_opencv_cannot_open_is_refused(path, monkeypatch):
    closed = SimpleNamespace(isOpened=lambda: False, set=lambda *_: None, release=lambda: None)
    monkeypatch.setattr("cv2.VideoCapture", lambda *_: closed)
    with pytest.raises(DecodeError, match=r"unsupported: .*OpenCV cannot open it"):
        open_video(path, decoder="opencv")
