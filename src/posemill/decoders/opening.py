"""Opening files that may be anything: what is wrong with one is said in a few fixed words."""

from __future__ import annotations

import errno
import os
import stat
from typing import NoReturn

from posemill.errors import DecodeError

StrPath = str | os.PathLike[str]

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


def shown(path: StrPath) -> str:
    """Return the path as it can always be printed: quoted, foreign bytes and newlines escaped."""
    return repr(os.fsdecode(path)).encode("utf-8", "backslashreplace").decode()


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
        f"{shown(path)}: {reason}: {detail}", reason=reason, frame_index=frame_index
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
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe, a socket or a device"
            raise_decode_error(path, "not a file", f"it is {kind}")
        if not status.st_size:
            raise_decode_error(
                path, "empty file", "it has 0 bytes; copy it again from where it came"
            )
    except DecodeError:
        os.close(descriptor)
        raise
    return descriptor, status.st_size


def raise_for_os_error(path: StrPath, error: OSError) -> NoReturn:
    """Raise the DecodeError for what the operating system said about a file."""
    said = error.strerror or str(error)
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        if os.path.islink(path):  # noqa: PTH114  (bytes that are no UTF-8 stay as they are)
            target = shown(os.readlink(path))  # noqa: PTH115
            raise_decode_error(
                path, "broken link", f"it points to {target}, which is not there", cause=error
            )
        raise_decode_error(path, "missing", "no such file", cause=error)
    if isinstance(error, PermissionError):
        raise_decode_error(path, "no permission", f"{said}; check its mode and owner", cause=error)
    if isinstance(error, IsADirectoryError):
        raise_decode_error(path, "not a file", "it is a folder", cause=error)
    if error.errno == errno.ELOOP:
        raise_decode_error(path, "broken link", "links that point at each other", cause=error)
    if error.errno == errno.ENXIO:
        raise_decode_error(path, "not a file", "it is a pipe, a socket or a device", cause=error)
    raise_decode_error(path, "unreadable", said, cause=error)


_BINARY = getattr(os, "O_BINARY", 0)  # Windows would translate line ends
