"""File names: which are pictures or videos, in what order frames come, how to show foreign ones."""

from __future__ import annotations

import os

from posemill.decoders.opening import (
    PICTURE_SUFFIXES,
    VIDEO_SUFFIXES,
    natural_key,
    natural_sort,
    suffix_of,
)

__all__ = [
    "LIST_SUFFIXES",
    "PICTURE_SUFFIXES",
    "VIDEO_SUFFIXES",
    "natural_key",
    "natural_sort",
    "readable",
    "suffix_of",
    "without_suffix",
]

LIST_SUFFIXES = frozenset(["csv", "tsv", "jsonl"])


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
