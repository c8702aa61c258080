"""Where a container says it ends, against files built byte by byte and files of FFmpeg."""

import io
import struct

import pytest
from made_up_videos import paint_noise, read_frames

from posemill.decoders.container_ends import missing_bytes
from posemill.testing.videos import write_video

FTYP = struct.pack(">I4s", 16, b"ftyp") + b"isom\0\0\0\0"


def missing(data):
    return missing_bytes(io.BytesIO(data))


def box(kind, content):
    return struct.pack(">I4s", 8 + len(content), kind) + content


def wide_box(kind, content):
    """A box whose length takes 64 bits, as those above 4 GB do."""
    return struct.pack(">I4sQ", 1, kind, 16 + len(content)) + content


def avi(size, kind=b"AVI "):
    return b"RIFF" + struct.pack("<I", size) + kind + bytes(40)


def matroska(length, num_bytes, header=b"\x82ab"):
    return b"\x1a\x45\xdf\xa3" + header + b"\x18\x53\x80\x67" + length + bytes(num_bytes)


def head(size, kind):
    """The beginning of a box, which may say another size than it has."""
    return struct.pack(">I4s", size, kind)


GIF = b"GIF89a" + bytes(7)
WIDE = FTYP + struct.pack(">I4sQ", 1, b"mdat", 56)
PLAIN_BOX, WIDE_BOX = FTYP + box(b"mdat", bytes(40)), FTYP + wide_box(b"mdat", bytes(40))
SEGMENT = matroska(b"\x41\x2c", 300)  # of two bytes: fourteen bits
ENDS = [
    *((data[: len(data) - cut], cut) for data in (PLAIN_BOX, WIDE_BOX) for cut in (0, 1, 7, 39)),
    *((box(kind, bytes(30))[:-3], 3)
      for kind in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")),
    (WIDE_BOX + box(b"moov", bytes(20)), 0),
    ((WIDE_BOX + box(b"moov", bytes(20)))[:-5], 5),
    # It is cut inside of a length of 64 bits, or just after it.
    *((WIDE[:size], 1) for size in range(len(FTYP) + 8, len(WIDE))),
    (WIDE, 40),
    # A box without a size reaches to the end; one of less than its head is damage, which the
    # demuxer reports; a few bytes after the last one are none.
    (FTYP + head(0, b"mdat") + bytes(9), 0),
    (FTYP + head(8, b"free") + box(b"moov", b"1"), 0),
    (FTYP + head(7, b"mdat") + bytes(9), 0),
    (FTYP + bytes(7), 0),
    # An AVI is eight bytes longer than it says, and more where an index was added.
    (avi(44), 0), (avi(45), 1), (avi(20), 0), (avi(99, b"WAVE"), 0),
    *((GIF + b"!\xfe\x03abc\0" + tail, missing)
      for tail, missing in ((b";", 0), (b";\0\0", 0), (b"", 1), (b";x", 1))),
    (GIF + b"!\xfe\x09abc\0", 1),
    (SEGMENT, 0), (SEGMENT + bytes(5), 0), (SEGMENT[:-1], 1), (SEGMENT[:-90], 90),
    (matroska(b"\xe0", 95), 1),
    (matroska(b"\x01" + (300).to_bytes(7, "big"), 299), 1),  # as FFmpeg writes
    (matroska(b"\xe0", 94, b"\x40\x03abc"), 2),
    # Written live, cut in its head, another element, an odd length: it does not say.
    *((matroska(length, 10), 0) for length in (b"\xff", b"\x7f\xff", b"\x01" + b"\xff" * 7)),
    *((SEGMENT[:size], 0) for size in range(4, len(SEGMENT) - 300)),
    (matroska(b"\xe0", 0).replace(b"\x18\x53", b"\x18\x54"), 0),
    (matroska(b"\0", 0), 0),
    (b"", 0), (b"RIFF", 0), (bytes(100), 0),
]  # fmt: skip


@pytest.mark.parametrize(("data", "expected"), ENDS, ids=range(len(ENDS)))
def test_a_container_says_how_much_of_it_is_missing(data, expected):
    assert missing(data) == expected


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.avi"])
def test_files_of_ffmpeg_are_whole_until_their_last_byte_is_gone(name, tmp_path):
    codec = "mpeg4" if name.endswith("avi") else "libx264"
    data = write_video(tmp_path / name, 8, codec=codec).read_bytes()
    assert missing(data) == 0
    assert missing(data[:-1]) == 1


def write_noise(path, codec, pixel_format="yuv420p"):
    return write_video(
        path, 40, codec=codec, size_wh=(96, 64), pixel_format=pixel_format, paint=paint_noise
    )


@pytest.mark.parametrize(("suffix", "codec", "pixels"), [
    ("gif", "gif", "rgb8"), ("wmv", "wmv2", "yuv420p"), ("flv", "flv1", "yuv420p"),
    ("ts", "mpeg2video", "yuv420p"), ("m2ts", "libx264", "yuv420p"),
    ("mjpeg", "mjpeg", "yuvj420p"),
])  # fmt: skip
def test_a_file_that_is_broken_inside_does_not_end_in_silence(tmp_path, suffix, codec, pixels):
    path = write_noise(tmp_path / f"a.{suffix}", codec, pixels)
    content = path.read_bytes()
    assert missing(content) == 0
    assert len(read_frames(path)[0]) == 40
    silent = 0
    starts = [len(content) * share // 20 for share in range(3, 18)]
    without_middle = [content[:start] + content[start + 23 :] for start in starts]
    # Not a multiple of 188 or 192 bytes: a cut between two packets of MPEG-TS leaves no trace.
    for changed in (*without_middle, *(content[: start + 7] for start in starts)):
        path.write_bytes(changed)
        frames, error = read_frames(path)
        silent += error is None and len(frames) < 40
    assert silent == 0


def test_a_head_of_asf_that_points_nowhere_is_no_fault_of_ours(tmp_path):
    path = write_noise(tmp_path / "a.wmv", "wmv2")
    content = bytearray(path.read_bytes())
    content[46:54] = b"\xff" * 8  # how long the first object of the head is
    path.write_bytes(content)
    assert read_frames(path)[1] is not None


def flv(size, content=b""):
    """Return a file of one tag, which says how large the file is."""
    note = b"\x02\0\x0aonMetaData\x08\0\0\0\1\0\x08filesize\0" + struct.pack(">d", size)
    tag = b"\x12" + len(note).to_bytes(3, "big") + bytes(7) + note
    return b"FLV\1\1\0\0\0\x09" + bytes(4) + tag + struct.pack(">I", len(tag)) + content


def test_an_flv_that_ends_between_two_tags_is_short_of_its_own_size():
    size = len(flv(0))
    assert missing(flv(0)) == missing(flv(size)) == missing(flv(float("nan"))) == 0
    assert missing(flv(size + 70)) == 70


def ts(numbers, stream=256, start=False):
    """Return packets of one stream with these numbers."""
    head = [0x47, (0x40 if start else 0) | stream >> 8, stream & 255]
    return b"".join(bytes([*head, 0x10 | number]) + bytes(184) for number in numbers)


ROUND = [number % 16 for number in range(40)]


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("whole", ts(ROUND), 0),
        ("one comes twice", ts([*ROUND, ROUND[-1]]), 0),
        ("another is joined", ts(ROUND) + ts([0, 1, 2], start=True), 0),
        ("filling has no numbers", ts(ROUND) + ts([7, 3], 0x1FFF), 0),
        ("two streams", ts(ROUND) + ts([5, 6], 300) + ts([8]), 0),
        ("cut", ts(ROUND)[:-5], 183),
        ("one is lost", ts([*ROUND[:30], *ROUND[31:]]), 9 * 188),
        ("a byte is lost", ts(ROUND)[: 30 * 188] + ts(ROUND)[30 * 188 + 1 :], 10 * 188 - 1),
        ("the first ones are lost", bytes(3 * 188) + ts(ROUND)[3 * 188 :], 40 * 188),
    ],
)
def test_packets_of_mpeg_ts_have_one_length_and_follow_each_other(name, data, expected):
    assert missing(data) == expected
    if not len(data) % 188:
        with_times = b"".join(
            bytes(4) + data[start : start + 188] for start in range(0, len(data), 188)
        )
        assert (missing(with_times) > 0) == (expected > 0)
