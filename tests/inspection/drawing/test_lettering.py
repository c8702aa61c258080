"""Text on pictures: in its own letters where a font has them, else spelled so that it differs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posemill.errors import ConfigError
from posemill.inspection.drawing import lettering
from posemill.inspection.drawing.lettering import (
    add_legend,
    drawable_text,
    find_font,
    lacks_font,
    shorten,
    system_fonts,
    text_size,
    write_text,
)
from posemill.skeletons.palette import BACKGROUND, COLOURS


def written(text, *, at_xy=(5, 20)):
    picture = np.full((30, 200, 3), BACKGROUND, np.uint8)
    write_text(picture, text, at_xy, height=12, colour=(250, 0, 0))
    return picture


@pytest.mark.usefixtures("no_fonts")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain_01 {x}", "plain_01 {x}"),
        ("Grüne, Zürich…", "Grune, Zurich..."),
        ("你好_01", r"\u4f60\u597d_01"),
        ("ＡＢ　１", "AB 1"),
        ("a\nb", r"a\nb"),
        ("\udcff", r"\udcff"),
    ],
)
def test_letters_no_font_has_become_escapes_and_accents_are_dropped(text, line):
    assert drawable_text(text) == line


def test_text_stays_as_it_is_where_a_font_has_all_its_letters(small_font):
    assert drawable_text("你好  frame 3") == "你好  frame 3"
    assert find_font("你好  frame 3") == (str(small_font), 0)
    assert drawable_text("再见") == r"\u518d\u89c1"
    assert drawable_text("你\u3000好\n") == r"你 好\n"
    short = shorten("你好" * 30, 150, 10)
    assert short.startswith("你")
    assert ".." in short
    assert text_size(short, 10) <= 150


def test_capitals_have_the_height_asked_for_and_letters_the_width_that_was_said(small_font):
    painted = written("H你好") != BACKGROUND
    assert np.flatnonzero(painted.any((1, 2))).tolist() == list(range(8, 20))
    right = int(np.flatnonzero(painted.any((0, 2)))[-1]) + 1
    assert 0 <= 5 + text_size("H你好", 12) - right <= 3
    # An em is 20 pixels at 14 pixels a capital; the two letters advance by 1.1 and 0.9 of it.
    assert text_size("你好", 14) == 40
    ascii_rows = np.flatnonzero((written("HELLO") != BACKGROUND).any((1, 2)))
    assert (ascii_rows[0], ascii_rows[-1]) == (pytest.approx(8, abs=1), 19)


@pytest.mark.parametrize("at_xy", [(-10, 20), (195, 20), (5, 4), (5, 38), (-500, 20), (500, 500)])
def test_letters_beyond_the_edge_are_cut(at_xy):
    whole = written("Hello", at_xy=(5, 20))
    cut = written("Hello", at_xy=at_xy)
    assert 0 <= (cut != BACKGROUND).sum() < (whole != BACKGROUND).sum()


def test_what_to_do_is_said_where_letters_are_lacking(small_font):
    assert lacks_font(["plain", "你好", "Grüne", "back\\slash"]) is None
    advice = lacks_font(["plain", "再见_01"])
    assert advice is not None
    assert "'再见_01'" in advice
    assert "POSEMILL_FONT" in advice


@given(st.text())
@settings(max_examples=10)
def test_any_name_becomes_one_line_that_can_be_written(text):
    line = drawable_text(text)
    assert line.isascii() or line.isprintable()
    assert len(line) <= 200
    written(line)


@pytest.mark.usefixtures("no_fonts")
def test_a_named_font_that_cannot_be_read_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "page.ttf").write_text("<html>")
    for name in ("page.ttf", "absent.ttf"):
        monkeypatch.setenv("POSEMILL_FONT", str(tmp_path / name))
        with pytest.raises(ConfigError, match=name):
            find_font("你")


def test_damaged_fonts_of_the_machine_are_passed_over(small_font, tmp_path, monkeypatch):
    (tmp_path / "damaged.ttf").write_bytes(small_font.read_bytes()[:100])
    both = ((str(tmp_path / "damaged.ttf"), 0), (str(small_font), 0))
    monkeypatch.delenv("POSEMILL_FONT")
    monkeypatch.setattr(lettering, "system_fonts", lambda: both)
    assert find_font("好") == both[1]


@pytest.mark.parametrize("script", ["exit 1", "true", None])
def test_fontconfig_is_asked_and_without_an_answer_the_usual_places_are_looked_at(
    tmp_path, monkeypatch, script
):
    program, there = tmp_path / "fc-match", tmp_path / "there.ttc"
    program.write_text("#!/bin/sh\nprintf '/f/one two.ttc\\t2\\n/f/last.ttf\\t0\\nodd line\\n'\n")
    program.chmod(0o755)
    there.write_text("")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(lettering, "_USUAL_PLACES", (str(tmp_path / "absent.ttc"), str(there)))
    assert system_fonts() == (("/f/one two.ttc", 2), ("/f/last.ttf", 0))
    if script is None:
        program.unlink()
    else:
        program.write_text(f"#!/bin/sh\n{script}\n")
    assert system_fonts() == ((str(there), 0),)


def test_a_legend_is_laid_out_in_rows_that_fit_and_has_all_parts_once():
    parts = [("pose", True), ("face", False), ("left hand", True), ("right hand", False)]
    heights = []
    for width in (260, 400, 900):
        picture = np.full((10, width, 3), 7, np.uint8)
        whole = add_legend(picture, parts, "clip 1", height=10)
        assert (whole[:10] == 7).all()
        footer = whole[10:]
        is_written = (footer != footer[-1, -1]).any(axis=(0, 2))
        # A margin on both sides, where there is room for the widest entry.
        assert not is_written[:9].any()
        assert not is_written[width - 9 :].any()
        heights.append(len(footer))
    assert heights == sorted(heights, reverse=True)
    assert (heights[0] - heights[-1]) % 21 == 0  # whole rows
    assert heights[0] > heights[-1]
    swatch = (add_legend(picture, [("face", True)], "", height=10) == COLOURS["face"]).all(2)
    assert (swatch.any(0).sum(), swatch.any(1).sum()) == (10, 10)


def test_a_remark_stands_at_the_right_where_there_is_room():
    def right_end(remark, width):
        legend = add_legend(
            np.zeros((4, width, 3), np.uint8), [], "clip", remark=remark, height=10
        )[4:]
        return bool((legend[:, width - 40 :] != legend[-1, -1]).any())

    assert right_end("frame 3", 300)
    assert not right_end("", 300)
    assert not right_end("frame 3 of a very long clip", 200)
