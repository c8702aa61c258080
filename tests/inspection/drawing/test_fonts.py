"""Fonts of the machine: found, asked for letters, and measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from posemill.errors import ConfigError
from posemill.inspection.drawing import fonts
from posemill.inspection.drawing.fonts import FontFile, coverage_in, find_font, width_in


def test_a_font_is_taken_only_for_text_whose_letters_it_has_all(small_font: Path) -> None:
    assert find_font("你好  frame 3") == FontFile(str(small_font))
    assert find_font("你们") is None
    assert find_font("再") is None


@pytest.mark.usefixtures("no_fonts")
def test_a_machine_without_fonts_has_none_for_any_letter() -> None:
    assert find_font("你") is None


def test_capitals_have_the_height_asked_for_and_stand_on_the_line(small_font: Path) -> None:
    coverage, (left, top) = coverage_in(FontFile(str(small_font)), "H你", 14)
    assert (coverage.shape[0], top) == (14, -14)
    assert coverage.dtype == np.uint8
    assert coverage.max() == 255
    assert left >= 0


def test_the_width_is_that_of_the_letters(small_font: Path) -> None:
    font = FontFile(str(small_font))
    # An em is 20 pixels at 14 pixels a capital; the two letters advance by 1.1 and 0.9 of it.
    assert width_in(font, "你", 14) == 22
    assert width_in(font, "你好", 14) == 40


def test_a_named_font_that_cannot_be_read_is_an_error(
    no_fonts: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page.ttf").write_text("<html>")
    for name in ("page.ttf", "absent.ttf"):
        monkeypatch.setenv("POSEMILL_FONT", str(tmp_path / name))
        with pytest.raises(ConfigError, match=rf"POSEMILL_FONT=.*{name}: no font that can be read"):
            find_font("你")


def test_damaged_fonts_of_the_machine_are_passed_over(
    small_font: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "damaged.ttf").write_bytes(small_font.read_bytes()[:100])
    both = (FontFile(str(tmp_path / "damaged.ttf")), FontFile(str(small_font)))
    monkeypatch.delenv("POSEMILL_FONT")
    monkeypatch.setattr(fonts, "system_fonts", lambda: both)
    fonts._fonts.cache_clear()
    assert find_font("好") == both[1]


def write_fc_match(folder: Path, lines: str) -> None:
    (folder / "fc-match").write_text(f"#!/bin/sh\n{lines}\n")
    (folder / "fc-match").chmod(0o755)


def test_fontconfig_is_asked_for_files_and_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_fc_match(tmp_path, "printf '/f/one two.ttc\\t2\\n/f/last.ttf\\t0\\nodd line\\n'")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fonts.system_fonts() == (FontFile("/f/one two.ttc", 2), FontFile("/f/last.ttf", 0))


@pytest.mark.parametrize("lines", ["exit 1", "true"])
def test_without_an_answer_of_fontconfig_the_usual_places_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str
) -> None:
    write_fc_match(tmp_path, lines)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "there.ttc").write_text("")
    there = FontFile(str(tmp_path / "there.ttc"), 2)
    monkeypatch.setattr(fonts, "_USUAL_PLACES", (FontFile(str(tmp_path / "absent.ttc")), there))
    assert fonts.system_fonts() == (there,)
    (tmp_path / "fc-match").unlink()
    assert fonts.system_fonts() == (there,)
