"""Files that lose frames without an error of FFmpeg: the loss is found, healthy files are left."""

import random
import re
from fractions import Fraction
from itertools import accumulate, cycle, islice
from types import SimpleNamespace

import av
import av.logging
import pytest
from made_up_videos import paint_noise, read_frames

from posemill.decoders.losses_pyav import DamageError, LossWatch
from posemill.testing.videos import write_video

NUM_FRAMES = 60
CODECS = {
    "a.mkv": "libx264", "a.webm": "libvpx-vp9", "a.mpg": "mpeg2video", "a.avi": "mpeg4",
    "a.ts": "libx264", "a.wmv": "wmv2",
}  # fmt: skip
OPTIONS = {"libx264": {"g": "20"}, "libvpx-vp9": {"cpu-used": "8", "deadline": "realtime"}}


def write(path, times=None):
    codec = CODECS[path.name]
    return write_video(path, NUM_FRAMES, codec=codec, size_wh=(128, 96), times=times,
                       options=OPTIONS.get(codec), paint=paint_noise)  # fmt: skip


def read(path):
    frames, error = read_frames(path)
    return len(frames), str(error or "")


@pytest.mark.parametrize("name", [*CODECS][:5])
def test_damage_in_the_middle_never_loses_frames_in_silence(tmp_path, name):
    assert read(write(tmp_path / name)) == (NUM_FRAMES, "")
    whole = (tmp_path / name).read_bytes()
    num_less = 0
    for seed in range(12):
        chance = random.Random(seed)
        data = bytearray(whole)
        start = chance.randrange(len(data) // 6, len(data) * 5 // 6)
        length = chance.choice([300, 3000, 8000])
        data[start : start + length] = chance.randbytes(len(data[start : start + length]))
        (tmp_path / name).write_bytes(data)
        number, error = read(tmp_path / name)
        assert read(tmp_path / name) == (number, error), "a second reading says something else"
        assert number == NUM_FRAMES or error, f"seed {seed}: {number} frames and no reason"
        num_less += number < NUM_FRAMES
    assert num_less, "no damage did any harm: the test shows nothing"


def test_a_gap_that_ffmpeg_only_logs_is_said_with_its_words(tmp_path):
    path = write(tmp_path / "a.webm")
    whole = path.read_bytes()
    found = []
    for seed in range(12):
        start = random.Random(seed).randrange(len(whole) // 4, len(whole) // 2)
        damaged = bytearray(whole)
        damaged[start : start + 6000] = random.Random(seed).randbytes(6000)
        path.write_bytes(damaged)
        found.append(read(path)[1])
    assert any("frames are missing here (matroska,webm: " in each for each in found)
    assert av.logging.get_level() is None, "the level of others' logs was changed"


@pytest.mark.parametrize("steps", [[4], [4, 8, 4], [3, 20, 4, 50], [4] * 20 + [300]])
def test_a_healthy_video_of_uneven_times_is_whole(tmp_path, steps):
    times = [0, *accumulate(islice(cycle(steps), NUM_FRAMES - 1))]
    assert read(write(tmp_path / "a.mkv", times)) == (NUM_FRAMES, "")


def watch_of(container="mpegts", codec="mpeg2video", duration=None):
    """Watch a stream of 32 frames and 1024 units a second."""
    stream = SimpleNamespace(
        time_base=Fraction(1, 1024), average_rate=Fraction(32), frames=0, type="video",
        codec_context=SimpleNamespace(name=codec),
    )  # fmt: skip
    form = SimpleNamespace(name=container)
    file = SimpleNamespace(duration=duration, start_time=None, format=form, streams=[stream])
    return LossWatch(file, stream)


def check_at(watch, *times):
    for pts in times:
        frame = SimpleNamespace(pts=pts, is_corrupt=False)
        watch.check(frame)


def log_error(watch, name, message, level=av.logging.ERROR):
    with watch.listen():
        av.logging.log(level, name, message)


MPEG = [(kind, codec) for kind in ("mpeg", "mpegts") for codec in ("mpeg1video", "mpeg2video")]


@pytest.mark.parametrize(
    ("kinds", "gap", "said"),
    [
        # A video alone in Matroska, which says it lasts 1 s.
        ([("matroska,webm", "vp9")], 32, "about 28 frames are missing here (the file says"),
        ([("matroska,webm", "mpeg2video")], 900, ""),
        ([("mpegts", "h264"), ("avi", "mpeg4")], 96, ""),
        # Where frames come at one rate a gap is a loss, and a long one a cut.
        (MPEG, 56, ""),
        (MPEG, 57, "1 frame is missing by the times of the others"),
        (MPEG, 96, "2 frames are missing by the times of the others"),
        (MPEG, 2047, "63 frames are missing by the times of the others"),
        (MPEG, 2048, ""),
    ],
)
def test_a_gap_is_a_loss_where_the_container_has_one_rate_or_says_its_length(kinds, gap, said):
    for container, codec in kinds:
        watch = watch_of(container, codec, duration=1_000_000)
        check_at(watch, 0, 32, 64, 64 + gap)
        if not said:
            watch.finish()
            continue
        with pytest.raises(DamageError, match=re.escape(said)):
            watch.finish()


def test_a_line_of_the_log_makes_the_next_64_frames_suspicious():
    for num_frames, is_found in ((63, True), (64, False)):
        watch = watch_of(codec="h264")
        log_error(watch, "here", f"broken by {num_frames}")
        check_at(watch, *range(0, 32 * num_frames, 32))
        if not is_found:
            check_at(watch, 32 * (num_frames + 2))
            continue
        message = r"about 2 frames are missing here \(here: broken by 63\)"
        with pytest.raises(DamageError, match=message):
            check_at(watch, 32 * (num_frames + 2))


def test_a_stream_without_a_known_end_that_stops_after_a_fault_is_not_whole():
    watch = watch_of("matroska,webm", "vp9")
    check_at(watch, 0)
    log_error(watch, "matroska,webm", "no block here")
    with pytest.raises(DamageError, match=r"ends after a fault .*no block here"):
        watch.finish()


def test_what_is_logged_while_a_file_is_opened_makes_a_gap_suspicious(tmp_path):
    path = write(tmp_path / "a.wmv")
    assert read(path) == (NUM_FRAMES, "")
    whole = path.read_bytes()
    # The third frame in stream 1, from its byte 0 on: now of stream 5, which is not there.
    changed = whole.replace(b"\x01\x03\0\0\0\0\x08", b"\x05\x03\0\0\0\0\x08")
    assert changed != whole
    path.write_bytes(changed)
    number, error = read(path)
    assert number == 2
    assert "about 1 frame is missing here" in error
