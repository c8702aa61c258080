from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import psutil
import pytest

from posemill.decoders import open_video
from posemill.decoders.opening import REASONS
from posemill.decoders.video_pyav import PyavReader
from posemill.errors import DecodeError
from posemill.records import Frame

NumberOf = Callable[[Frame], int]
WriteVideo = Callable[..., Path]


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
def test_the_rotation_tag_is_applied(
    tmp_path: Path,
    write_video: WriteVideo,
    degrees: int,
    flips: dict[str, bool],
    turn: Callable[[Frame], Frame],
) -> None:
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


def test_pixels_are_those_of_a_plain_conversion(any_video: Path) -> None:
    with open_video(any_video) as video, av.open(str(any_video)) as container:
        for ours, theirs in zip(video, container.decode(video=0), strict=True):
            np.testing.assert_array_equal(ours, theirs.to_ndarray(format="rgb24"))


@pytest.mark.parametrize("space", [1, 5, 6])  # bt709, bt470bg, smpte170m
def test_the_colour_matrix_of_the_file_is_used(
    tmp_path: Path, write_video: WriteVideo, space: int
) -> None:
    def tag(stream: Any) -> None:
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


def test_mp4_knows_its_number_of_frames_and_others_are_not_trusted(
    tmp_path: Path, write_video: WriteVideo
) -> None:
    with open_video(write_video(tmp_path / "a.mp4", 12)) as video:
        assert video.num_frames == 12
        assert repr(video).endswith("a.mp4', fps=25.0, num_frames=12)")
    with open_video(write_video(tmp_path / "a.avi", 12, codec="mpeg4")) as video:
        assert video.num_frames is None
        assert video.count_frames() == 12
    with open_video(tmp_path / "a.mp4", end_seconds=0.2) as video:
        assert video.num_frames is None
        assert video.count_frames() == 5


def test_an_animated_gif_is_a_video(tmp_path: Path, write_video: WriteVideo) -> None:
    path = write_video(tmp_path / "a.gif", 9, codec="gif", pixel_format="rgb8")
    with open_video(path) as video:
        assert len(list(video)) == 9
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with open_video(path) as video, pytest.raises(DecodeError, match="truncated: "):
        list(video)


@pytest.mark.parametrize("suffix", [".mkv", ".mp4"])
@pytest.mark.parametrize("codec", ["libx264", "libvpx-vp9"])
def test_a_stream_without_its_first_key_frame_starts_at_the_next(
    tmp_path: Path, write_video: WriteVideo, number_of: NumberOf, codec: str, suffix: str
) -> None:
    options = {"g": "20", "bf": "0", "cpu-used": "8"}
    whole = write_video(tmp_path / f"whole{suffix}", 60, codec=codec, options=options)
    path = tmp_path / f"cut{suffix}"
    with av.open(str(whole)) as source, av.open(str(path), "w") as target:
        stream = source.streams.video[0]
        copy = target.add_stream_from_template(stream)
        for number, packet in enumerate(source.demux(stream)):
            if packet.size and number >= 5:
                packet.stream = copy
                target.mux(packet)
    with open_video(path) as video:
        numbers = [number_of(frame) for frame in video]
        assert numbers == list(range(20, 60))
        assert video.count_frames() == 40
        assert video.num_frames in (40, None)


def test_a_playlist_is_not_followed(tmp_path: Path, write_video: WriteVideo) -> None:
    write_video(tmp_path / "real.mp4", 3)
    path = tmp_path / "list.mp4"
    path.write_text("ffconcat version 1.0\nfile 'real.mp4'\n")
    with pytest.raises(DecodeError, match="not a video: it is a list of other files"):
        open_video(path)


def test_memory_stays_flat_over_a_long_video(tmp_path: Path, write_video: WriteVideo) -> None:
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


def test_known_trouble_makers_are_read(shared: Path) -> None:
    expected = {  # name: (frames, size, count by packets)
        "unordered.mov": (4, (50, 50), 4),
        "video_90.mov": (3, (320, 568), 3),
        "video_180.mov": (3, (568, 320), 3),
        "av1_video.mkv": (125, (640, 360), 125),
        "h265_10bits.mp4": (30, (200, 200), 30),
        # 73 packets, one of them of one byte
        "RATRACE_wave_f_nm_np1_fr_goo_37.avi": (72, (560, 240), 72),
    }
    for name, (num_frames, size_wh, num_packets) in expected.items():
        with open_video(shared / "media" / "traps" / name) as video:
            assert video.size_wh == size_wh
            assert sum(1 for _ in video) == num_frames
            assert video.count_frames() == num_packets


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.avi"])
def test_damage_of_any_kind_is_a_decode_error_or_goes_unseen(
    tmp_path: Path, write_video: WriteVideo, name: str
) -> None:
    path = write_video(tmp_path / name, 20, codec="mpeg4")
    data = path.read_bytes()
    reasons = set()
    for seed in range(25):
        random = np.random.default_rng(seed)
        changed = bytearray(data)
        for _ in range(20):
            changed[random.integers(len(data))] = random.integers(256)
        path.write_bytes(changed[: random.integers(1, len(data))] if seed % 3 == 0 else changed)
        try:
            with open_video(path) as video:
                assert sum(frame.shape[2] == 3 for frame in video) <= 25
        except DecodeError as error:
            reasons.add(error.reason)
    assert reasons
    assert reasons <= set(REASONS)


def test_a_file_of_a_stream_without_frames_has_no_size(tmp_path: Path) -> None:
    path = tmp_path / "none.avi"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 32, 16, "yuv420p"
        container.start_encoding()
    with (
        open_video(path) as video,
        pytest.raises(DecodeError, match="no frames: none inside"),
    ):
        _ = video.size_wh


@pytest.mark.parametrize("name", ["concat", "concatf", "hls", "dash", "imf"])
def test_no_kind_of_playlist_is_a_video(tmp_path: Path, write_video: WriteVideo, name: str) -> None:
    with open_video(write_video(tmp_path / "a.mp4", 3)) as video:
        assert isinstance(video, PyavReader)
        container = SimpleNamespace(format=SimpleNamespace(name=name))
        with pytest.raises(DecodeError, match="not a video: it is a list of other files"):
            video._choose_stream(container)


@pytest.mark.parametrize(
    ("start_seconds", "start_index", "expected"),
    [(0, 49, None), (0, 50, 50 * 512), (3.0, 0, None), (3.001, 0, 38413), (3.04, 1, 77 * 512)],
)
def test_far_frames_are_jumped_to_and_near_ones_decoded(
    tmp_path: Path, write_video: WriteVideo, start_seconds: float, start_index: int, expected: Any
) -> None:
    path = write_video(tmp_path / "a.mp4", 100)
    with open_video(path, start_seconds=start_seconds) as video:
        assert isinstance(video, PyavReader)
        found = video._find_target(video._container, video._stream, start_index)
    assert found == expected
