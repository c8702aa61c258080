"""Text that others wrote, made fit for a terminal: ids, splits and file names are data."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import unicodedata
import warnings
from functools import lru_cache
from pathlib import Path

_OURS = (str(Path(__file__).parent), contextlib.__file__)


def printable(text: object, *, keep: str = "\n\t") -> str:
    """Return text whose every character a terminal shows, and none of them commands it.

    Controls (of both ranges) but those to `keep`, what turns the direction of writing, invisible
    marks and halves of characters become `?`; blanks of all scripts stay.
    """
    plain = str(text)
    if plain.isprintable():
        return plain
    return "".join(mark if mark in keep or _is_shown(mark) else "?" for mark in plain)


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes: two for a Chinese character."""
    return len(text) + sum(unicodedata.east_asian_width(mark) in "WF" for mark in text)


def escaped(text: str) -> str:
    """Return JSON text with `\\uXXXX` for every character but line ends that is not shown."""
    # json.dumps escapes only the first range of controls.
    marks = (mark if mark == "\n" or _is_shown(mark) else json.dumps(mark)[1:-1] for mark in text)
    return "".join(marks).replace("\x7f", r"\u007f")


def duration(seconds: float) -> str:
    """Return hours, minutes and seconds: `27:03:09`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


@lru_cache(maxsize=1024)
def warn_once(text: str) -> None:
    """Log a warning about data, which Python shows on stderr; the same one only once."""
    logging.getLogger("posemill").warning("%s", printable(text))


def warn_caller(text: str) -> None:
    """Warn of what a function of ours met, at the place in the user's file that called it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_code.co_filename.startswith(_OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)


@lru_cache(4096)
def _is_shown(mark: str) -> bool:
    return mark.isprintable() or unicodedata.category(mark) == "Zs"


def counted(number: object, things: str) -> str:
    """Return `3 clips`, or `1 clip`; the things are given in the plural."""
    return f"{number} {things.removesuffix('s') if number == 1 else things}"
