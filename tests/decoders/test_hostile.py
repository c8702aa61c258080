"""Files made to mislead: every decoder gives the frames of PyAV's full reading, or refuses."""

import random
import struct
from fractions import Fraction

import av
import numpy as np
import pytest
from made_up_videos import read_frames

from posemill.decoders import DECODERS, find_decoder, open_video
from posemill.errors import DecodeError, MissingExtraError
from posemill.testing.videos import number_of, numbered_frame, write_video

B_FRAMES = {"g": "12", "bf": "3", "x264-params": "b-adapt=0:scenecut=0"}


@pytest.fixture(params=DECODERS)
def decoder(request):
    try:
        find_decoder(request.param)
    except MissingExtraError as error:
        pytest.skip(str(error))
    return str(request.param)


def write_sizes(path):
    """Write a video whose frames become larger in its middle."""
    with av.open(str(path), "w") as container:
        stream = None
        for size_wh in ((64, 48), (96, 64)):
            encoder = av.CodecContext.create("mjpeg", "w")
            encoder.width, encoder.height = size_wh
            encoder.pix_fmt, encoder.time_base = "yuvj420p", Fraction(1, 25)
            for number in range(5):
                pixels = numbered_frame(number, size_wh)
                frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
                frame = frame.reformat(format="yuvj420p")
                for packet in encoder.encode(frame):
                    if stream is None:
                        stream = container.add_stream("mjpeg", rate=25)
                        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuvj420p"
                    position = number + (5 if size_wh[0] == 96 else 0)
                    packet.stream, packet.time_base = stream, Fraction(1, 25)
                    packet.pts = packet.dts = position
                    container.mux(packet)
    return path


def patched(path, box, offset, content):
    """Write other bytes at an offset from the name of a box of an MP4."""
    data = bytearray(path.read_bytes())
    start = data.index(box) + offset
    data[start : start + len(content)] = content
    path.write_bytes(data)
    return path


def write_twice(path):
    data = write_video(path, 25, options=B_FRAMES).read_bytes()
    path.write_bytes(data + data)
    return path


def made(kind, folder):
    path = folder / kind
    if kind == "sizes.mkv":
        return write_sizes(path)
    if kind == "twice.ts":
        return write_twice(path)
    if kind == "odd.mkv":
        return write_video(path, codec="libvpx-vp9", size_wh=(65, 49), options={"cpu-used": "8"})
    write_video(path, 40, options=B_FRAMES)
    if kind == "no-order.mp4":  # B-frames, and times as if there were none
        return patched(path, b"ctts", 0, b"free")
    if kind == "absurd-rate.mp4":
        return patched(path, b"stts", 16, struct.pack(">I", 1))
    if kind == "absurd-length.mp4":
        return patched(path, b"mvhd", 20, struct.pack(">I", 0xFFFFFFF0))
    side = 46341  # cos 45°, in 16.16
    matrix = struct.pack(">9i", side, side, 0, -side, side, 0, 0, 0, 1 << 30)
    return patched(path, b"tkhd", 44, matrix)


KINDS = {
    "sizes.mkv": "its frames change their size",
    "twice.ts": "packets of it are damaged",
    "no-order.mp4": "its frames cannot be told by their times",
    "absurd-rate.mp4": "its frames cannot be told by their times",
    "askew.mp4": "turned by an angle that is no quarter",
    "absurd-length.mp4": "",
    "odd.mkv": "",
}
WHOLE = ("absurd-length.mp4", "odd.mkv")  # nobody has a reason to refuse them


@pytest.mark.parametrize("kind", KINDS)
def test_a_decoder_gives_the_frames_of_a_full_reading_or_refuses(kind, decoder, tmp_path):
    path = made(kind, tmp_path)
    expected, expected_error = read_frames(path)
    assert expected
    frames, error = read_frames(path, decoder)
    if error and error.reason == "unsupported":
        assert KINDS[kind] in str(error)
        assert decoder != "pyav"
        assert kind not in WHOLE
        assert not frames
        return
    assert (error and error.reason) == (expected_error and expected_error.reason)
    assert len(frames) == len(expected)
    assert all(map(np.array_equal, frames, expected))
    if error:
        return
    numbers = random.Random(2).choices(range(len(expected)), k=9)
    with open_video(path, decoder=decoder) as video:
        assert all(map(np.array_equal, video.frames_at(numbers), [expected[n] for n in numbers]))
        with pytest.raises(IndexError, match=f"no frame {len(expected)}; expected 0 to"):
            video.frames_at([0, len(expected)])


def test_frames_of_several_sizes_come_in_their_own(tmp_path):
    path = write_sizes(tmp_path / "sizes.mkv")
    frames, _ = read_frames(path)
    assert [frame.shape for frame in frames] == [(48, 64, 3)] * 5 + [(64, 96, 3)] * 5
    with open_video(path, target_size=(32, 24)) as video:
        assert {frame.shape for frame in video.frames_at(range(10))} == {(24, 32, 3)}
    with open_video(path, max_pixels=64 * 48) as video:
        with pytest.raises(DecodeError, match="5 frames could be read, then: a frame of 96 x 64"):
            video.frames_at([2, 8])
        assert len(video.frames_at([4])) == 1


def test_times_that_ignore_the_order_of_showing_are_not_gone_by(tmp_path):
    path = made("no-order.mp4", tmp_path)
    with open_video(path) as video:
        numbers = [number_of(frame) for frame in video]
    assert numbers == sorted(numbers)
    with open_video(path) as video:
        wanted = [number_of(frame) for frame in video.frames_at([20, 3, 9])]
    assert wanted == [numbers[20], numbers[3], numbers[9]]
