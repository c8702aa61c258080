"""Pure functions on keypoints: centre, scale, close gaps, fill. NaN means missing.

Points are `(frames, keypoints, 3)`: x, y, z. Nothing is modified in place. x and y of a `PoseClip`
are divided by width and height, so lengths only make sense after `to_square_units`.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from posemill.records import BoolArray, FloatArray, IntArray
from posemill.skeletons import Skeleton

Fill = Literal["nan", "zero", "interpolate"]


def find_points(points: FloatArray, mask: npt.NDArray[Any] | None) -> BoolArray:
    """Return which of the points of a file were found: `(frames, keypoints)`, of one axis more.

    `mask` is what the file says, not 0 where found; None: points that are NaN or all 0 are missing.
    A found point that is infinite or not a number is a ValueError.
    """
    finite = np.isfinite(points).all(axis=2)
    if mask is None:
        found: BoolArray = ~np.isnan(points).any(axis=2) & (points != 0).any(axis=2)
    else:
        found = np.array(mask, bool)
    bad = np.argwhere(found & ~finite)
    if len(bad):
        frame, point = bad[0]
        raise ValueError(
            f"a found point is infinite or not a number, {len(bad)} in all, the first in frame "
            f"{frame}, point {point}; a 'mask' that is False there would call it missing"
        )
    return found


def check_scores(scores: npt.NDArray[Any], mask: BoolArray) -> FloatArray:
    """Return `(frames, keypoints)`: scores of a file, 0 where nothing was found.

    One outside of 0..1 is a ValueError.
    """
    with np.errstate(all="ignore"):
        plain: FloatArray = np.where(mask, scores, 0).astype(np.float32)
    if not np.isfinite(plain).all() or (plain < 0).any() or (plain > 1).any():
        raise ValueError(f"expected scores in 0..1, got {plain.min()}..{plain.max()}")
    return plain


def shoulders_of(skeleton: Skeleton) -> tuple[int, int]:
    """Return the indices of the left and the right shoulder."""
    names = skeleton.point_names
    return names.index("left_shoulder"), names.index("right_shoulder")


def to_square_units(points: FloatArray, sizes_wh: npt.NDArray[np.int32]) -> FloatArray:
    """Return points in units of the frame's width along all three axes.

    `sizes_wh` are `(frames, 2)` in pixels; frames of unknown size (0) count as square.
    """
    width, height = sizes_wh[:, 0].astype(np.float32), sizes_wh[:, 1].astype(np.float32)
    known = (width > 0) & (height > 0)
    aspect = np.where(known, height / np.where(known, width, 1), 1).astype(np.float32)
    square: FloatArray = points.copy()
    square[..., 1] *= aspect[:, None]
    return square


def normalize_by_shoulders(points: FloatArray, shoulders: tuple[int, int]) -> FloatArray:
    """Return points around each frame's shoulder midpoint, the median shoulder width being 1.

    One scale for the whole clip: a scale per frame would turn every turn of the body into a zoom.
    The width is measured in the picture plane (x and y). Frames without both shoulders use the
    midpoint of the frames around them (the nearest one at the ends). Missing throughout where the
    shoulders were never both found, or are one point.
    """
    left, right = shoulders
    widths = np.hypot(*(points[:, left, :2] - points[:, right, :2]).T)  # (T,)
    widths = widths[np.isfinite(widths)]
    scale = np.float32(np.median(widths)) if len(widths) else np.float32(0)
    if not scale > 0:
        return np.full_like(points, np.nan)
    middle = points[:, list(shoulders)].mean(axis=1, keepdims=True)  # (T, 1, 3)
    return (points - fill_missing(middle, "interpolate", unseen=np.nan)) / scale


def normalize_by_bbox(points: FloatArray) -> FloatArray:
    """Return points with the clip's bounding box centred, its longer side reaching from -1 to 1.

    One box for the whole clip, over the x and y of all found points; z is moved by its mean. All
    missing where there is no box.
    """
    found = points[~np.isnan(points[..., 0])]  # (found, 3)
    if not len(found):
        return np.full_like(points, np.nan)
    low, high = found.min(axis=0), found.max(axis=0)
    half = np.float32((high - low)[:2].max() / 2)
    if not half > 0:
        return np.full_like(points, np.nan)
    center = (low + high) / 2
    center[2] = found[:, 2].mean()
    scaled: FloatArray = (points - center.astype(np.float32)) / half
    return scaled


def interpolate_gaps(
    points: FloatArray, max_gap: int, frame_indices: IntArray
) -> tuple[FloatArray, BoolArray]:
    """Return points with short gaps closed by straight lines, and `(frames, keypoints)`: where.

    Args:
        points: `(frames, keypoints, 3)`.
        max_gap: The longest run of missing frames to close. Runs at either end stay.
        frame_indices: `(frames,)` rising positions in time. Positions between them that have no row
            are missing frames too.
    """
    before, after = _neighbours(~np.isnan(points[..., 0]))
    new: BoolArray = np.isnan(points[..., 0]) & (before >= 0) & (after < len(points))
    new[new] = frame_indices[after[new]] - frame_indices[before[new]] - 1 <= max_gap
    return _between(points, new, before, after, times=frame_indices) if new.any() else points, new


def fill_missing(points: FloatArray, how: Fill, *, unseen: float = 0.0) -> FloatArray:
    """Return points with a value for the missing ones.

    Args:
        points: `(frames, keypoints, 3)`.
        how: `nan` leaves them; `zero` makes them 0; `interpolate` draws straight lines through
            gaps of any length and holds the first and the last found value at the ends.
        unseen: What `interpolate` writes for a keypoint that no frame shows.
    """
    missing = np.isnan(points[..., 0])
    if how == "nan" or not missing.any():
        return points
    if how == "zero":
        zeroed: FloatArray = np.array(points, order="C")
        # A point as one cell: several times faster than three numbers each.
        cells = zeroed.view(np.dtype((np.void, zeroed.shape[2] * zeroed.itemsize)))[..., 0]
        cells[missing] = np.zeros((), cells.dtype)
        return zeroed
    before, after = _neighbours(~missing)
    never = (before < 0) & (after >= len(points))
    before = np.where(before < 0, after, before)
    after = np.where(after >= len(points), before, after)
    filled = _between(points, missing & ~never, before, after, times=np.arange(len(points)))
    filled[never] = unseen
    return filled


def longest_gaps(mask: BoolArray, lengths: IntArray) -> IntArray:
    """Return `(clips, columns)`: the longest run of frames in which a column is False.

    `mask` is `(frames, columns)`, the frames of all clips behind each other; `lengths` `(clips,)`
    are the frames of each clip, where runs end.
    """
    longest: IntArray = np.zeros((len(lengths), mask.shape[1]), np.int64)
    starts = np.cumsum(lengths) - lengths
    before, after = _neighbours(mask)
    before = np.maximum(before, np.repeat(starts - 1, lengths)[:, None])
    after = np.minimum(after, np.repeat(starts + lengths, lengths)[:, None])
    gaps = np.where(mask, 0, after - before - 1)
    has_frames = lengths > 0  # reduceat gives a clip without frames the first row of the next
    longest[has_frames] = np.maximum.reduceat(gaps, starts[has_frames], axis=0)
    return longest


def _neighbours(found: BoolArray) -> tuple[IntArray, IntArray]:
    """Return for every cell the last found row at or before it (-1) and the next one (frames)."""
    rows = np.arange(len(found), dtype=np.int64)[:, None]
    before = np.maximum.accumulate(np.where(found, rows, -1), axis=0)
    return before, np.minimum.accumulate(np.where(found, rows, len(found))[::-1], axis=0)[::-1]


def _between(
    points: FloatArray, where: BoolArray, before: IntArray, after: IntArray, *, times: IntArray
) -> FloatArray:
    """Return points whose cells `where` lie on the line from row `before` to row `after`."""
    row, column = np.nonzero(where)
    low, high = before[row, column], after[row, column]
    span = np.maximum(times[high] - times[low], 1)
    weight = ((times[row] - times[low]) / span).astype(np.float32)[:, None]
    filled: FloatArray = points.copy()
    filled[row, column] = points[low, column] * (1 - weight) + points[high, column] * weight
    return filled
