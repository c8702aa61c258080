"""Opening files that may be anything: what is wrong with one is said in a few fixed words.

And what names say: which are pictures or videos, and in what order frames come.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable
from typing import NoReturn

from posemill.errors import DecodeError
from posemill.messages import Message

StrPath = str | os.PathLike[str]
# Of frames that are resized: (width, height), or the length of the shorter side; None: as stored.
TargetSize = tuple[int, int] | int | None

# A PNG of a few kB can claim gigabytes of pixels: 100 megapixels is far above any camera's frame.
MAX_PIXELS = 100_000_000

# Every `DecodeError.reason` of this package, for tables and for tests.
REASONS = (
    "missing",
    "broken link",
    "not a file",
    "not a folder",
    "no permission",
    "unreadable",
    "empty file",
    "not an image",
    "not a video",
    "no video stream",
    "no frames",
    "zero size",
    "too large",
    "truncated",
    "corrupt",
    "unsupported",
)


# GIF is not among the pictures: where people have GIFs, they move.
PICTURE_SUFFIXES = frozenset(["png", "jpg", "jpeg", "webp", "bmp", "tif", "tiff"])
VIDEO_SUFFIXES = frozenset(
    """mp4 m4v mov avi mkv webm mpg mpeg m2v ts mts m2ts wmv asf flv f4v ogv 3gp 3g2 mjpeg mjpg vob
    gif""".split()
)
_DIGITS = re.compile(r"([0-9]+)")
_MASK = str.maketrans("123456789", "000000000")


def suffix_of(name: str) -> str:
    """Return what follows the last dot, in lower case; empty where nothing stands before it."""
    stem, _, suffix = name.rpartition(".")
    return suffix.lower() if stem else ""


def without_suffix(name: str) -> str:
    """Return a file's path without the last suffix: `a/b.c.mp4` -> `a/b.c`."""
    stem, dot, suffix = name.rpartition(".")
    return stem if dot and "/" not in suffix and stem[-1:] not in ("", "/") else name


def natural_key(name: str) -> tuple[list[str | tuple[int, str]], str]:
    """Return a sort key by which `images2` comes before `images10`, and never two names equal."""
    parts = _DIGITS.split(name)
    key: list[str | tuple[int, str]] = list(parts)
    # Digits sit at the odd places, so text is compared with text and numbers with numbers. Of two
    # numbers the longer one is the larger; `int` would refuse very long ones.
    significant = [digits.lstrip("0") for digits in parts[1::2]]
    key[1::2] = [(len(digits), digits) for digits in significant]
    return key, name


def natural_sort(names: Iterable[str]) -> list[str]:
    """Return the names in natural order."""
    names = list(names)
    # Frames numbered with leading zeros, the usual case, sort right as they are and 10x faster.
    if len({name.translate(_MASK) for name in names}) <= 1:
        return sorted(names)
    return sorted(names, key=natural_key)


def shown(path: StrPath) -> str:
    """Return the path as it can always be printed: quoted, foreign bytes and newlines escaped."""
    return repr(os.fsdecode(path)).encode("utf-8", "backslashreplace").decode()


def check_numbers(start_index: int, stride: int) -> None:
    """Raise `ValueError` where reading cannot begin at that frame, or go on by that step."""
    if start_index < 0:
        raise ValueError(f"start_index: expected 0 or more, got {start_index}")
    if stride < 1:
        raise ValueError(f"stride: expected 1 or more, got {stride}")


def raise_decode_error(
    path: StrPath,
    reason: str,
    detail: str,
    *,
    frame_index: int | None = None,
    cause: BaseException | None = None,
) -> NoReturn:
    """Raise the DecodeError for that file: `'a.png': truncated: no end marker …`."""
    raise DecodeError(
        "{path}: {why}: {detail}",
        path=shown(path),
        why=Message(reason),
        detail=detail,
        reason=reason,
        frame_index=frame_index,
    ) from cause


def open_regular(path: StrPath) -> tuple[int, int]:
    """Return the descriptor of an ordinary, not empty file, and its size in bytes.

    Links are followed. A pipe or a device is refused without waiting on it.
    """
    try:
        # Without O_NONBLOCK a named pipe would hold us until somebody writes to it.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
    except OSError as error:
        raise_for_os_error(path, error)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            is_folder = stat.S_ISDIR(status.st_mode)
            detail = "it is a folder" if is_folder else "it is a pipe, a socket or a device"
            raise_decode_error(path, "not a file", Message(detail))
        if not status.st_size:
            detail = "it has 0 bytes; copy it again from where it came"
            raise_decode_error(path, "empty file", Message(detail))
    except DecodeError:
        os.close(descriptor)
        raise
    return descriptor, status.st_size


def raise_for_os_error(path: StrPath, error: OSError) -> NoReturn:
    """Raise the DecodeError for what the operating system said about a file."""
    said = error.strerror or str(error)
    reason, detail = "unreadable", said
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        reason, detail = "missing", Message("no such file")
        if os.path.islink(path):  # noqa: PTH114  (bytes that are no UTF-8 stay as they are)
            target = shown(os.readlink(path))  # noqa: PTH115
            reason = "broken link"
            detail = Message("it points to {target}, which is not there", target=target)
    elif isinstance(error, PermissionError):
        reason = "no permission"
        detail = Message("{details}; check its mode and owner", details=said)
    elif isinstance(error, IsADirectoryError):
        reason, detail = "not a file", Message("it is a folder")
    elif error.errno == errno.ELOOP:
        reason, detail = "broken link", Message("links that point at each other")
    elif error.errno == errno.ENXIO:
        reason, detail = "not a file", Message("it is a pipe, a socket or a device")
    raise_decode_error(path, reason, detail, cause=error)


_BINARY = getattr(os, "O_BINARY", 0)  # Windows would translate line ends
