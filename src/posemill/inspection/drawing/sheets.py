"""Contact sheets: many frames on one picture, each with its number and what it lacks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posemill.inspection.drawing.frame_picture import draw, missing_parts
from posemill.inspection.drawing.lettering import (
    add_legend,
    drawable_text,
    shorten,
    text_size,
    write_text,
)
from posemill.inspection.drawing.picture_files import paste
from posemill.records import Frame, PoseClip
from posemill.skeletons.palette import ALARM, BACKGROUND, BRIGHT, lack_words

SHEET_FRAMES = 12  # of a whole clip's contact sheet
_GAP = 8
_TEXT = 10  # height of the captions' capitals, in pixels
_CAPTION = 2 * _TEXT + 4


@dataclass(frozen=True)
class Cell:
    """One picture of a sheet: the drawn frame, its caption, and the names of missing parts."""

    picture: Frame
    caption: str
    missing: tuple[str, ...] = ()


def draw_cell(frame: Frame | None, clip: PoseClip, index: int, *, caption: str = "") -> Cell:
    """Return a frame of a clip, drawn, for a sheet; by default the caption is its number."""
    picture = draw(frame, clip, index, legend=False, min_long_side=480, line_scale=1.4)
    caption = caption or f"frame {clip.frame_indices[index]}"
    return Cell(picture, caption, missing_parts(clip, index))


def spread_rows(clip: PoseClip) -> list[int]:
    """Return the rows of a clip's contact sheet, from its first to its last."""
    count = min(SHEET_FRAMES, len(clip))
    return [int(row) for row in np.linspace(0, len(clip) - 1, count).round()]


def clip_sheet(clip: PoseClip, cells: Sequence[Cell]) -> Frame:
    """Return some drawn frames of one clip as a contact sheet."""
    title = f"{clip.clip_id}: {len(cells)} of {len(clip)} frames"
    return contact_sheet(cells, part_names=clip.skeleton.part_names, title=title)


def contact_sheet(
    cells: Sequence[Cell], *, part_names: Sequence[str], title: str, cell_width: int = 320
) -> Frame:
    """Return one picture of all cells, in rows, captions below them and a legend at the end.

    The height of the cells follows the most usual shape of their pictures.
    """
    if not cells:
        raise ValueError("cells: expected at least one, got none")
    ratio = float(np.median([cell.picture.shape[0] / cell.picture.shape[1] for cell in cells]))
    cell_height = round(cell_width * min(max(ratio, 0.4), 2.0))
    # About as wide as three halves of its height.
    columns = round(math.sqrt(len(cells) * 1.5 * (cell_height + _CAPTION) / cell_width))
    rows = math.ceil(len(cells) / max(1, columns))
    columns = math.ceil(len(cells) / rows)  # no row much shorter than the others
    across, down = cell_width + _GAP, cell_height + _CAPTION + _GAP
    sheet = np.full((rows * down + _GAP, columns * across + _GAP, 3), BACKGROUND, np.uint8)
    for number, cell in enumerate(cells):
        row, column = divmod(number, columns)
        x, y = _GAP + column * across, _GAP + row * down
        paste(sheet[y : y + cell_height, x : x + cell_width], cell.picture)
        _write_caption(sheet[y + cell_height :, x : x + cell_width], cell)
    return add_legend(sheet, [(name, True) for name in part_names], drawable_text(title), height=13)


def _write_caption(strip: Frame, cell: Cell) -> None:
    width = strip.shape[1]
    caption = drawable_text(cell.caption)
    missing = shorten(
        lack_words(cell.missing), max(width // 2, width - text_size(caption, _TEXT)), _TEXT
    )
    used = text_size(missing, _TEXT) + _TEXT if missing else 0
    caption = shorten(caption, width - used, _TEXT)
    write_text(strip, caption, (0, _TEXT + 6), height=_TEXT, colour=BRIGHT)
    write_text(strip, missing, (width - used + _TEXT, _TEXT + 6), height=_TEXT, colour=ALARM)
