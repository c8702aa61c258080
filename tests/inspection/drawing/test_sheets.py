"""Contact sheets: every cell is there, captions say what is missing."""

from __future__ import annotations

import numpy as np
import pytest

from posemill.inspection.drawing import lettering, sheets
from posemill.inspection.drawing.sheets import Cell, contact_sheet, draw_cell
from posemill.skeletons.palette import ALARM, BRIGHT


def test_pictures_of_another_shape_are_shown_whole():
    wide = np.zeros((100, 400, 3), np.uint8)
    wide[:, 0], wide[:, -1] = (255, 0, 0), (0, 255, 0)
    cells = [Cell(np.full((240, 320, 3), 99, np.uint8), "a")] * 3 + [Cell(wide, "wide")]
    sheet = contact_sheet(cells, part_names=["pose"], title="")
    assert (sheet[..., 0].astype(int) - sheet[..., 1] > 120).any()
    assert (sheet[..., 1].astype(int) - sheet[..., 0] > 120).any()


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ((), ""),
        (("left_hand",), "no left hand"),
        (("left_hand", "right_hand"), "no hands"),
        (("face", "left_hand", "right_hand"), "no face, hands"),
    ],
)
def test_captions_say_what_is_missing(make_clip, missing, words, said):
    clip = make_clip(missing=missing)
    cell = draw_cell(None, clip, 0, caption="frame 0")
    assert cell.missing == missing
    said.clear()
    contact_sheet([cell], part_names=clip.skeleton.part_names, title="t")
    assert said[:2] == ["frame 0", words]


def test_a_sheet_of_nothing_is_refused():
    with pytest.raises(ValueError, match="cells: expected at least one, got none"):
        contact_sheet([], part_names=["pose"], title="")


def test_cells_lie_in_even_rows_with_gaps_and_captions_below():
    levels = [60, 90, 120, 150, 180]
    cells = [Cell(np.full((240, 320, 3), level, np.uint8), "") for level in levels]
    sheet = contact_sheet(cells, part_names=["pose"], title="")
    places = []
    for level in levels:
        rows, columns = np.nonzero((sheet == level).all(2))
        places.append((columns.min(), rows.min(), columns.max() + 1, rows.max() + 1))
    assert places == [
        (8, 8, 328, 248), (336, 8, 656, 248), (8, 280, 328, 520), (336, 280, 656, 520),
        (8, 552, 328, 792),
    ]  # fmt: skip
    assert sheet.shape[1] == 664


@pytest.mark.parametrize(
    ("count", "shape", "cell_width", "size_wh"),
    [
        (1, (240, 320), 320, (336, 340)),
        (4, (240, 320), 320, (664, 612)),
        (1, (10, 100), 200, (216, 180)),  # flat as they are, cells are not flatter than 0.4
        (1, (900, 100), 200, (216, 500)),  # nor higher than twice their width
    ],
)
def test_a_sheet_is_as_large_as_its_cells(count, shape, cell_width, size_wh):
    cells = [Cell(np.zeros((*shape, 3), np.uint8), "")] * count
    sheet = contact_sheet(cells, part_names=["pose"], title="", cell_width=cell_width)
    assert sheet.shape[1::-1] == size_wh


def test_captions_begin_left_and_what_is_missing_ends_right(monkeypatch):
    said: list[object] = []
    monkeypatch.setattr(sheets, "write_text", lambda strip, text, at, **how: said.append(
        (strip.shape, text, at, how["height"], how["colour"])))  # fmt: skip
    strip = np.zeros((40, 320, 3), np.uint8)
    sheets._write_caption(strip, Cell(strip, "frame 7", ("face",)))
    width = lettering.text_size("no face", 10)
    assert said == [
        ((40, 320, 3), "frame 7", (0, 16), 10, BRIGHT),
        ((40, 320, 3), "no face", (320 - width, 16), 10, ALARM),
    ]
    said.clear()
    sheets._write_caption(strip, Cell(strip, "a long name " * 9, ("face",)))
    caption, lack = (text for _, text, *_ in said)  # type: ignore[misc]
    assert lettering.text_size(caption, 10) <= 320 - width - 10
    assert lack == "no face"


def test_a_cell_is_drawn_large_with_thick_lines_and_no_legend(make_clip, monkeypatch):
    asked: list[object] = []

    def note(frame, clip, index, **how):
        asked.append((index, how))
        return np.zeros((3, 3, 3), np.uint8)

    monkeypatch.setattr(sheets, "draw", note)
    assert draw_cell(None, make_clip(), 4, caption="x").caption == "x"
    assert asked == [(4, {"legend": False, "min_long_side": 480, "line_scale": 1.4})]
