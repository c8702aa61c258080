"""Single pictures, decoded by OpenCV, with everything that can be wrong with a file noticed."""

from __future__ import annotations

import os
from functools import cache
from typing import cast

import cv2
import numpy as np
import numpy.typing as npt

from posemill.decoders.opening import (
    MAX_PIXELS,
    StrPath,
    open_regular,
    raise_decode_error,
    raise_for_os_error,
)
from posemill.decoders.picture_headers import Header, ShortHeaderError, read_header, sniff_format
from posemill.errors import DecodeError
from posemill.messages import Message
from posemill.records import Frame


def read_picture(
    path: StrPath, *, max_pixels: int = MAX_PIXELS, least_side: int | None = None
) -> Frame:
    """Return a picture as `(height, width, 3)` uint8, RGB, turned as its EXIF tag says.

    The pixels are those of `cv2.imread` with the channels in the other order. 16-bit pictures come
    out as 8-bit, grey ones with three equal channels, CMYK as RGB; transparency is dropped. Of an
    animation, the first picture.

    Args:
        path: JPEG, PNG, GIF, BMP, WebP or TIFF; what counts is the content, not the name.
        max_pixels: Refused above it, before any memory is taken for pixels.
        least_side: For who makes it smaller anyway: a JPEG is decoded to a half, a quarter or an
            eighth of its size, in a fraction of the time, where its shorter side keeps so many
            pixels.

    Raises:
        DecodeError: With `reason` one of `posemill.decoders.opening.REASONS`.
    """
    data, header = _read_checked(path, max_pixels)
    factor = 1
    if least_side and header.format == "JPEG":
        factor = next((each for each in _REDUCED if min(header.size_wh) >= least_side * each), 1)
    flags = (_TO_RGB or cv2.IMREAD_COLOR) | _REDUCED.get(factor, 0)
    picture = _decode_as(path, data, header.format, flags)
    return picture if _TO_RGB else cast(Frame, cv2.cvtColor(picture, cv2.COLOR_BGR2RGB))


def resize_frame(frame: Frame, size_wh: tuple[int, int]) -> Frame:
    """Return a frame in another size: `(height, width, 3)`; the same one where it has it.

    Each pixel of a frame that is made less than half as large is the mean of those it covers;
    else it is interpolated between its neighbours, which takes a sixth of the time.
    """
    height, width = frame.shape[:2]
    if (width, height) == size_wh:
        return frame
    is_much_smaller = width > 2 * size_wh[0] or height > 2 * size_wh[1]
    method = cv2.INTER_AREA if is_much_smaller else cv2.INTER_LINEAR
    return cast(Frame, cv2.resize(frame, size_wh, interpolation=method))


def encode_picture(frame: Frame, format: str, *, quality: int = 90) -> bytes:
    """Return the content of a picture file.

    Args:
        frame: `(height, width, 3)` uint8 RGB.
        format: `jpg`, `png` or `webp`.
        quality: Of jpg and webp, 1 to 100.

    Raises:
        DecodeError: The format has no pictures so large.
    """
    setting = {"jpg": cv2.IMWRITE_JPEG_QUALITY, "webp": cv2.IMWRITE_WEBP_QUALITY}.get(format)
    pixels = cv2.cvtColor(frame, cv2.COLOR_RGB2BGR)
    try:
        is_done, data = cv2.imencode(f".{format}", pixels, [setting, quality] if setting else [])
    except cv2.error:
        is_done = False
    if not is_done:
        height, width = frame.shape[:2]
        raise DecodeError(
            "{width} x {height} pixels cannot be written as {format}; make them smaller with "
            "{--size}, or choose {--format:png}",
            width=width,
            height=height,
            format=format,
            reason="too large",
        )
    return data.tobytes()


def use_one_thread() -> None:
    """Let OpenCV compute with one thread in this process: where others read beside it."""
    cv2.setNumThreads(1)


@cache
def keep_freed_memory() -> None:
    """Have the C library keep freed memory for the next frames, in this process.

    glibc gives the memory of every large frame back, asks for it again, and the kernel clears it
    each time: a fifth of the time of reading at 720p. How much it keeps follows from the largest
    block it saw freed, up to 32 MB; one that nobody wrote to costs nothing.
    """
    np.empty((32 << 20) - (64 << 10), np.uint8)


# OpenCV's threads do not live on in a forked child, and the first call there that counts them would
# wait for them for ever: they end before a fork, and come back by themselves.
_threads_before_fork: list[int] = []


def _end_threads() -> None:
    _threads_before_fork.append(cv2.getNumThreads())
    cv2.setNumThreads(1)


def _allow_threads() -> None:
    cv2.setNumThreads(_threads_before_fork.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_end_threads, after_in_parent=_allow_threads)


def read_thumbnail(path: StrPath) -> tuple[tuple[int, int], npt.NDArray[np.uint8]]:
    """Return a picture's width and height as stored, and `(32, 32)` uint8: what it shows, in grey.

    Of a large JPEG only as much is decoded as that needs.

    Raises:
        DecodeError: As `read_picture`.
    """
    data, header = _read_checked(path, MAX_PIXELS)
    factor = next((each for each in _REDUCED if min(header.size_wh) >= 64 * each), 1)
    flags = _REDUCED.get(factor, 0)  # grey
    picture = _decode_as(path, data, header.format, flags)
    small = cv2.resize(picture, (32, 32), interpolation=cv2.INTER_AREA)
    return header.size_wh, cast("npt.NDArray[np.uint8]", small)


def _read_checked(path: StrPath, max_pixels: int) -> tuple[bytes, Header]:
    """Return the file's content and its header; raise for what need not be decoded."""
    data, name = _read_bytes(path, max_pixels)
    try:
        header = read_header(data, name)
    except ShortHeaderError as error:
        raise_decode_error(
            path,
            "truncated",
            Message("the header of this {name} has no size ({error})", name=name, error=error),
            cause=error,
        )
    width, height = header.size_wh
    if not width or not height:
        raise_decode_error(
            path, "zero size", Message("{width} x {height} pixels", width=width, height=height)
        )
    if width * height > max_pixels:
        megapixels, limit = width * height / 1e6, max_pixels / 1e6
        raise_decode_error(
            path,
            "too large",
            Message(
                "{width} x {height} is {megapixels:,.0f} megapixels, allowed are {limit:,.0f}",
                width=width,
                height=height,
                megapixels=megapixels,
                limit=limit,
            ),
        )
    if not header.has_end:
        raise_decode_error(
            path, "truncated", Message("this {name} stops before its end; copy it again", name=name)
        )
    return data, header


def _read_bytes(path: StrPath, max_pixels: int) -> tuple[bytes, str]:
    """Return the file's content and the name of its format."""
    descriptor, size = open_regular(path)
    try:
        data = os.read(descriptor, 16)
        name = sniff_format(data)
        if name is None:
            known = Message("known are JPEG, PNG, GIF, BMP, WebP, TIFF")
            raise_decode_error(
                path,
                "not an image",
                Message("it starts with {data!r}; {known}", data=data[:8], known=known),
            )
        # 8 bytes a pixel is what 16-bit RGBA takes without any compression.
        if size > 8 * max_pixels + (1 << 20):
            raise_decode_error(path, "too large", Message("a file of {size:,} bytes", size=size))
        while more := os.read(descriptor, max(0, size - len(data))):
            data += more
        return data, name
    except OSError as error:
        raise_for_os_error(path, error)
    finally:
        os.close(descriptor)


def _decode_as(path: StrPath, data: bytes, name: str, flags: int) -> Frame:
    try:
        picture = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error as error:
        raise_decode_error(
            path,
            "corrupt",
            Message("this {name} cannot be decoded ({err})", name=name, err=error.err),
            cause=error,
        )
    if picture is None:
        _say_unsupported(path, data, name)
        raise_decode_error(
            path, "corrupt", Message("this {name} cannot be decoded; copy it again", name=name)
        )
    return cast(Frame, picture)


# OpenCV 4.10 has no such flag and costs one more pass over the pixels.
_TO_RGB = getattr(cv2, "IMREAD_COLOR_RGB", 0)
# Beside the flag of a colour these ask for that colour, by themselves for grey.
_REDUCED = {
    8: cv2.IMREAD_REDUCED_GRAYSCALE_8,
    4: cv2.IMREAD_REDUCED_GRAYSCALE_4,
    2: cv2.IMREAD_REDUCED_GRAYSCALE_2,
}


def _say_unsupported(path: StrPath, data: bytes, name: str) -> None:
    """Raise where a picture is whole, but of numbers that are no colours, such as floats."""
    try:
        plain = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    except cv2.error:
        return
    if plain is not None:
        channels = 1 if plain.ndim == 2 else plain.shape[2]
        raise_decode_error(
            path,
            "unsupported",
            Message(
                "this {name} is whole, but has {channels} x {plain_dtype} a pixel; save it with 8 "
                "or 16 bits a colour",
                name=name,
                channels=channels,
                plain_dtype=plain.dtype,
            ),
        )
