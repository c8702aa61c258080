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

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from posemill.errors import ConfigError
from posemill.machine.trials import run_child
from posemill.records import Frame
from posemill.skeletons import palette
from posemill.skeletons.palette import BRIGHT, Colour

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
    canvas = Image.fromarray(picture)
    ImageDraw.Draw(canvas).text(at_xy, text, fill=colour, font=_font_for(text, height), anchor="ls")
    picture[:] = np.asarray(canvas)


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
    step = round(2.1 * height)
    title_y = round(1.7 * height)
    x, y = height, title_y + step
    places: list[tuple[int, int]] = []
    for name, _ in parts:
        # Of the longer text: in a movie the entries must not move when a part comes and goes.
        entry_width = round(2.6 * height) + text_size(_words(name, False), height)
        if x > height and x + entry_width > width - height:
            x, y = height, y + step
        places.append((x, y))
        x += entry_width
    footer = np.full((y + step - title_y + height // 2, width, 3), palette.BACKGROUND, np.uint8)
    write_text(footer, shorten(title, width - 2 * height, height), (height, title_y), height=height)
    remark_x = width - height - text_size(remark, height)
    if remark_x > 2 * height + text_size(title, height):
        write_text(footer, remark, (remark_x, title_y), height=height, colour=palette.DIM)
    for (name, is_found), at_xy in zip(parts, places, strict=True):
        _write_entry(footer, name, is_found, at_xy=at_xy, height=height)
    return np.concatenate([picture, footer])


def _one_mark(mark: str) -> str:
    if mark.isprintable():
        return mark
    is_blank = unicodedata.category(mark).startswith("Z")
    return " " if is_blank else mark.encode("unicode_escape").decode()


def _in_ascii(mark: str) -> str:
    """Return a letter without its accents where that is ASCII, else an escape."""
    decomposed = unicodedata.normalize("NFKD", mark)
    plain = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    return plain if plain.isascii() else mark.encode("unicode_escape").decode()


def find_font(text: str) -> _Font | None:
    """Return a font that has all letters of the text; None where there is none."""
    if text.isascii():
        return _PILLOWS_OWN
    fonts = _fonts(os.environ.get(FONT_SETTING, ""))
    return next((font for font in fonts if all(_has(font, mark) for mark in set(text))), None)


@lru_cache(maxsize=8)
def _fonts(chosen: str) -> tuple[_Font, ...]:
    """Return the fonts in the order to ask them: the one that is named, then Chinese ones first."""
    if not chosen:
        return system_fonts()
    try:
        _open((chosen, 0), 24)
    except (OSError, ValueError) as error:
        template = (
            "{font_setting}={chosen}: no font that can be read; name a .ttf, .otf or .ttc file, "
            "or unset it"
        )
        raise ConfigError(template, font_setting=FONT_SETTING, chosen=chosen) from error
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
def _open(font: _Font, size: int) -> ImageFont.FreeTypeFont:
    """Return the font, `size` pixels an em; an OSError or ValueError where it is damaged."""
    if font == _PILLOWS_OWN:
        return ImageFont.load_default(size)  # type: ignore[return-value]
    return ImageFont.truetype(font[0], size, index=font[1])


def _font_for(text: str, height: int) -> ImageFont.FreeTypeFont:
    """Return a font for a text, its capitals `height` pixels high."""
    font = find_font(text) or _PILLOWS_OWN
    capital = -_open(font, 100).getbbox("H", anchor="ls")[1]
    return _open(font, max(1, round(100 * height / (capital if 40 < capital < 120 else 72))))


@lru_cache(maxsize=1 << 16)
def _has(font: _Font, mark: str) -> bool:
    try:
        opened = _open(font, 24)
    except (OSError, ValueError):
        return False
    masks = [opened.getmask(letter) for letter in (mark, _NOBODY_HAS)]
    shapes = [(mask.size, bytes(mask)) for mask in masks]
    return mark == " " or shapes[0] != shapes[1]


def _words(name: str, is_found: bool) -> str:
    return palette.part_label(name) if is_found else f"{palette.part_label(name)} missing"


def _write_entry(
    footer: Frame, name: str, is_found: bool, *, at_xy: tuple[int, int], height: int
) -> None:
    x, y = at_xy
    top, end = y - height + 1, x + height - 1
    if is_found:
        colours = palette.part_colours(name)
        for number, colour in enumerate(colours):
            left = x + number * height // len(colours)
            footer[top : y + 1, left : end + 1] = colour  # the next lies over it
    else:
        cv2.line(footer, (x, top), (end, y), palette.ALARM, 1, cv2.LINE_AA)
        cv2.line(footer, (x, y), (end, top), palette.ALARM, 1, cv2.LINE_AA)
    at_xy, colour = (x + round(1.6 * height), y), palette.DIM if is_found else palette.ALARM
    write_text(footer, _words(name, is_found), at_xy, height=height, colour=colour)
