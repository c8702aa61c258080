"""Whether a video file is as long as its container says: a demuxer ends in silence at a cut.

GIF and FLV need not say how long they are, but every block says where the next one begins: they
are whole where these lead to the end. The packets of MPEG-TS have one length and are numbered.
"""

from __future__ import annotations

import struct
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

_SEGMENT_ID = b"\x18\x53\x80\x67"
_EBML_ID = b"\x1a\x45\xdf\xa3"
_ASF_HEADER = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")
_ASF_FILE = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
_TS_SYNC = 0x47
_TS_LENGTHS = (188, 192, 204)  # plain, with a time before each, with a check behind each
_TS_PACKETS = 1 << 15  # read at once
_TS_FILLING = 0x1FFF  # the number of the stream of packets that mean nothing
_GIF_EXTENSION, _GIF_IMAGE, _GIF_END = 0x21, 0x2C, 0x3B


def missing_bytes(handle: BinaryIO) -> int:
    """Return how many bytes of a file are missing, or cannot be reached; 0 if none.

    Known are Matroska, AVI, MP4, GIF, FLV, ASF (WMV), MPEG-TS and bare MJPEG; 0 also where a format
    does not tell.
    """
    size = handle.seek(0, 2)
    handle.seek(0)
    head = handle.read(12)
    if head.startswith(_EBML_ID):
        return max(0, _end_of_matroska(handle) - size)
    if head[:4] == b"RIFF" and head[8:12] == b"AVI ":
        return max(0, 8 + int(struct.unpack("<I", head[4:8])[0]) - size)
    if head[:3] == b"GIF":
        return _unreached_in_gif(handle, size)
    if head[:3] == b"FLV":
        return _unreached_in_flv(handle, size)
    if head == _ASF_HEADER[:12]:
        return max(0, _size_of_asf(handle, size) - size)
    if head[:3] == b"\xff\xd8\xff":
        return _missing_in_mjpeg(handle, size)
    if head[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"):
        return max(0, _end_of_boxes(handle, size) - size)
    return _missing_in_ts(handle, size)


def _end_of_matroska(handle: BinaryIO) -> int:
    """Return where the segment should end, 0 where it was written live and does not say."""
    handle.seek(4)
    header_size = _read_ebml_size(handle)
    if header_size is None:
        return 0
    handle.seek(header_size, 1)
    if handle.read(4) != _SEGMENT_ID:
        return 0
    segment_size = _read_ebml_size(handle)
    return 0 if segment_size is None else handle.tell() + segment_size


def _read_ebml_size(handle: BinaryIO) -> int | None:
    """Return the length of an EBML element, None where it is unknown or cut off."""
    first = handle.read(1)
    if not first or not first[0]:
        return None
    length = 8 - first[0].bit_length()
    rest = handle.read(length)
    value = int.from_bytes(bytes([first[0] & ((1 << (7 - length)) - 1)]) + rest, "big")
    is_unknown = value == (1 << (7 * (length + 1))) - 1
    return None if is_unknown or len(rest) < length else value


def _end_of_boxes(handle: BinaryIO, size: int) -> int:
    """Return where the last of an MP4's outer boxes should end."""
    position = 0
    while position + 8 <= size:
        handle.seek(position)
        (length,) = struct.unpack(">I", handle.read(4))
        if length == 1:
            handle.seek(4, 1)
            wide = handle.read(8)
            if len(wide) < 8:
                return size + 1
            (length,) = struct.unpack(">Q", wide)
        if length < 8:  # 0: until the end of the file; less is damage that the demuxer reports
            return size
        position += length
    return position


def _unreached_in_gif(handle: BinaryIO, size: int) -> int:
    """Return how many bytes lie behind the block that does not lead to another; 0 for a whole GIF.

    A file without its end mark counts as one byte short.
    """
    handle.seek(6)
    position = 13 + _palette_bytes(handle.read(5)[4:])
    while position < size:
        handle.seek(position)
        kind, *rest = handle.read(11) + bytes(11)
        if kind == _GIF_END:
            handle.seek(position + 1)
            return len(handle.read().strip(b"\0"))
        if kind == _GIF_IMAGE:
            position += 11 + _palette_bytes(bytes(rest[8:9]))  # with the byte of the code size
        elif kind == _GIF_EXTENSION:
            position += 2
        else:
            return size - position
        handle.seek(position)
        while length := int.from_bytes(handle.read(1), "little"):
            handle.seek(length, 1)
        position = handle.tell()
    return 1


def _palette_bytes(flags: bytes) -> int:
    has_palette = flags and flags[0] & 0x80
    return 3 << ((flags[0] & 7) + 1) if has_palette else 0


def _unreached_in_flv(handle: BinaryIO, size: int) -> int:
    """Return how many bytes lie behind the tag that does not lead to another; 0 for a whole FLV."""
    handle.seek(5)
    position = int.from_bytes(handle.read(4), "big") + 4
    if (promised := _size_in_flv(handle, position)) > size:
        return promised - size
    while position < size:
        handle.seek(position)
        length = 11 + int.from_bytes(handle.read(4)[1:], "big")
        handle.seek(position + length)
        # Behind each tag stands its length; some writers leave a 0 there.
        if int.from_bytes(handle.read(4), "big") not in (length, 0):
            return size - position
        position += length + 4
    return position - size


def _size_in_flv(handle: BinaryIO, position: int) -> int:
    """Return the size that a file gives as its own in its first tag; 0 where it does not."""
    handle.seek(position)
    tag = handle.read(1 << 14)
    name = b"filesize\0"  # and a number of 8 bytes
    start = tag.find(name) + len(name)
    if tag[:1] != b"\x12" or start < len(name) or len(tag) < start + 8:
        return 0
    (size,) = struct.unpack(">d", tag[start : start + 8])
    return int(size) if 0 < size < 1 << 50 else 0


def _missing_in_mjpeg(handle: BinaryIO, size: int) -> int:
    """Return 1 for pictures without the end mark of the last one."""
    handle.seek(max(0, size - 4096))
    return 0 if handle.read().rstrip(b"\0\r\n").endswith(b"\xff\xd9") else 1


def _missing_in_ts(handle: BinaryIO, size: int) -> int:
    """Return how many bytes of MPEG-TS lie behind a packet that is cut or missing; 0 if none."""
    handle.seek(0)
    start = np.frombuffer(handle.read(16 * max(_TS_LENGTHS)), np.uint8)
    # Half of them: the first packets may be damaged, too.
    found = {
        (offset, length): (start[offset::length] == _TS_SYNC).mean()
        for length in _TS_LENGTHS
        for offset in range(length)
        if len(start) >= 8 * length
    }
    best = max(found, key=lambda place: found[place], default=None)
    if best is None or found[best] < 0.5:
        return 0
    position, length = best
    last_numbers = np.full(1 << 13, -1)
    while position + length <= size:
        handle.seek(position)
        content = np.frombuffer(handle.read(_TS_PACKETS * length), np.uint8)
        packets = content[: len(content) // length * length].reshape(-1, length)
        good = _count_good_packets(packets, last_numbers)
        position += good * length
        if good < len(packets):
            return size - position
    # What surrounds a packet in the longer forms may be missing from the last one.
    return 0 if size - position in (0, _TS_LENGTHS[0]) else size - position


def _count_good_packets(packets: NDArray[np.uint8], last_numbers: NDArray[Any]) -> int:
    """Return how many packets follow each other without a gap.

    Args:
        packets: `(packets, bytes)`.
        last_numbers: Of each stream the number of the packet before, -1 if none; is moved on.
    """
    is_bad = packets[:, 0] != _TS_SYNC
    streams = (packets[:, 1].astype(np.int64) & 0x1F) << 8 | packets[:, 2]
    starts_unit = packets[:, 1] & 0x40 > 0
    has_content = packets[:, 3] & 0x10 > 0
    is_announced = (packets[:, 3] & 0x20 > 0) & (packets[:, 4] > 0) & (packets[:, 5] & 0x80 > 0)
    numbers = packets[:, 3].astype(np.int64) & 15
    for stream in np.unique(streams[~is_bad]).tolist():
        if stream == _TS_FILLING:
            continue
        rows = np.flatnonzero((streams == stream) & has_content & ~is_bad)
        if not len(rows):
            continue
        before = np.concatenate([last_numbers[[stream]], numbers[rows[:-1]]])
        steps = (numbers[rows] - before) % 16
        # A packet may come twice. Files that were joined begin anew, with a unit of their own.
        is_anew = (numbers[rows] == 0) & starts_unit[rows]
        is_next = (steps <= 1) | (before < 0) | is_anew | is_announced[rows]
        is_bad[rows[~is_next]] = True
        last_numbers[stream] = numbers[rows[-1]]
    return int(np.argmax(is_bad)) if is_bad.any() else len(packets)


def _size_of_asf(handle: BinaryIO, size: int) -> int:
    """Return how long an ASF file should be, 0 where it was sent live and does not say."""
    handle.seek(24)
    (num_objects,) = struct.unpack("<I", handle.read(4).ljust(4, b"\0"))
    position = 30
    for _ in range(min(num_objects, 64)):
        handle.seek(position)
        head = handle.read(24).ljust(24, b"\0")
        if head[:16] == _ASF_FILE:
            body = handle.read(68).ljust(68, b"\0")
            is_live = body[64] & 1
            return 0 if is_live else int.from_bytes(body[16:24], "little")
        position += int.from_bytes(head[16:24], "little")
        if position > size:
            return 0  # damage in its head, which the demuxer reports
    return 0
