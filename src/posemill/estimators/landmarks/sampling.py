"""Where in a picture each pixel of a crop is sampled: OpenCV's steps of 1/32 px, found cheaply.

OpenCV's classic `warpPerspective` spends half of its time on coordinates: a division for every
pixel, in double precision. The map of a crop is affine but for the last bits of its float32
corners, so from one row to another all coordinates grow by nearly the same: they are sums, in fixed
point. How wrong a sum may be is known. The few that lie so close to the middle of two steps that
they might be rounded the other way are computed again as OpenCV does, bit for bit.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

Corner = tuple[float, float]
Limits = tuple[tuple[int, int], tuple[int, int]]

_STEPS = 32
_STEPS_BITS = 5
# Bits of a sum below a step: as many as the largest coordinate leaves, but not more than these.
_MOST_BITS = 16
# Rows whose sums are products; the others follow by additions.
_FIRST_ROWS = 16
# Columns that OpenCV takes together.
_BLOCK = 64
# An integer n added to these bits, read as a float32, is this value plus n / 32.
_FLOAT_BITS = np.int32(0x48C00000)
_FLOAT_VALUE = np.float32(1.5 * 2**18)


class SampleGrid:
    """Computes the coordinates of crops, into memory it uses again for the next one.

    Args:
        most: Side of the largest crop in pixels.
    """

    # What reaches further from the origin (in pixels), or is smaller, is not for this class: far
    # out, OpenCV's own coordinates of a crop of a tenth of a pixel are wrong by more than our sums.
    MAX_REACH = 2.0**14
    MIN_SIDE = 1.0

    def __init__(self, most: int) -> None:
        self._steps = np.empty(2 * most * most, np.int32)
        self._below = np.empty(2 * most * most, np.uint16)
        self._is_close = np.empty(2 * most * most, np.bool_)

    def locate(
        self, corners: list[Corner], size: int, *, origin: tuple[int, int], limits: Limits | None
    ) -> npt.NDArray[np.float32]:
        """Return x and y `(2, size, size)` of every pixel of a crop, valid until the next call.

        Args:
            corners: Of the crop in the picture: bottom left, top left, top right, bottom right.
            size: Side of the crop; a multiple of 4.
            origin: Of the coordinates, in the picture.
            limits: Lowest and highest value of x, then of y; None where none is beyond.
        """
        moved = [(x - origin[0], y - origin[1]) for x, y in corners]
        # One pixel more than the furthest corner: no sum needs the sign bit.
        reach = 1 + max([abs(value) for corner in moved for value in corner])
        bits = min(31 - _STEPS_BITS - math.frexp(reach)[1], _MOST_BITS)
        first, growth, doubt = _sums(moved, size, 2.0 ** (bits + _STEPS_BITS))
        # Half a step, for the shift rounds down. With the doubt on top, whatever may have to be
        # rounded the other way has at most twice the doubt below the step.
        first += (1 << (bits - 1)) + doubt
        steps, below = self._steps[: 2 * size * size], self._below[: 2 * size * size]
        _fill(steps.reshape(2, -1), first, growth)
        np.right_shift(steps, bits, out=steps)
        # What lies below a step, in 16 bits of its own: less work than to take it from the sums.
        spare = _MOST_BITS - bits
        _fill(
            below.reshape(2, -1),
            (first << spare).astype(np.uint16),
            (growth << spare).astype(np.uint16),
        )
        is_close = self._is_close[: 2 * size * size]
        np.less_equal(below, 2 * doubt << spare, out=is_close)
        close = is_close.nonzero()[0]
        if len(close):
            steps[close] = _opencv_steps(corners, (size, size), close, origin)
        if limits is not None:
            for axis, (low, high) in zip(steps.reshape(2, -1), limits, strict=True):
                np.maximum(axis, low * _STEPS, out=axis)
                np.minimum(axis, high * _STEPS, out=axis)
        # From whole steps to float32 pixels, exactly: quicker than a conversion and a product.
        np.add(steps, _FLOAT_BITS, out=steps)
        pixels = steps.view(np.float32)
        np.subtract(pixels, _FLOAT_VALUE, out=pixels)
        return pixels.reshape(2, size, size)


def _fill(out: npt.NDArray[Any], first: npt.NDArray[Any], growth: npt.NDArray[Any]) -> None:
    """Write the sums of all rows `(2, size · size)`: twice as many follow from those before."""
    out[:, : first.shape[1]] = first
    for doubling in range(growth.shape[1]):
        done = first.shape[1] << doubling
        more = min(done, out.shape[1] - done)
        np.add(out[:, :more], growth[:, doubling, None], out=out[:, done : done + more])


def _sums(
    corners: list[Corner], size: int, scale: float
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], int]:
    """Return what makes sums that are coordinates times `scale`, and how wrong they may be.

    First the sums of the first rows, for x and for y `(2, rows · size)`, then by how much they grow
    in that many rows, in twice and four times as many, … `(2, doublings)`.

    The corners decide a homography `(a·u + b·v + c) / (1 + g·u + h·v)` of u and v in 0..1, with g
    and h as small as the corners' rounding. To the first order in them it is
    `c + (a - c·g)·u + (b - c·h)·v - a·g·u² - b·h·v² - (a·h + b·g)·u·v`; what is left is the
    coordinate itself times `(g·u + h·v)²`.
    """
    (x3, y3), (x0, y0), (x1, y1), (x2, y2) = corners
    off_x, off_y = x0 - x1 + x2 - x3, y0 - y1 + y2 - y3
    area = (x1 - x2) * (y3 - y2) - (x3 - x2) * (y1 - y2)
    g = (off_x * (y3 - y2) - (x3 - x2) * off_y) / area
    h = ((x1 - x2) * off_y - off_x * (y1 - y2)) / area
    terms, neglected = [], 0.0
    for c, right, low in ((x0, x1, x3), (y0, y1, y3)):
        a, b = right - c + g * right, low - c + h * low
        bent, mixed = -b * h, -(a * h + b * g)
        # u·v is taken as (u + v)/2 - 1/4, and v² as v - 1/8: both are at most 1/4 away
        slope = b - c * h + mixed / 2 + bent
        terms.append((c - mixed / 4 - bent / 8, a - c * g + mixed / 2, -a * g, slope))
        neglected = max(neglected, abs(mixed) + abs(bent))
    along, doublings = _shares(size)
    num_rows = min(_FIRST_ROWS, size)
    start, linear, square, down = (np.array(terms).T * scale)[:, :, None]
    values = ((square * along + linear) * along + start)[:, None] + (down * along[:num_rows])[
        ..., None
    ]
    first = np.rint(values, out=values).astype(np.int32).reshape(2, -1)
    # It may grow by more than 32 bits hold, the sums do not: bits above them cancel out.
    growth = np.rint(down * doublings).astype(np.int64).astype(np.int32)
    # A crop of a fraction of a pixel, thousands of them from the picture's origin, is bent by more
    # than its last bits.
    furthest = max([abs(value) for corner in corners for value in corner])
    neglected = neglected / 4 + furthest * (abs(g) + abs(h)) ** 2
    # Each rounding may add a half.
    return first, growth, 2 + (len(doublings) + 1) // 2 + math.ceil(neglected * scale)


@functools.cache
def _shares(size: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return u of the columns, or v of the rows, and v of each doubling of the first rows."""
    num_rows = min(_FIRST_ROWS, size)
    doublings = math.ceil(math.log2(size / num_rows))
    return np.arange(size) / size, num_rows * 2.0 ** np.arange(doublings) / size


def fixed_places(
    corners: list[Corner], size_wh: tuple[int, int]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return where `warpPerspective` samples a crop, in the two maps of fixed point of `remap`.

    Worth its price where many pictures are cut at the same place.

    Args:
        corners: Of the crop in the picture: bottom left, top left, top right, bottom right.
        size_wh: Of the crop, in multiples of 4.
    """
    width, height = size_wh
    steps = _opencv_steps(corners, size_wh, np.arange(2 * width * height), (0, 0))
    x, y = (steps / _STEPS).astype(np.float32).reshape(2, height, width)
    return cv2.convertMaps(x, y, cv2.CV_16SC2)


@functools.cache
def _target(width: int, height: int) -> npt.NDArray[np.float32]:
    return np.array([(0, height), (0, 0), (width, 0), (width, height)], np.float32)


def _opencv_steps(
    corners: list[Corner],
    size_wh: tuple[int, int],
    places: npt.NDArray[np.int64],
    origin: tuple[int, int],
) -> npt.NDArray[np.float64]:
    """Return some of the x and y `(2, height, width)` in steps, as `warpPerspective` rounds them.

    In float64, operation by operation; columns count from the start of a block of 64.
    """
    width, height = size_wh
    to_crop = cv2.getPerspectiveTransform(np.array(corners, np.float32), _target(width, height))
    matrix = cv2.invert(to_crop)[1]
    axes = (places >= width * height).astype(np.intp)
    rows, columns = np.divmod(places, width)
    rows -= axes * height
    inside = columns % _BLOCK
    start = columns - inside
    right, down, first = matrix[:2].T[:, axes]
    along = right * start + down * rows + first + right * inside
    right, down, first = matrix[2].tolist()
    depth = right * start + down * rows + first + right * inside
    return np.rint(along * (_STEPS / depth)) - np.array(origin)[axes] * _STEPS
