"""Whether a video file is as long as its container says: a demuxer ends in silence at a cut."""

from __future__ import annotations

import struct
from typing import BinaryIO

_SEGMENT_ID = b"\x18\x53\x80\x67"
_EBML_ID = b"\x1a\x45\xdf\xa3"


def missing_bytes(handle: BinaryIO) -> int:
    """Return how many bytes are missing at the end of a Matroska, AVI, MP4 or GIF file; 0 if none.

    0 also where the format does not tell. A GIF without its end mark counts as 1.
    """
    size = handle.seek(0, 2)
    handle.seek(0)
    head = handle.read(12)
    if head.startswith(_EBML_ID):
        return max(0, _end_of_matroska(handle) - size)
    if head[:4] == b"RIFF" and head[8:12] == b"AVI ":
        return max(0, 8 + int(struct.unpack("<I", head[4:8])[0]) - size)
    if head[:3] == b"GIF":
        handle.seek(max(0, size - 64))
        return int(not handle.read().rstrip(b"\0").endswith(b";"))
    if head[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"):
        return max(0, _end_of_boxes(handle, size) - size)
    return 0


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
