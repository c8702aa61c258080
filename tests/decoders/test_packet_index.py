import os

import numpy as np
import pytest

from posemill.decoders import open_video, packet_index
from posemill.decoders.packet_index import IS_KEY, IS_OPEN, IS_SHOWN, from_bytes, make_index
from posemill.files import cache_folder
from posemill.testing.videos import number_of, write_video

KEY, PLAIN = IS_KEY | IS_SHOWN, IS_SHOWN
ONE = (100, 7, 1, 2)


@pytest.fixture(autouse=True)
def own_memory():
    packet_index._memory.clear()


def kept_files():
    return [path for path in cache_folder().rglob("*") if path.is_file()]


def test_frames_are_sure_only_where_each_has_a_time_of_its_own_and_the_first_comes_first():
    def is_sure(*packets, is_exact=True):
        seconds = [0.0] * sum(bool(flags & IS_SHOWN) for _, flags in packets)
        return make_index(list(packets), seconds, is_exact=is_exact).is_sure

    assert is_sure((10, KEY), (30, PLAIN), (20, PLAIN))
    assert is_sure((5, IS_KEY), (10, PLAIN), (20, PLAIN))
    assert not is_sure((10, KEY), (30, PLAIN), is_exact=False)
    assert not is_sure((10, KEY), (5, PLAIN))
    assert not is_sure((10, KEY), (20, PLAIN), (20, PLAIN))
    assert not is_sure((10, KEY), (None, PLAIN))
    assert not is_sure()


def test_a_frame_is_decoded_from_a_key_frame_that_is_shown_before_it():
    packets = [(0, KEY), (3, PLAIN), (1, PLAIN), (8, KEY), (6, PLAIN), (9, PLAIN)]
    index = make_index([*packets, (12, 0)], [0.0, 0.1, 0.3, 0.6, 0.8, 0.9], is_exact=True)
    assert index.stored_at.tolist() == [0, 2, 1, 4, 3, 5]
    assert [index.key_before(packet) for packet in range(6)] == [0, 0, 0, 3, 0, 3]
    assert index.has_leading
    assert index.has_hidden
    assert not index.has_open_keys
    packets = [(0, KEY | IS_OPEN), (1, PLAIN), (2, KEY | IS_OPEN), (3, KEY)]
    plain = make_index(packets, [0.0, 0.1, 0.2, 0.3], is_exact=True)
    assert plain.keys.tolist() == [0, 3]
    assert plain.has_open_keys
    assert not plain.has_leading
    assert not plain.has_hidden
    assert make_index([(1, PLAIN)], [0.0], is_exact=True).key_before(0) is None


def test_what_was_kept_comes_back_for_the_same_file_only():
    index = make_index([(0, KEY), (9, PLAIN)], [0.5, 1.5], is_exact=True)
    data = index.to_bytes(ONE)
    again = from_bytes(data, ONE)
    assert again.is_sure
    for name in ("pts", "flags", "seconds"):
        np.testing.assert_array_equal(getattr(again, name), getattr(index, name))
    for place in range(4):
        other = tuple(value + (number == place) for number, value in enumerate(ONE))
        assert from_bytes(data, other) is None
    for broken in (b"", data[:-1], data[:40], b"x" + data[1:], data[:80] + b"?" + data[81:]):
        assert from_bytes(broken, ONE) is None


def test_the_index_of_a_file_is_read_once_and_not_after_it_changed(tmp_path, monkeypatch):
    path = write_video(tmp_path / "a.mp4", 40, options={"g": "10"})
    with open_video(path) as video:
        assert number_of(video.frames_at([33])[0]) == 33
    assert len(kept_files()) == 1
    packet_index._memory.clear()

    def fail(*_, **__):
        raise AssertionError("read again")

    with monkeypatch.context() as patch:
        patch.setattr("posemill.decoders.video_pyav.read_index", fail)
        with open_video(path) as video:
            assert number_of(video.frames_at([17])[0]) == 17
            assert video.count_frames() == 40
    write_video(path, 20, options={"g": "5"})
    with open_video(path) as video:
        assert number_of(video.frames_at([17])[0]) == 17
        with pytest.raises(IndexError, match="no frame 33; expected 0 to 19"):
            video.frames_at([33])
    assert len(kept_files()) == 1


def test_a_file_changed_in_secret_is_noticed_where_its_frames_are_not_where_they_were(tmp_path):
    first = write_video(tmp_path / "a.mp4", 40, options={"g": "10"})
    other = write_video(tmp_path / "b.mp4", 40, options={"g": "7"}, times=list(range(0, 120, 3)))
    size = max(first.stat().st_size, other.stat().st_size)
    for path in (first, other):
        free = size + 64 - path.stat().st_size
        path.write_bytes(path.read_bytes() + free.to_bytes(4, "big") + b"free" + bytes(free - 8))
    with open_video(first) as video:
        video.frames_at([3])
    status = first.stat()
    first.write_bytes(other.read_bytes())  # the same inode and size
    os.utime(first, ns=(status.st_atime_ns, status.st_mtime_ns))
    with open_video(first) as video:
        assert [number_of(frame) for frame in video.frames_at([33, 12])] == [33, 12]
        assert not video.index().is_sure


def test_reading_forward_keeps_nothing(tmp_path):
    with open_video(write_video(tmp_path / "a.mkv", 12)) as video:
        assert len(list(video)) == video.count_frames() == 12
    assert kept_files() == []


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path):
    cache_folder().write_text("in the way")
    with open_video(write_video(tmp_path / "a.mp4", 12)) as video:
        assert number_of(video.frames_at([7])[0]) == 7
