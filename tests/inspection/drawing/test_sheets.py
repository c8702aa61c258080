"""Contact sheets: every cell is there, captions say what is missing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from posemill.inspection.drawing import lettering
from posemill.inspection.drawing.sheets import Cell, contact_sheet, draw_cell
from posemill.records import PoseClip

Maker = Callable[..., PoseClip]


def test_every_picture_is_on_the_sheet() -> None:
    levels = [60, 90, 120, 150, 180, 210, 240]
    cells = [Cell(np.full((240, 320, 3), level, np.uint8), f"frame {level}") for level in levels]
    sheet = contact_sheet(cells, part_names=["pose"], title="seven")
    for level in levels:
        assert (sheet == level).all(2).sum() >= 320 * 240


def test_pictures_of_another_shape_are_shown_whole() -> None:
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
def test_captions_say_what_is_missing(
    make_clip: Maker, missing: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = make_clip(missing=missing)
    cell = draw_cell(None, clip, 0, caption="frame 0")
    assert cell.missing == missing
    said: list[str] = []
    write = lettering.cv2.putText
    monkeypatch.setattr(
        lettering.cv2, "putText", lambda *args: (said.append(args[1]), write(*args))[1]
    )
    contact_sheet([cell], part_names=clip.skeleton.part_names, title="t")
    assert said[:2] == ["frame 0", words]


def test_a_sheet_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="cells: expected at least one, got none"):
        contact_sheet([], part_names=["pose"], title="")
