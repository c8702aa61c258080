"""What every video decoder has to do; a new row in `DECODERS` runs through all of it."""

import re
import sys

import numpy as np
import pytest

from posemill.decoders import DECODERS, find_decoder, open_video
from posemill.errors import ConfigError, MissingExtraError
from posemill.testing import DecoderContract
from posemill.testing.decoders import refusal
from posemill.testing.videos import number_of, write_video

# What libraries that go to a frame by its time get wrong.
UNTIMED = ("mpeg4.avi", "animated.gif", "stream.ts", "interlaced.mp4", "open-gop.mkv",
           "intra-refresh.mp4", "early-start.mp4", "negative.ts", "mirrored.mp4")  # fmt: skip
TEN_BITS = ("hevc10.mp4", "h264-10.mp4")  # whose colours other libraries round otherwise
REFUSED = {
    "opencv": ("av1.mkv", "interlaced.mp4", *TEN_BITS),
    "torchcodec": (*UNTIMED, *TEN_BITS),
    "decord": (*UNTIMED, *TEN_BITS, "turned.mp4", "hevc.mp4", "mpeg4.mp4"),
}
# Beside PyAV, none says where a stream is damaged.
CLAIMS = {"pyav": {}} | {
    name: {"refused": refused, "finds_damage": False} for name, refused in REFUSED.items()
}

# A suite for each row of the table.
globals().update({
    f"Test{name.title()}": type(
        f"Test{name.title()}", (DecoderContract,), {"name": name, **CLAIMS[name]}
    )
    for name in DECODERS
})  # fmt: skip


@pytest.fixture(params=["pyav", "opencv"])
def decoder(request):
    return str(request.param)


def test_a_file_we_may_not_read_says_so(any_video, decoder, without_permission):
    with without_permission(any_video):
        assert refusal(any_video, decoder).reason == "no permission"


def test_wrong_arguments_are_told(any_video, decoder):
    with pytest.raises(ConfigError, match=r"unknown decoder 'vlc'; known: .*pyav.*, auto"):
        open_video(any_video, decoder="vlc")
    with pytest.raises(ConfigError, match=r"unknown decoder 'auto'; known: .*pyav") as caught:
        open_video(any_video, decoder="auto")  # for commands and datasets
    assert ", auto" not in str(caught.value)
    with pytest.raises(ValueError, match="threads: expected 1 or more, got 0"):
        open_video(any_video, decoder=decoder, threads=0)
    for size in (0, -3, (64, 0)):
        words = re.escape(f"target_size: expected 1 pixel or more, got {size}")
        with pytest.raises(ValueError, match=words):
            open_video(any_video, decoder=decoder, target_size=size)
    with pytest.raises(ValueError, match=r"expected 0 <= start_seconds < end_seconds, got 2 and 1"):
        open_video(any_video, decoder=decoder, start_seconds=2, end_seconds=1)
    if any_video.name in REFUSED.get(decoder, ()):
        return
    with (
        open_video(any_video, decoder=decoder) as video,
        pytest.raises(ValueError, match="start_index: expected 0 or more, got -1"),
    ):
        video.read_frames(-1)


# Four bytes of a header and what is written there: a length of years, a rate of millions a second.
ABSURD = {
    "length of an MP4": (".mp4", b"mvhd", 16, (2**32 - 2).to_bytes(4, "big")),
    "length of its stream": (".mp4", b"mdhd", 16, (2**32 - 2).to_bytes(4, "big")),
    "rate of an MP4": (".mp4", b"mdhd", 12, (2**31 - 1).to_bytes(4, "big")),
    "length of an AVI": (".avi", b"avih", 20, (2**31 - 1).to_bytes(4, "little")),
    "rate of an AVI": (".avi", b"strh", 28, (2**31 - 1).to_bytes(4, "little")),
    "a frame for years": (".avi", b"strh", 24, (2**31 - 1).to_bytes(4, "little")),
}


def write_absurd(folder, suffix, after, offset, value):
    codec = "mpeg4" if suffix == ".avi" else "libx264"
    path = write_video(folder / f"absurd{suffix}", codec=codec, options={"g": "8"})
    data = bytearray(path.read_bytes())
    at = data.index(after) + len(after) + offset
    assert data[at : at + 4] != value
    data[at : at + 4] = value
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", ABSURD)
def test_an_absurd_length_or_rate_takes_no_frame_away(tmp_path, decoder, kind):
    path = write_absurd(tmp_path, *ABSURD[kind])
    with open_video(path, decoder=decoder) as video:
        assert video.count_frames() == 30
        assert video.num_frames in (30, None)
        assert [number_of(frame) for frame in video] == list(range(30))
        assert [number_of(frame) for frame in video.frames_at([29, 3])] == [29, 3]
        seconds = video.frame_seconds()
        assert np.isfinite(seconds).all()
        assert (np.diff(seconds) > 0).all()


def test_a_stream_that_promises_more_frames_than_there_are_is_damaged(tmp_path):
    path = write_absurd(tmp_path, ".avi", b"strh", 36, (2**31 - 1).to_bytes(4, "little"))
    error = refusal(path, "pyav")
    assert "the file says it has 2147483647 frames, 30 are there" in str(error)
    assert (error.reason, error.frame_index) == ("corrupt", 30)


def test_more_frames_than_the_file_has_bytes_is_no_video(tmp_path, decoder):
    path = write_absurd(tmp_path, ".mp4", b"stsz", 8, (2**31 - 1).to_bytes(4, "big"))
    assert refusal(path, decoder).reason == "not a video"


# Of the trap files: their frames and size, and who refuses which.
TRAPS = {
    "RATRACE_wave_f_nm_np1_fr_goo_37.avi": (72, (560, 240), ("torchcodec", "decord")),
    "av1_video.mkv": (125, (640, 360), ("opencv",)),
    "h265_10bits.mp4": (30, (200, 200), ("opencv", "torchcodec", "decord")),
    "unordered.mov": (4, (50, 50), ()),
    "video_90.mov": (3, (320, 568), ("decord",)),
    "video_180.mov": (3, (568, 320), ("decord",)),
}


@pytest.mark.parametrize("name", DECODERS)
def test_every_decoder_gives_the_same_frames_of_the_traps_it_reads(shared, name):
    try:
        find_decoder(name)
    except MissingExtraError as error:
        pytest.skip(str(error))
    for trap, (num_frames, size_wh, refused_by) in TRAPS.items():
        path = shared / "media" / "traps" / trap
        if name in refused_by:
            assert refusal(path, name).reason == "unsupported"
            continue
        with open_video(path) as video:
            expected = list(video)
            assert (len(expected), video.count_frames(), video.size_wh) == (
                num_frames, num_frames, size_wh
            )  # fmt: skip
        numbers = [len(expected) - 1, 0, len(expected) // 2]
        with open_video(path, decoder=name) as video:
            found = dict(enumerate(video))
            assert len(found) == len(expected)
            pairs = [*found.items(), *zip(numbers, video.frames_at(numbers), strict=True)]
        for number, frame in pairs:
            np.testing.assert_array_equal(frame, expected[number], f"{trap}, {number}")


def test_torchcodec_without_ffmpeg_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "torchcodec").mkdir()
    (tmp_path / "torchcodec" / "__init__.py").touch()
    (tmp_path / "torchcodec" / "decoders.py").write_text(
        "raise RuntimeError('Could not load libtorchcodec')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in [each for each in sys.modules if "torchcodec" in each]:
        monkeypatch.delitem(sys.modules, name)
    try:
        words = r"cannot load FFmpeg's .*run: apt install ffmpeg"
        with pytest.raises(MissingExtraError, match=words):
            find_decoder("torchcodec")
    finally:
        sys.modules.pop("torchcodec", None)  # else later tests would find this one
