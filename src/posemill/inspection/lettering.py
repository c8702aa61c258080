"""Text on pictures, and the legend below them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import cv2
import numpy as np

from posemill.inspection.palette import Colour, part_colours, part_label
from posemill.records import Frame

_UNITS = 21  # height of a capital in both fonts at scale 1
_SPELLED_OUT = str.maketrans(
    {"ß": "ss", "ø": "o", "Ø": "O", "ł": "l", "æ": "ae", "…": "...", "–": "-"}
)
BACKGROUND: Colour = (27, 30, 36)
_BRIGHT: Colour = (236, 238, 242)
_DIM: Colour = (160, 166, 176)
_ALARM: Colour = (255, 120, 110)


def plain_text(text: str, max_characters: int = 200) -> str:
    """Return text the picture font has: accents dropped, all else outside ASCII a `?`, one line."""
    decomposed = unicodedata.normalize("NFKD", text.translate(_SPELLED_OUT))
    kept = "".join(mark for mark in decomposed if not unicodedata.combining(mark))
    line = "".join(mark if " " <= mark <= "~" else "?" for mark in kept)
    return line if len(line) <= max_characters else line[: max_characters - 3] + "..."


def text_size(text: str, height: int) -> int:
    """Return the width in pixels of text whose capitals are `height` pixels high."""
    (width, _), _ = cv2.getTextSize(text, _font(height), height / _UNITS, 1)
    return int(width)


def write_text(
    picture: Frame, text: str, at_xy: tuple[int, int], *, height: int, colour: Colour = _BRIGHT
) -> None:
    """Write one line of plain text into the picture, its lower left corner at `at_xy`."""
    scale = height / _UNITS
    cv2.putText(picture, text, at_xy, _font(height), scale, colour, 1, cv2.LINE_AA)


def shorten(text: str, max_width: int, height: int) -> str:
    """Return the text, its middle left out where it would be wider than `max_width` pixels."""
    if text_size(text, height) <= max_width:
        return text
    for kept in range(len(text) - 1, 1, -1):
        shorter = text[: kept - kept // 2] + ".." + text[len(text) - kept // 2 :]
        if text_size(shorter, height) <= max_width:
            return shorter
    return ""


def add_legend(
    picture: Frame,
    parts: Sequence[tuple[str, bool]],
    title: str,
    *,
    remark: str = "",
    height: int | None = None,
) -> Frame:
    """Return the picture with a legend below it, laid out alike whether parts are found or not.

    Args:
        picture: `(height, width, 3)`. Not modified.
        parts: Name of each part, and whether it was found in this frame.
        title: What the picture shows, for instance the clip and the frame.
        remark: Said at the right end of the title's line, where there is room.
        height: Of the capitals in pixels; by default it follows the picture.
    """
    width = picture.shape[1]
    if height is None:
        height = max(9, round(width / 64)) if width < 900 else min(18, round(width / 80))
    entries = [(name, found, _entry_width(name, height)) for name, found in parts]
    rows = _wrap([entry[2] for entry in entries], width - 2 * height)
    step = round(2.1 * height)
    footer = np.full((step * (len(rows) + 1) + height // 2, width, 3), BACKGROUND, np.uint8)
    baseline = round(1.7 * height)
    write_text(
        footer, shorten(title, width - 2 * height, height), (height, baseline), height=height
    )
    remark_x = width - height - text_size(remark, height)
    if remark_x > 2 * height + text_size(title, height):
        write_text(footer, remark, (remark_x, baseline), height=height, colour=_DIM)
    for number, row in enumerate(rows, start=1):
        x = height
        for index in row:
            name, found, entry_width = entries[index]
            at_xy = (x, baseline + number * step)
            _write_entry(footer, name, found, at_xy=at_xy, height=height)
            x += entry_width
    return np.concatenate([picture, footer])


def _font(height: int) -> int:
    # The double-stroked one where there is room for two strokes.
    return cv2.FONT_HERSHEY_DUPLEX if height >= 13 else cv2.FONT_HERSHEY_SIMPLEX


def _words(name: str, found: bool) -> str:
    return part_label(name) if found else f"{part_label(name)} missing"


def _entry_width(name: str, height: int) -> int:
    # Of the longer text: in a movie the entries must not move when a part comes and goes.
    return round(1.6 * height) + text_size(_words(name, False), height) + height


def _wrap(widths: Sequence[int], available: int) -> list[list[int]]:
    rows: list[list[int]] = [[]]
    used = 0
    for index, width in enumerate(widths):
        if rows[-1] and used + width > available:
            rows.append([])
            used = 0
        rows[-1].append(index)
        used += width
    return rows


def _write_entry(
    footer: Frame, name: str, found: bool, *, at_xy: tuple[int, int], height: int
) -> None:
    x, y = at_xy
    colours = part_colours(name)
    if found:
        for number, colour in enumerate(colours):
            left = x + number * height // len(colours)
            right = x + (number + 1) * height // len(colours) - 1
            cv2.rectangle(footer, (left, y - height + 1), (right, y), colour, -1)
    else:
        cv2.line(footer, (x, y - height + 1), (x + height - 1, y), _ALARM, 1, cv2.LINE_AA)
        cv2.line(footer, (x, y), (x + height - 1, y - height + 1), _ALARM, 1, cv2.LINE_AA)
    colour = _DIM if found else _ALARM
    write_text(
        footer, _words(name, found), (x + round(1.6 * height), y), height=height, colour=colour
    )
