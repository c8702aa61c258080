"""Text that others wrote, made fit for a terminal: ids, splits and file names are data."""

from __future__ import annotations

import logging
import re
import unicodedata
from functools import lru_cache


def printable(text: object, *, keep: str = "\n\t") -> str:
    """Return text whose every character a terminal shows, and none of them commands it.

    Controls (of both ranges), what turns the direction of writing, invisible marks and halves of
    characters become `?`; blanks of all scripts stay.

    Args:
        text: What is to be shown.
        keep: Controls that stay; empty where a name must not begin a new line.
    """
    plain = str(text)
    if plain.isprintable():
        return plain
    return "".join(mark if mark in keep or _is_shown(mark) else "?" for mark in plain)


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes: two for a Chinese character."""
    return len(text) + sum(unicodedata.east_asian_width(mark) in "WF" for mark in text)


def escaped(text: str) -> str:
    """Return JSON text with `\\uXXXX` for every character but line ends that is not shown.

    `json.dumps` escapes only the first range of controls.
    """
    if text.isprintable():
        return text
    return "".join(mark if mark == "\n" or _is_shown(mark) else _escape(mark) for mark in text)


def duration(seconds: float) -> str:
    """Return hours, minutes and seconds: `27:03:09`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


@lru_cache(maxsize=1024)
def warn_once(text: str) -> None:
    """Log a warning about data, which Python shows on stderr; the same one only once."""
    logging.getLogger("posemill").warning("%s", printable(text))


@lru_cache(4096)
def _is_shown(mark: str) -> bool:
    return mark.isprintable() or unicodedata.category(mark) == "Zs"


def _escape(mark: str) -> str:
    units = mark.encode("utf-16-be", "surrogatepass")
    return "".join(
        f"\\u{units[start]:02x}{units[start + 1]:02x}" for start in range(0, len(units), 2)
    )


# `1 clips are`, of a sentence with a number in it: the catalogue has one pattern for all numbers.
_NOUNS = "clip core epoch evaluation fold frame group picture point process row sample step thread "
_NOUNS += "training video worker"
_NOUN = rf"(?<![\w.,/-])(?<!x )1 ({_NOUNS.replace(' ', '|')})"
_MANY = re.compile(rf"{_NOUN}e?s\b( are\b| were\b| have\b)?")
_ONE = re.compile(rf"{_NOUN}\b( is\b| was\b| has\b)?")
_IS = {" are": " is", " were": " was", " have": " has"}
_ARE = {one: many for many, one in _IS.items()}


def in_singular(text: str) -> str:
    """Return a sentence of ours with `1 clip is` for `1 clips are`."""
    return _MANY.sub(lambda found: f"1 {found[1]}{_IS.get(found[2], '')}", text)


def in_plural(text: str) -> str:
    """Return what `in_singular` made of a sentence as it was."""

    def many(found: re.Match[str]) -> str:
        return f"1 {found[1]}{'es' if found[1][-1] == 's' else 's'}{_ARE.get(found[2], '')}"

    return _ONE.sub(many, text)
