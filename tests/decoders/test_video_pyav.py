import gc
from fractions import Fraction
from types import SimpleNamespace

import av
import numpy as np
import psutil
import pytest
from made_up_videos import copy_packets, read_frames

from posemill.decoders import open_video
from posemill.decoders.opening import REASONS
from posemill.decoders.stream_pyav import Clock, read_orientation
from posemill.errors import DecodeError
from posemill.testing.videos import number_of, write_video


@pytest.mark.parametrize(
    ("degrees", "flips", "turn"),
    [
        (0, {}, lambda a: a),
        (90, {}, lambda a: np.rot90(a, 1)),
        (-90, {}, lambda a: np.rot90(a, -1)),
        (180, {}, lambda a: np.rot90(a, 2)),
        (0, {"hflip": True}, lambda a: a[:, ::-1]),
        (0, {"vflip": True}, lambda a: a[::-1]),
    ],
)
def test_the_rotation_tag_is_applied(tmp_path, degrees, flips, turn):
    lossless = {"qp": "0"}  # x264 does not always decide the same about two videos
    plain = write_video(tmp_path / "plain.mp4", 3, options=lossless)
    turned = write_video(
        tmp_path / "turned.mp4",
        3,
        options=lossless,
        prepare=lambda stream: stream.set_display_rotation(degrees, **flips),
    )
    with open_video(plain) as upright, open_video(turned) as video:
        size_wh = video.size_wh  # asked for before any frame
        for stored, frame in zip(upright, video, strict=True):
            np.testing.assert_array_equal(frame, turn(stored))
            assert frame.flags.c_contiguous
            assert size_wh == frame.shape[1::-1]
        assert video.size_wh == size_wh


def test_pixels_are_those_of_a_plain_conversion(any_video):
    with open_video(any_video) as video, av.open(str(any_video)) as container:
        for ours, theirs in zip(video, container.decode(video=0), strict=True):
            np.testing.assert_array_equal(ours, theirs.to_ndarray(format="rgb24"))


@pytest.mark.parametrize("space", [1, 5, 6])  # bt709, bt470bg, smpte170m
def test_the_colour_matrix_of_the_file_is_used(tmp_path, space):
    def tag(stream):
        stream.codec_context.colorspace = space

    path = write_video(tmp_path / "tagged.mp4", 2, prepare=tag, options={"crf": "4"})
    with av.open(str(path)) as container:
        stored = next(container.decode(video=0))
        assert stored.colorspace == space
        planes = stored.to_ndarray()
    luma, blue, red = (float(each) for each in (planes[40, 50], planes[58, 25], planes[70, 25]))
    kr, kb = (0.2126, 0.0722) if space == 1 else (0.299, 0.114)
    y, pb, pr = (luma - 16) / 219, (blue - 128) / 224, (red - 128) / 224
    expected_red = 255 * (y + 2 * (1 - kr) * pr)
    expected_blue = 255 * (y + 2 * (1 - kb) * pb)
    with open_video(path) as video:
        pixel = next(iter(video))[40, 50].astype(float)
    np.testing.assert_allclose(pixel[[0, 2]], (expected_red, expected_blue), atol=6)


def test_mp4_knows_its_number_of_frames_and_others_are_not_trusted(tmp_path):
    with open_video(write_video(tmp_path / "a.mp4", 12)) as video:
        assert video.num_frames == 12
        assert repr(video).endswith("a.mp4', fps=25.0, num_frames=12)")
    with open_video(write_video(tmp_path / "a.avi", 12, codec="mpeg4")) as video:
        assert video.num_frames is None
        assert video.count_frames() == 12
    with open_video(tmp_path / "a.mp4", end_seconds=0.2) as video:
        assert video.num_frames is None
        assert video.count_frames() == 5


@pytest.mark.parametrize("suffix", [".mkv", ".mp4"])
@pytest.mark.parametrize("codec", ["libx264", "libvpx-vp9"])
def test_a_stream_without_its_first_key_frame_starts_at_the_next(tmp_path, codec, suffix):
    options = {"g": "20", "bf": "0", "cpu-used": "8"}
    whole = write_video(tmp_path / f"whole{suffix}", 60, codec=codec, options=options)
    with open_video(copy_packets(whole, tmp_path / f"cut{suffix}", 5)) as video:
        assert [number_of(frame) for frame in video] == list(range(20, 60))
        assert video.count_frames() == 40
        assert video.num_frames in (40, None)


def test_a_playlist_is_not_followed(tmp_path):
    write_video(tmp_path / "real.mp4", 3)
    path = tmp_path / "list.mp4"
    path.write_text("ffconcat version 1.0\nfile 'real.mp4'\n")
    with pytest.raises(DecodeError, match="not a video: it is a list of other files"):
        open_video(path)


def test_memory_stays_flat_over_a_long_video(tmp_path):
    path = write_video(
        tmp_path / "long.mp4", 400, size_wh=(320, 240), options={"preset": "ultrafast"}
    )
    process = psutil.Process()
    with open_video(path) as video:
        frames = iter(video)
        for _ in range(50):
            next(frames)
        gc.collect()
        before = process.memory_info().rss
        gc.disable()  # frames must be freed at once, not when the collector comes round
        try:
            assert sum(1 for _ in frames) == 350
        finally:
            gc.enable()
    # 350 frames kept would be 80 MB
    assert process.memory_info().rss - before < 16e6


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.avi"])
def test_damage_of_any_kind_is_a_decode_error_or_goes_unseen(tmp_path, name):
    path = write_video(tmp_path / name, 20, codec="mpeg4")
    data = path.read_bytes()
    reasons = set()
    for seed in range(25):
        random = np.random.default_rng(seed)
        changed = bytearray(data)
        for _ in range(20):
            changed[random.integers(len(data))] = random.integers(256)
        path.write_bytes(changed[: random.integers(1, len(data))] if seed % 3 == 0 else changed)
        frames, error = read_frames(path)
        assert sum(frame.shape[2] == 3 for frame in frames) <= 25
        if error:
            reasons.add(error.reason)
    assert reasons
    assert reasons <= set(REASONS)


def test_a_file_of_a_stream_without_frames_has_no_size(tmp_path):
    path = tmp_path / "none.avi"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 32, 16, "yuv420p"
        container.start_encoding()
    with open_video(path) as video, pytest.raises(DecodeError, match="no frames: none inside"):
        _ = video.size_wh


def clock(*, rate=25, start=None, name="matroska", guessed=0):
    stream = SimpleNamespace(
        time_base=Fraction(1, 100),
        average_rate=Fraction(rate) if rate else None,
        guessed_rate=Fraction(guessed) if guessed else None,
    )
    format_ = SimpleNamespace(name=name)
    container = SimpleNamespace(start_time=start, format=format_)
    return Clock(container, stream)


def seconds(one, *pts):
    return [round(one.seconds_of(value), 9) for value in pts]


def test_a_missing_time_is_guessed_and_one_that_goes_backwards_is_that_before():
    assert seconds(clock(), None, None, None) == [0, 0.04, 0.08]
    assert seconds(clock(rate=None, guessed=10), None, None) == [0, 0.1]
    assert seconds(clock(rate=None), None, None) == [0, 0]
    assert seconds(clock(), 100, None, 200) == [1, 1.04, 2]
    assert seconds(clock(), 10, 5, 20) == [0.1, 0.1, 0.2]
    # An AVI is counted.
    assert seconds(clock(name="avi"), 7, 3, 99) == [0, 0.04, 0.08]
    assert seconds(clock(name="avi", rate=None), 7, 99) == [0.07, 0.99]


def matrix(a, b, c, d):
    """A display matrix: x' = a x + c y, y' = b x + d y."""
    return np.array([a, b, 0, c, d, 0, 0, 0, 1 << 14], np.int32).tobytes()


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((1, 0, 0, 1), (False, None)),
        ((-1, 0, 0, -1), (False, -1)),  # half a turn
        ((-1, 0, 0, 1), (False, 1)),  # mirrored
        ((1, 0, 0, -1), (False, 0)),
        ((0, 1, 1, 0), (True, None)),
        ((0, 1, -1, 0), (True, 1)),  # a quarter
        ((0, -1, 1, 0), (True, 0)),  # the other quarter
        ((0, -1, -1, 0), (True, -1)),
        ((9, 3, -3, 9), (False, None)),  # some angle: to the nearest of four
        ((3, 9, -9, 3), (True, 1)),
    ],
)
def test_a_display_matrix_is_a_turn_and_a_flip(numbers, expected):
    assert read_orientation(matrix(*(65536 * number for number in numbers))) == expected
