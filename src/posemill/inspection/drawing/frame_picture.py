"""Frames as pictures: the original, keypoints on it, a legend below; and many on one sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posemill.inspection.drawing.lettering import (
    add_legend,
    drawable_text,
    shorten,
    text_size,
    write_text,
)
from posemill.inspection.drawing.picture_files import paste, scaled
from posemill.inspection.drawing.placing import model_bounds, place_points
from posemill.inspection.drawing.strokes import paint_keypoints
from posemill.records import Frame, PoseClip
from posemill.skeletons.palette import ALARM, BACKGROUND, BRIGHT, DIM, lack_words, person_colour

_GONE = "original picture not available"
_SCALED = "keypoints scaled for a model: not on a picture"
_LEAST_SCORE = 0.5  # points below it are drawn fainter
SHEET_FRAMES = 12  # of a whole clip's contact sheet
_CELL_WIDTH, _GAP = 320, 8
_TEXT = 10  # height of the captions' capitals, in pixels
_CAPTION = 2 * _TEXT + 4


def draw(
    frame: Frame | None,
    clip: PoseClip,
    index: int,
    *,
    legend: bool = True,
    min_long_side: int = 720,
    line_scale: float = 1.0,
) -> Frame:
    """Return a picture of one frame's keypoints: bones coloured by part and side, a legend below.

    Points are normalised, so the frame may have another size than the estimator saw. Missing parts
    are named in the legend. A clip that was centred and scaled for a model is drawn on a blank
    canvas: it has no place in the picture.

    Args:
        frame: `(height, width, 3)` RGB, not modified; None where the original is gone: then a
            blank canvas of the same shape, which says so.
        clip: The clip the frame belongs to, of any skeleton.
        index: Row of the frame in the clip.
        legend: Whether to add title and legend below the picture (it grows higher).
        min_long_side: Smaller pictures are enlarged until their longer side has so many pixels.
        line_scale: Widens all lines: for pictures that will be shown smaller than they are.
    """
    if frame is not None and (frame.dtype != np.uint8 or frame.shape[2:] != (3,)):
        raise ValueError(
            f"frame: expected (height, width, 3) uint8, got {frame.shape} {frame.dtype}"
        )
    index = range(len(clip))[index]  # IndexError where there is no such frame
    bounds = model_bounds(clip)
    if frame is None or bounds is not None:
        canvas = _blank(clip, index, min_long_side, _SCALED if bounds is not None else _GONE)
    else:
        scale = min_long_side / max(frame.shape[:2])
        canvas = scaled(frame, scale) if scale > 1 else frame.copy()
    size_wh = canvas.shape[1], canvas.shape[0]
    others, ids = clip.others, clip.person_ids
    people = [(clip.points[index], clip.scores[index], 0 if ids is None else ids.first[index])]
    if others is not None and ids is not None:
        rows = slice(*others.starts[index : index + 2])
        beside = zip(others.points[rows], others.scores[rows], ids.others[rows], strict=True)
        people = [*beside, *people]  # who stands for the frame is drawn last, over the others
    for points, scores, person_id in people:
        paint_keypoints(
            canvas,
            clip.skeleton_name,
            place_points(points, size_wh, bounds),
            scores >= _LEAST_SCORE,
            line_scale=line_scale,
            rim=person_colour(int(person_id)),
        )
    if not legend:
        return canvas
    title = f"{clip.clip_id}  frame {clip.frame_indices[index]}"
    missing = missing_parts(clip, index)
    parts = [(name, name not in missing) for name in clip.skeleton.part_names]
    has_unsure = (clip.mask[index] & (clip.scores[index] < _LEAST_SCORE)).any()
    remark = f"faint: score below {_LEAST_SCORE:g}" if has_unsure else ""
    return add_legend(canvas, parts, drawable_text(title), remark=remark)


def missing_parts(clip: PoseClip, row: int) -> tuple[str, ...]:
    """Return the names of the parts of which no point was found in a frame."""
    mask, parts = clip.mask[row], clip.skeleton.parts
    return tuple(part.name for part in parts if not mask[part.start : part.stop].any())


def _blank(clip: PoseClip, index: int, min_long_side: int, words: str) -> Frame:
    size_wh = clip.sizes_wh[index] if clip.sizes_wh[index].min() > 0 else np.array([4, 3])
    # A freak size in a damaged file must not become a freak picture.
    long_side = max(min_long_side, min(int(size_wh.max()), 4096))
    width, height = np.maximum(64, np.rint(size_wh * (long_side / size_wh.max()))).astype(int)
    canvas = np.full((height, width, 3), BACKGROUND, np.uint8)
    capitals = max(9, round(max(width, height) / 60))
    write_text(canvas, words, (capitals, 2 * capitals), height=capitals, colour=DIM)
    return canvas


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


def contact_sheet(cells: Sequence[Cell], *, part_names: Sequence[str], title: str) -> Frame:
    """Return one picture of all cells, in rows, captions below them and a legend at the end."""
    if not cells:
        raise ValueError("cells: expected at least one, got none")
    ratio = float(np.median([cell.picture.shape[0] / cell.picture.shape[1] for cell in cells]))
    cell_height = round(_CELL_WIDTH * min(max(ratio, 0.4), 2.0))
    # About as wide as three halves of its height.
    columns = round(math.sqrt(len(cells) * 1.5 * (cell_height + _CAPTION) / _CELL_WIDTH))
    rows = math.ceil(len(cells) / max(1, columns))
    columns = math.ceil(len(cells) / rows)  # no row much shorter than the others
    across, down = _CELL_WIDTH + _GAP, cell_height + _CAPTION + _GAP
    sheet = np.full((rows * down + _GAP, columns * across + _GAP, 3), BACKGROUND, np.uint8)
    for number, cell in enumerate(cells):
        row, column = divmod(number, columns)
        x, y = _GAP + column * across, _GAP + row * down
        paste(sheet[y : y + cell_height, x : x + _CELL_WIDTH], cell.picture)
        _write_caption(sheet[y + cell_height :, x : x + _CELL_WIDTH], cell)
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
