"""File names: which are pictures or videos, in what order frames come, how to show foreign ones."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

# GIF is not among the pictures: where people have GIFs, they move.
PICTURE_SUFFIXES = frozenset(["png", "jpg", "jpeg", "webp", "bmp", "tif", "tiff"])
VIDEO_SUFFIXES = frozenset(
    """mp4 m4v mov avi mkv webm mpg mpeg m2v ts mts m2ts wmv asf flv f4v ogv 3gp 3g2 mjpeg mjpg vob
    gif""".split()
)
LIST_SUFFIXES = frozenset(["csv", "tsv", "jsonl"])

_DIGITS = re.compile(r"([0-9]+)")
_MASK = str.maketrans("123456789", "000000000")


def suffix_of(name: str) -> str:
    """Return what follows the last dot, in lower case; empty where nothing stands before it."""
    stem, _, suffix = name.rpartition(".")
    return suffix.lower() if stem else ""


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


def readable(path: str) -> str:
    r"""Return the path as text any file can hold: bytes that are no UTF-8 become `\xff`."""
    try:
        path.encode()
        return path
    except UnicodeEncodeError:
        pass
    try:
        return os.fsencode(path).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half of a character, as only JSON can write it
        return path.encode("utf-8", "backslashreplace").decode()


def without_suffix(name: str) -> str:
    """Return a file's path without the last suffix: `a/b.c.mp4` -> `a/b.c`."""
    stem, dot, suffix = name.rpartition(".")
    return stem if dot and "/" not in suffix and stem[-1:] not in ("", "/") else name
