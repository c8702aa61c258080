"""Text on pictures, and the legend below them."""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import cv2
import numpy as np

from posemill.inspection.drawing.fonts import FONT_SETTING, coverage_in, find_font, width_in
from posemill.records import Frame
from posemill.skeletons.palette import (
    ALARM,
    BACKGROUND,
    BRIGHT,
    DIM,
    Colour,
    part_colours,
    part_label,
)

_UNITS = 21  # height of a capital in both fonts at scale 1
# Letters that have no accent to drop.
_SPELLED_OUT = str.maketrans({"ß": "ss", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "æ": "ae",
                              "Æ": "AE", "œ": "oe", "Œ": "OE", "đ": "d", "Đ": "D", "ı": "i",
                              "…": "...", "–": "-", "—": "-", "‘": "'", "’": "'", "“": '"',
                              "”": '"'})  # fmt: skip
_FOREIGN = re.compile(r"[^ -~]+")
_SPELLED_LETTERS = 4  # of a longer word only two, and a checksum


def drawable_text(text: str, max_characters: int = 200) -> str:
    """Return one line that can be written on a picture and tells the text from others.

    That is the text itself where a font of this machine has its letters, else `spell_out` of it.
    Blanks of all kinds become a space; what is no letter (a line feed) is spelled out.
    """
    line = _one_line(text)
    if not line.isascii() and find_font(line) is None:
        line = spell_out(line)
    return line if len(line) <= max_characters else line[: max_characters - 3] + "..."


def spell_out(text: str) -> str:
    """Return text in ASCII: accents dropped, other letters as code points such as `U+4F60+597D`.

    A word of many letters is its first two and a checksum of all, so that different words differ.
    """
    return _FOREIGN.sub(_code_points, "".join(map(_without_accent, text)))


def lacks_font(texts: Iterable[str]) -> str | None:
    """Return what to do where some text had to be spelled out in code points; None: none had to."""
    for text in texts:
        line = _one_line(text)
        if not "".join(map(_without_accent, line)).isascii() and find_font(line) is None:
            return (
                f"no font of this machine has the letters of {text!r}: pictures show such names "
                f"as code points ({drawable_text(text, 40)}); install a font that has them, for "
                f"instance Noto Sans CJK (Debian: apt install fonts-noto-cjk), or name a font file "
                f"by {FONT_SETTING}"
            )
    return None


def text_size(text: str, height: int) -> int:
    """Return the width in pixels of text whose capitals are `height` pixels high."""
    if not text.isascii():
        if font := find_font(text):
            return width_in(font, text, height)
        text = spell_out(text)
    (width, _), _ = cv2.getTextSize(text, _font(height), height / _UNITS, 1)
    return int(width)


def write_text(
    picture: Frame, text: str, at_xy: tuple[int, int], *, height: int, colour: Colour = BRIGHT
) -> None:
    """Write one line of text into the picture, its lower left corner at `at_xy`."""
    if not text.isascii():
        if font := find_font(text):
            coverage, (left, top) = coverage_in(font, text, height)
            _blend(picture, coverage, (at_xy[0] + left, at_xy[1] + top), colour)
            return
        text = spell_out(text)
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
        write_text(footer, remark, (remark_x, baseline), height=height, colour=DIM)
    for number, row in enumerate(rows, start=1):
        x = height
        for index in row:
            name, found, entry_width = entries[index]
            at_xy = (x, baseline + number * step)
            _write_entry(footer, name, found, at_xy=at_xy, height=height)
            x += entry_width
    return np.concatenate([picture, footer])


def _one_line(text: str) -> str:
    return "".join(map(_one_mark, unicodedata.normalize("NFC", text)))


def _one_mark(mark: str) -> str:
    category = unicodedata.category(mark)
    if category.startswith("Z"):
        return " "
    return _code_points(mark) if category.startswith("C") else mark


def _without_accent(mark: str) -> str:
    """Return the letter in ASCII where only accents or its width keep it from that, else itself."""
    decomposed = unicodedata.normalize("NFKD", mark.translate(_SPELLED_OUT))
    kept = "".join(each for each in decomposed if not unicodedata.combining(each))
    return kept if kept.isascii() else mark


def _code_points(word: str | re.Match[str]) -> str:
    letters = word if isinstance(word, str) else word[0]
    codes = [f"{ord(letter):04X}" for letter in letters]
    if len(codes) <= _SPELLED_LETTERS:
        return "U+" + "+".join(codes)
    checksum = zlib.crc32(letters.encode("utf-8", "surrogatepass")) & 0xFFFFFF
    return f"U+{codes[0]}+{codes[1]}~{checksum:06x}"


def _blend(
    picture: Frame, coverage: np.ndarray[Any, Any], at_xy: tuple[int, int], colour: Colour
) -> None:
    """Paint a colour into the picture where the patch at `at_xy` covers it, cut at the edges."""
    x, y = at_xy
    place = picture[
        max(0, y) : max(0, y + coverage.shape[0]), max(0, x) : max(0, x + coverage.shape[1])
    ]
    patch = coverage[max(0, -y) :, max(0, -x) :][: place.shape[0], : place.shape[1], None]
    share = patch.astype(np.float32) / 255
    place[:] = np.rint(place * (1 - share) + np.array(colour, np.float32) * share)


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
        cv2.line(footer, (x, y - height + 1), (x + height - 1, y), ALARM, 1, cv2.LINE_AA)
        cv2.line(footer, (x, y), (x + height - 1, y - height + 1), ALARM, 1, cv2.LINE_AA)
    colour = DIM if found else ALARM
    write_text(
        footer, _words(name, found), (x + round(1.6 * height), y), height=height, colour=colour
    )
