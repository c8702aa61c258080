"""Text on pictures: in its own letters where a font has them, else spelled so that it differs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posemill.inspection.drawing.lettering import (
    BACKGROUND,
    drawable_text,
    lacks_font,
    shorten,
    spell_out,
    text_size,
    write_text,
)


def written(text: str, *, at_xy: tuple[int, int] = (5, 20)) -> np.ndarray:
    picture = np.full((30, 200, 3), BACKGROUND, np.uint8)
    write_text(picture, text, at_xy, height=12, colour=(250, 0, 0))
    return picture


@pytest.mark.parametrize(
    "names", [("你好", "再见"), ("手语数据集一", "手语数据集二"), ("\udcff", "\udcfe")]
)
@pytest.mark.usefixtures("no_fonts")
def test_names_are_told_apart_without_a_font(names: tuple[str, str]) -> None:
    one, other = map(drawable_text, names)
    assert one != other
    assert "?" not in one + other
    assert (written(one) != written(other)).any()


@pytest.mark.usefixtures("no_fonts")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain_01 {x}", "plain_01 {x}"),
        ("Grüße, Łódź…", "Grusse, Lodz..."),
        ("你好_01", "U+4F60+597D_01"),
        ("ＡＢ　１", "AB 1"),
        ("a\nb", "aU+000Ab"),
        ("한국어", "U+D55C+AD6D+C5B4"),
    ],
)
def test_letters_no_font_has_become_code_points_and_accents_are_dropped(
    text: str, line: str
) -> None:
    assert drawable_text(text) == line


def test_long_words_are_two_letters_and_a_checksum() -> None:
    words = [spell_out(f"手语数据集{last}") for last in "一二三"]
    assert len(set(words)) == 3
    assert all(word.startswith("U+624B+8BED~") and len(word) == 18 for word in words)


def test_text_stays_as_it_is_where_a_font_has_it(small_font: Path) -> None:
    assert drawable_text("你好  frame 3") == "你好  frame 3"
    assert drawable_text("再见") == "U+518D+89C1"
    assert drawable_text("你\u3000好\n") == "你 好U+000A"


def test_letters_of_a_font_are_painted_as_wide_as_was_said(small_font: Path) -> None:
    painted = (written("你好") != BACKGROUND).any((0, 2))
    right = int(np.flatnonzero(painted)[-1]) + 1
    assert 0 <= 5 + text_size("你好", 12) - right <= 3
    assert (written("你好")[14, 12] == (250, 0, 0)).all()  # inside of the first box


@pytest.mark.parametrize("at_xy", [(-10, 20), (195, 20), (5, 4), (5, 38), (-500, 20), (500, 500)])
def test_letters_beyond_the_edge_are_cut(small_font: Path, at_xy: tuple[int, int]) -> None:
    whole = written("你好", at_xy=(5, 20))
    cut = written("你好", at_xy=at_xy)
    assert 0 <= (cut != BACKGROUND).sum() < (whole != BACKGROUND).sum()


def test_names_in_a_font_are_shortened_to_their_place(small_font: Path) -> None:
    short = shorten("你好" * 30, 150, 10)
    assert short.startswith("你")
    assert ".." in short
    assert text_size(short, 10) <= 150


@pytest.mark.usefixtures("no_fonts")
def test_letters_that_were_not_cleaned_are_never_question_marks() -> None:
    np.testing.assert_array_equal(written("你好"), written("U+4F60+597D"))
    assert text_size("你好", 12) == text_size("U+4F60+597D", 12)


def test_what_to_do_is_said_where_letters_are_lacking(small_font: Path) -> None:
    assert lacks_font(["plain", "你好", "Grüße"]) is None
    advice = lacks_font(["plain", "再见_01"])
    assert advice is not None
    assert "no font of this machine has the letters of '再见_01'" in advice
    assert "(U+518D+89C1_01); install a font" in advice
    assert "apt install fonts-noto-cjk" in advice
    assert "name a font file by POSEMILL_FONT" in advice


@given(st.text())
@settings(max_examples=25)
def test_any_name_becomes_one_line_that_can_be_written(text: str) -> None:
    line = drawable_text(text)
    assert line.isascii() or line.isprintable()
    assert len(line) <= 200
    written(line)
