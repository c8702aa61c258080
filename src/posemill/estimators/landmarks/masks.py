"""Masks of people, from a network's small map to the size of the picture."""

from __future__ import annotations

import cv2
import numpy as np

from posemill.estimators.landmarks.libm import cos_sin, exp
from posemill.estimators.landmarks.rects import HALF, Rect, Size, f32
from posemill.records import FloatArray

_MAP_SIZE = 256
# More pixels than are sampled around a place, or a rounding moves it by.
_MARGIN = 3
# Values that stay in the processor's cache on their way.
_VALUES_AT_ONCE = 1 << 14


def enlarge_mask(logits: FloatArray, rect: Rect, size: Size) -> FloatArray:
    """Return the mask `(height, width)` of a picture, 0..1, from the map of the crop at `rect`.

    Args:
        logits: `(256, 256)`.
        rect: Where the crop was cut.
        size: Of the picture.
    """
    to_map = _from_picture(rect, size) * f32(len(logits))
    to_map[:, 0] *= f32(1) / size[0]
    to_map[:, 1] *= f32(1) / size[1]
    small = np.zeros(logits.shape, np.float32)
    # Much of the crop may lie outside of the picture: that part is never sampled.
    rows, columns = _seen_part(to_map, size)
    num_rows = _VALUES_AT_ONCE // max(columns.stop - columns.start, 1)
    for start in range(rows.start, rows.stop, num_rows):
        part = slice(start, min(start + num_rows, rows.stop)), columns
        small[part] = 1.0 / (exp(-logits[part]).astype(np.float64) + 1.0)
    mask = cv2.warpAffine(
        small,
        to_map,
        (int(size[0]), int(size[1])),
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_CONSTANT,
    )
    return np.asarray(mask, np.float32)


def _seen_part(to_map: FloatArray, size: Size) -> tuple[slice, slice]:
    """Return the rows and columns of a map that its picture's pixels are sampled from."""
    edges = np.array([(x, y, 1) for x in (0, size[0] - 1) for y in (0, size[1] - 1)], np.float64)
    places = np.clip(edges @ to_map.T.astype(np.float64), -_MARGIN, _MAP_SIZE + _MARGIN)
    low = np.floor(places.min(0)).astype(int) - _MARGIN
    high = np.ceil(places.max(0)).astype(int) + _MARGIN
    columns, rows = (slice(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True))
    return rows, columns


def _from_picture(rect: Rect, size: Size) -> FloatArray:
    """Return the matrix `(2, 3)` from shares of the picture to shares of the square at `rect`.

    The inverse of the way back, rounded step by step as the original inverts a 4 x 4 matrix.
    """
    width, height = size
    side = max(rect.width * width, rect.height * height)
    cos, sin = cos_sin(rect.rotation)
    center_x, center_y = rect.center_x * width, rect.center_y * height
    to_x, to_y = f32(1) / width, f32(1) / height
    a, b = side * cos * to_x, -side * sin * to_x
    c, d = side * sin * to_y, side * cos * to_y
    x = (-HALF * side * cos + HALF * side * sin + center_x) * to_x
    y = (-HALF * side * cos - HALF * side * sin + center_y) * to_y
    depth = side * to_x
    scale = f32(1) / ((d * a - b * c) * depth)
    return np.array(
        [
            [d * depth * scale, -(b * depth) * scale, -(depth * (d * x - b * y)) * scale],
            [-(c * depth) * scale, a * depth * scale, -(depth * (a * y - c * x)) * scale],
        ],
        np.float32,
    )
