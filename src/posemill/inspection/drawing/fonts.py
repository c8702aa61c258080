"""Fonts of this machine for letters that OpenCV's own font lacks: who has them, and their pixels.

OpenCV knows ASCII only. Other letters are drawn by Pillow with a font found on the system; which
one is asked of fontconfig, and where that is not installed, the usual places are looked at.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posemill.errors import ConfigError

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

FONT_SETTING = "POSEMILL_FONT"
_NOBODY_HAS = "\U0010ffff"  # not a character: every font shows its box for a missing one
_PROBE_SIZE = 24
_USUAL_CAPITAL = 0.72  # height of a capital, in em
_PATIENCE_SECONDS = 30  # fontconfig may have to build its cache first


class FontFile(NamedTuple):
    """One font: a file, and which of the fonts in it."""

    path: str
    number: int = 0


# fmt: off
_USUAL_PLACES = (
    # In a collection of Noto CJK number 2 is simplified Chinese.
    FontFile("/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc", 2),
    FontFile("/usr/share/fonts/noto-cjk/NotoSansCJK-Regular.ttc", 2),
    FontFile("/usr/share/fonts/google-noto-cjk/NotoSansCJK-Regular.ttc", 2),
    FontFile("/usr/share/fonts/google-noto-sans-cjk-fonts/NotoSansCJK-Regular.ttc", 2),
    FontFile("/usr/share/fonts/google-noto-sans-cjk-vf-fonts/NotoSansCJK-VF.ttc", 2),
    FontFile("/usr/share/fonts/truetype/wqy/wqy-microhei.ttc"),
    FontFile("/usr/share/fonts/truetype/wqy/wqy-zenhei.ttc"),
    FontFile("/usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf"),
    FontFile("/usr/share/fonts/truetype/arphic/uming.ttc"),
    FontFile("/System/Library/Fonts/PingFang.ttc"),
    FontFile("/System/Library/Fonts/Hiragino Sans GB.ttc"),
    FontFile("/System/Library/Fonts/STHeiti Light.ttc"),
    FontFile("/System/Library/Fonts/AppleSDGothicNeo.ttc"),
    FontFile("/System/Library/Fonts/Supplemental/Arial Unicode.ttf"),
    FontFile("C:/Windows/Fonts/msyh.ttc"),
    FontFile("C:/Windows/Fonts/simhei.ttf"),
    FontFile("C:/Windows/Fonts/simsun.ttc"),
    FontFile("C:/Windows/Fonts/YuGothR.ttc"),
    FontFile("C:/Windows/Fonts/malgun.ttf"),
    FontFile("C:/Windows/Fonts/arial.ttf"),
    FontFile("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"),
)
# fmt: on


def find_font(text: str) -> FontFile | None:
    """Return a font of this machine that has all letters of the text; None where there is none.

    `POSEMILL_FONT` names a font file that is asked first.

    Raises:
        ConfigError: `POSEMILL_FONT` names something else.
    """
    letters = set(text)
    for font in _fonts(os.environ.get(FONT_SETTING)):
        if all(_has(font, letter) for letter in letters):
            return font
    return None


def width_in(font: FontFile, text: str, height: int) -> int:
    """Return the width in pixels of text whose capitals are `height` pixels high."""
    return math.ceil(_sized(font, height).getlength(text))


def coverage_in(
    font: FontFile, text: str, height: int
) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], tuple[int, int]]:
    """Return how much of each pixel the letters cover, and where that patch lies.

    Args:
        font: Has the letters.
        text: One line.
        height: Of the capitals in pixels.

    Returns:
        `(rows, columns)` uint8, 0 to 255; and x, y of its upper left corner, seen from the left
        end of the line the letters stand on.
    """
    from PIL import Image, ImageDraw

    sized = _sized(font, height)
    box = sized.getbbox(text, anchor="ls")
    left, top = math.floor(box[0]), math.floor(box[1])
    right, bottom = math.ceil(box[2]), math.ceil(box[3])
    patch = Image.new("L", (max(1, right - left), max(1, bottom - top)))
    ImageDraw.Draw(patch).text((-left, -top), text, fill=255, font=sized, anchor="ls")
    return np.asarray(patch), (left, top)


@lru_cache(maxsize=8)
def _fonts(chosen: str | None) -> tuple[FontFile, ...]:
    found = system_fonts()
    if not chosen:
        return found
    font = FontFile(chosen)
    if _open(font, _PROBE_SIZE) is None:
        raise ConfigError(
            "{font_setting}={chosen}: no font that can be read; name a .ttf, .otf or .ttc file, "
            "or unset it",
            font_setting=FONT_SETTING,
            chosen=chosen,
        )
    return (font, *found)


def system_fonts() -> tuple[FontFile, ...]:
    """Return the fonts of this machine in the order to ask them, Chinese ones first."""
    asked = _ask_fontconfig()
    return asked or tuple(font for font in _USUAL_PLACES if Path(font.path).is_file())


def _ask_fontconfig() -> tuple[FontFile, ...]:
    program = shutil.which("fc-match")
    if program is None:
        return ()
    # --sort leaves out a font whose letters are all in the ones before it.
    wanted = ["--sort", "--format", "%{file}\\t%{index}\\n", "sans-serif:lang=zh-cn"]
    try:
        said = subprocess.run(
            [program, *wanted],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=_PATIENCE_SECONDS,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    rows = [line.rpartition("\t") for line in os.fsdecode(said).splitlines()]
    return tuple(FontFile(path, int(index)) for path, _, index in rows if index.isdecimal())


@lru_cache(maxsize=64)
def _open(font: FontFile, size: int) -> FreeTypeFont | None:
    """Return the font, `size` pixels an em; None where it is damaged or has one fixed size."""
    from PIL import ImageFont

    try:
        return ImageFont.truetype(font.path, size, index=font.number)
    except (OSError, ValueError):
        return None


def _sized(font: FontFile, height: int) -> FreeTypeFont:
    sized = _open(font, max(1, round(height / _capital_in_em(font))))
    if sized is None:
        raise ConfigError(
            "the font {path} cannot be read any more; was it removed?", path=font.path
        )
    return sized


@lru_cache(maxsize=64)
def _capital_in_em(font: FontFile) -> float:
    large = _open(font, 100)
    capital = -large.getbbox("H", anchor="ls")[1] / 100 if large is not None else 0.0
    return capital if 0.4 < capital < 1.2 else _USUAL_CAPITAL


@lru_cache(maxsize=1 << 16)
def _has(font: FontFile, letter: str) -> bool:
    opened = _open(font, _PROBE_SIZE)
    return opened is not None and _shape(opened, letter) != _missing_shape(font)


@lru_cache(maxsize=64)
def _missing_shape(font: FontFile) -> bytes | None:
    opened = _open(font, _PROBE_SIZE)
    return _shape(opened, _NOBODY_HAS) if opened is not None else None


def _shape(font: FreeTypeFont, letter: str) -> bytes | None:
    """Return the pixels of one letter, and its size; None for a blank, which any font has."""
    if letter == " ":
        return None
    mask = font.getmask(letter)
    return repr(mask.size).encode() + bytes(mask)
