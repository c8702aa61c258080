"""Text on pictures, written by Pillow, and the legend below them.

Pillow brings a font for ASCII. For other letters a font of the machine is taken: fontconfig is
asked, and where that is not installed, the usual places are looked at.
"""

from __future__ import annotations

import math
import os
import shutil
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from posemill.errors import ConfigError
from posemill.machine.trials import run_child
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

FONT_SETTING = "POSEMILL_FONT"
_USUAL_PLACES = (
    "/System/Library/Fonts/PingFang.ttc",
    "/System/Library/Fonts/Hiragino Sans GB.ttc",
    "/System/Library/Fonts/Supplemental/Arial Unicode.ttf",
    "C:/Windows/Fonts/msyh.ttc",
    "C:/Windows/Fonts/malgun.ttf",
    "C:/Windows/Fonts/arial.ttf",
    "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc",
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
)
_PILLOWS_OWN = ("", 0)
_NOBODY_HAS = "\U0010ffff"  # not a character: every font shows its box for a missing one
_FONTCONFIG_SECONDS = 30  # it may have to build its cache first
_Font = tuple[str, int]  # a file, and which of the fonts in it


def drawable_text(text: str, max_characters: int = 200) -> str:
    """Return one line that can be written on a picture and tells the text from others.

    That is the text itself where a font of this machine has its letters. Else accents are dropped,
    and other letters become escapes such as `\\u4f60`. Blanks of all kinds become a space.
    """
    line = "".join(map(_one_mark, unicodedata.normalize("NFC", text)))
    if find_font(line) is None:
        line = "".join(map(_in_ascii, line))
    return line if len(line) <= max_characters else line[: max_characters - 3] + "..."


def lacks_font(texts: Iterable[str]) -> str | None:
    """Return what to do where some text had to be escaped; None: none had to."""
    for text in texts:
        if "\\" in (shown := drawable_text(text, 40)) and "\\" not in text:
            return (
                f"no font of this machine has the letters of {text!r}: pictures show such names "
                f"as {shown}; install a font that has them, for instance Noto Sans CJK (Debian: "
                f"apt install fonts-noto-cjk), or name a font file by {FONT_SETTING}"
            )
    return None


def text_size(text: str, height: int) -> int:
    """Return the width in pixels of text whose capitals are `height` pixels high."""
    return math.ceil(_font_for(text, height).getlength(text))


def write_text(
    picture: Frame, text: str, at_xy: tuple[int, int], *, height: int, colour: Colour = BRIGHT
) -> None:
    """Write one line of text into the picture, its lower left corner at `at_xy`, cut at the edges.

    `text` is as `drawable_text` returns it, `height` that of the capitals in pixels.
    """
    coverage, left, top = _coverage(text, height)
    x, y = at_xy[0] + left, at_xy[1] + top
    rows = slice(max(0, y), max(0, y + coverage.shape[0]))
    place = picture[rows, max(0, x) : max(0, x + coverage.shape[1])]
    patch = coverage[max(0, -y) :, max(0, -x) :][: place.shape[0], : place.shape[1], None]
    place[:] = np.rint(place * (1 - patch) + np.array(colour, np.float32) * patch)


@lru_cache(maxsize=256)  # the words of a legend are the same in every frame of a movie
def _coverage(text: str, height: int) -> tuple[np.ndarray[Any, Any], int, int]:
    """Return which share of each pixel the letters cover, and x, y of that patch's corner."""
    font = _font_for(text, height)
    box = font.getbbox(text, anchor="ls")
    left, top = math.floor(box[0]), math.floor(box[1])
    size_wh = max(1, math.ceil(box[2]) - left), max(1, math.ceil(box[3]) - top)
    patch = Image.new("L", size_wh)
    ImageDraw.Draw(patch).text((-left, -top), text, fill=255, font=font, anchor="ls")
    return np.asarray(patch, np.float32) / 255, left, top


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

    `parts` are their names and whether they were found. The remark stands at the right end of the
    title's line, where there is room. `height` is that of the capitals, in pixels.
    """
    width = picture.shape[1]
    if height is None:
        height = max(9, round(width / 64)) if width < 900 else min(18, round(width / 80))
    widths = [_entry_width(name, height) for name, _ in parts]
    rows = _wrap(widths, width - 2 * height)
    step = round(2.1 * height)
    footer = np.full((step * (len(rows) + 1) + height // 2, width, 3), BACKGROUND, np.uint8)
    y = round(1.7 * height)
    short_title = shorten(title, width - 2 * height, height)
    write_text(footer, short_title, (height, y), height=height)
    remark_x = width - height - text_size(remark, height)
    if remark_x > 2 * height + text_size(title, height):
        write_text(footer, remark, (remark_x, y), height=height, colour=DIM)
    for row in rows:
        x, y = height, y + step
        for index in row:
            _write_entry(footer, *parts[index], at_xy=(x, y), height=height)
            x += widths[index]
    return np.concatenate([picture, footer])


def _one_mark(mark: str) -> str:
    category = unicodedata.category(mark)
    if category.startswith("Z"):
        return " "
    return _escaped(mark) if category.startswith("C") else mark


def _in_ascii(mark: str) -> str:
    """Return a letter without its accents where that is ASCII, else an escape."""
    plain = unicodedata.normalize("NFKD", mark)
    plain = "".join(each for each in plain if not unicodedata.combining(each))
    return plain if plain.isascii() else _escaped(mark)


def _escaped(mark: str) -> str:
    return mark.encode("unicode_escape").decode("ascii")


def find_font(text: str) -> _Font | None:
    """Return a font that has all letters of the text; None where there is none.

    Raises:
        ConfigError: `POSEMILL_FONT` names something else than a font.
    """
    if text.isascii():
        return _PILLOWS_OWN
    fonts = _fonts(os.environ.get(FONT_SETTING, ""))
    return next((font for font in fonts if all(_has(font, mark) for mark in set(text))), None)


@lru_cache(maxsize=8)
def _fonts(chosen: str) -> tuple[_Font, ...]:
    """Return the fonts in the order to ask them: the one that is named, then Chinese ones first."""
    if not chosen:
        return system_fonts()
    if _open((chosen, 0), 24) is None:
        template = (
            "{font_setting}={chosen}: no font that can be read; name a .ttf, .otf or .ttc file, "
            "or unset it"
        )
        raise ConfigError(template, font_setting=FONT_SETTING, chosen=chosen)
    return ((chosen, 0), *system_fonts())


def system_fonts() -> tuple[_Font, ...]:
    """Return the fonts of this machine as fontconfig sorts them, or those in the usual places."""
    usual = tuple((path, 0) for path in _USUAL_PLACES if Path(path).is_file())
    program = shutil.which("fc-match")
    if program is None:
        return usual
    # --sort leaves out a font whose letters are all in the ones before it.
    command = [program, "--sort", "--format", "%{file}\\t%{index}\\n", "sans-serif:lang=zh-cn"]
    outcome, output = run_child(command, timeout_seconds=_FONTCONFIG_SECONDS)
    rows = [line.rpartition("\t") for line in output.splitlines() if outcome.works]
    return tuple((path, int(index)) for path, _, index in rows if index.isdecimal()) or usual


@lru_cache(maxsize=64)
def _open(font: _Font, size: int) -> ImageFont.FreeTypeFont | None:
    """Return the font, `size` pixels an em; None where it is damaged or has one fixed size."""
    try:
        if font == _PILLOWS_OWN:
            return ImageFont.load_default(size)  # type: ignore[return-value]
        return ImageFont.truetype(font[0], size, index=font[1])
    except (OSError, ValueError):
        return None


def _font_for(text: str, height: int) -> ImageFont.FreeTypeFont:
    """Return a font for a text, its capitals `height` pixels high."""
    return _sized(find_font(text) or _PILLOWS_OWN, height)


@lru_cache(maxsize=64)
def _sized(font: _Font, height: int) -> ImageFont.FreeTypeFont:
    large = _open(font, 100)
    capital = -large.getbbox("H", anchor="ls")[1] / 100 if large is not None else 0.0
    sized = _open(font, max(1, round(height / (capital if 0.4 < capital < 1.2 else 0.72))))
    if sized is None:
        raise ConfigError("the font {path} cannot be read any more; was it removed?", path=font[0])
    return sized


@lru_cache(maxsize=1 << 16)
def _has(font: _Font, mark: str) -> bool:
    opened = _open(font, 24)
    if opened is None:
        return False
    return mark == " " or _shape(opened, mark) != _shape(opened, _NOBODY_HAS)


def _shape(font: ImageFont.FreeTypeFont, mark: str) -> bytes:
    """Return the pixels of one letter, and its size."""
    mask = font.getmask(mark)
    return repr(mask.size).encode() + bytes(mask)


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
    top, end = y - height + 1, x + height - 1
    if found:
        for number, colour in enumerate(colours):
            left = x + number * height // len(colours)
            right = x + (number + 1) * height // len(colours) - 1
            cv2.rectangle(footer, (left, top), (right, y), colour, -1)
    else:
        cv2.line(footer, (x, top), (end, y), ALARM, 1, cv2.LINE_AA)
        cv2.line(footer, (x, y), (end, top), ALARM, 1, cv2.LINE_AA)
    at_xy, colour = (x + round(1.6 * height), y), DIM if found else ALARM
    write_text(footer, _words(name, found), at_xy, height=height, colour=colour)
