"""Format, size and completeness of a picture, from its bytes, before anything is decoded."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from posemill.messages import Message


class Header(NamedTuple):
    """What a picture's first bytes promise.

    Args:
        format: `JPEG`, `PNG`, `GIF`, `BMP`, `WebP` or `TIFF`.
        size_wh: Width and height in pixels as stored, before any EXIF rotation.
        has_end: Whether the file goes on to its end marker (True where the format has none).
    """

    format: str
    size_wh: tuple[int, int]
    has_end: bool


class ShortHeaderError(Exception):
    """The bytes end, or make no sense, before the size is known."""


def sniff_format(head: bytes) -> str | None:
    """Return the name of the format from the first 16 bytes of a file, None if it is not ours."""
    for magic, name in _MAGIC.items():
        if head.startswith(magic):
            return name
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WebP"
    return None


def read_header(data: bytes, name: str) -> Header:
    """Return what the bytes of a whole file of that format promise.

    Raises:
        ShortHeaderError: The size cannot be found.
    """
    try:
        size_wh, has_end = _READERS[name](data)
    except (struct.error, IndexError) as error:
        raise ShortHeaderError(str(error)) from error
    return Header(name, size_wh, has_end)


_MAGIC = {
    b"\xff\xd8\xff": "JPEG",
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"GIF87a": "GIF",
    b"GIF89a": "GIF",
    b"BM": "BMP",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"II+\0": "TIFF",
    b"MM\0+": "TIFF",
}
_Found = tuple[tuple[int, int], bool]
_JPEG_SIZE_MARKERS = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}


def _read_jpeg(data: bytes) -> _Found:
    position, size_wh = 2, None
    while True:
        position = data.find(b"\xff", position)  # over padding, as libjpeg does
        if position < 0:
            raise ShortHeaderError(Message("no more markers"))
        marker = data[position + 1]
        if marker in (0xFF, 0x01) or 0xD0 <= marker <= 0xD8:
            position += 1 if marker == 0xFF else 2
            continue
        (length,) = struct.unpack_from(">H", data, position + 2)
        if marker in _JPEG_SIZE_MARKERS:
            height, width = struct.unpack_from(">HH", data, position + 5)
            size_wh = (width, height)
        if marker == 0xDA:
            break
        if marker == 0xD9:
            raise ShortHeaderError(Message("ends before any picture data"))
        position += 2 + length
    if size_wh is None:
        raise ShortHeaderError(Message("picture data before the size"))
    # In picture data 0xFF is followed by 0 or a restart marker, so an end marker after this point
    # is the real one; those of thumbnails lie before it. Searched from the end, where it is.
    return size_wh, data.rfind(b"\xff\xd9", position) >= 0


def _read_png(data: bytes) -> _Found:
    if data[12:16] != b"IHDR":
        raise ShortHeaderError(Message("the first chunk is not IHDR"))
    width, height = struct.unpack_from(">II", data, 16)
    position = 8
    while position + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        position += 12 + length
        if kind == b"IEND":
            return (width, height), position <= len(data)
    return (width, height), False


def _read_gif(data: bytes) -> _Found:
    width, height = struct.unpack_from("<HH", data, 6)
    return (width, height), True  # the decoder itself notices a cut one


def _read_bmp(data: bytes) -> _Found:
    (header_size,) = struct.unpack_from("<I", data, 14)
    if header_size == 12:
        width, height = struct.unpack_from("<HH", data, 18)
    else:
        width, height = struct.unpack_from("<ii", data, 18)
    return (abs(width), abs(height)), True  # negative height: rows from top to bottom


def _read_webp(data: bytes) -> _Found:
    (length,) = struct.unpack_from("<I", data, 4)
    kind = data[12:16]
    if kind == b"VP8X":
        width = 1 + int.from_bytes(data[24:27], "little")
        height = 1 + int.from_bytes(data[27:30], "little")
    elif kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    elif kind == b"VP8 ":
        width, height = (value & 0x3FFF for value in struct.unpack_from("<HH", data, 26))
    else:
        raise ShortHeaderError(Message("unknown first chunk {kind!r}", kind=kind))
    return (width, height), len(data) >= length + 8


def _read_tiff(data: bytes) -> _Found:
    order = "<" if data[:2] == b"II" else ">"
    is_big = data[2:4] in (b"+\0", b"\0+")
    entry, count_format, pointer = (20, "Q", "Q") if is_big else (12, "H", "I")
    (position,) = struct.unpack_from(order + pointer, data, 8 if is_big else 4)
    (num_entries,) = struct.unpack_from(order + count_format, data, position)
    position += struct.calcsize(count_format)
    found: dict[int, int] = {}
    for index in range(min(num_entries, 1000)):
        tag, kind = struct.unpack_from(order + "HH", data, position + index * entry)
        if tag in (256, 257):
            value = position + index * entry + (12 if is_big else 8)
            code = {3: "H", 4: "I", 16: "Q"}.get(kind)
            if code is None:
                raise ShortHeaderError(Message("size stored as type {kind}", kind=kind))
            (found[tag],) = struct.unpack_from(order + code, data, value)
    if len(found) < 2:
        raise ShortHeaderError(Message("no width and height among its tags"))
    return (found[256], found[257]), True


_READERS: dict[str, Callable[[bytes], _Found]] = {
    "JPEG": _read_jpeg,
    "PNG": _read_png,
    "GIF": _read_gif,
    "BMP": _read_bmp,
    "WebP": _read_webp,
    "TIFF": _read_tiff,
}
