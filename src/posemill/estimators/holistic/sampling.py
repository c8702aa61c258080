"""Where in a picture each pixel of a crop is sampled: OpenCV's steps of 1/32 px, found cheaply.

OpenCV's classic `warpPerspective` spends half of its time on coordinates: a division for every
pixel, in double precision. The map of a crop is affine but for the last bits of its float32
corners, so a coordinate is the sum of a number for its column and one for its row, in fixed point.
It is rounded as OpenCV rounds but for those within a few millionths of a pixel of a half step: on
average less than one in a hundred thousand.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Corner = tuple[float, float]
Limits = tuple[tuple[int, int], tuple[int, int]]

_STEPS = 32
_STEPS_BITS = 5
# Bits of a sum below a step: as many as the largest coordinate leaves, but not more than these.
_MOST_BITS = 20
# Rows are taken in so many strips, each with its own numbers for the columns: what is not a sum of
# column and row (the perspective in the corners' last bits) is taken at the middle of a strip.
_MIDDLES = (0.125, 0.375, 0.625, 0.875)
# An integer n added to these bits, read as a float32, is this value plus n / 32.
_FLOAT_BITS = np.int32(0x48C00000)
_FLOAT_VALUE = np.float32(1.5 * 2**18)


class SampleGrid:
    """Computes the coordinates of crops, into memory it uses again for the next one.

    Args:
        most: Side of the largest crop in pixels.
    """

    # What reaches further from the origin (in pixels), or is smaller, is not for this class.
    MAX_REACH = 2.0**14
    MIN_SIDE = 2.0**-3

    def __init__(self, most: int) -> None:
        self._memory = np.empty(2 * most * most, np.int32)

    def locate(
        self, corners: list[Corner], size: int, *, limits: Limits | None
    ) -> npt.NDArray[np.float32]:
        """Return x and y `(2, size, size)` of every pixel of a crop, valid until the next call.

        Args:
            corners: Of the crop in the picture: bottom left, top left, top right, bottom right.
            size: Side of the crop; a multiple of 4.
            limits: Lowest and highest value of x, then of y; None where none is beyond.
        """
        # One pixel more than the furthest corner: no sum needs the sign bit.
        reach = 1 + max([abs(value) for corner in corners for value in corner])
        bits = min(31 - _STEPS_BITS - math.frexp(reach)[1], _MOST_BITS)
        numbers = _numbers(corners, size, 2.0 ** (bits + _STEPS_BITS))
        # Half a step, for the shift rounds down.
        numbers[-2:] += 1 << (bits - 1)
        strips = len(_MIDDLES)
        steps = self._memory[: 2 * size * size]
        np.add(
            numbers[:-2].reshape(2, strips, 1, size), numbers[-2:].reshape(2, strips, -1, 1),
            out=steps.reshape(2, strips, -1, size),
        )  # fmt: skip
        np.right_shift(steps, bits, out=steps)
        if limits is not None:
            for axis, (low, high) in zip(steps.reshape(2, -1), limits, strict=True):
                axis.clip(low * _STEPS, high * _STEPS, out=axis)
        # From whole steps to float32 pixels, exactly: quicker than a conversion and a product.
        np.add(steps, _FLOAT_BITS, out=steps)
        pixels = steps.view(np.float32)
        np.subtract(pixels, _FLOAT_VALUE, out=pixels)
        return pixels.reshape(2, size, size)


def _numbers(corners: list[Corner], size: int, scale: float) -> npt.NDArray[np.int32]:
    """Return numbers whose sums are coordinates times `scale`, `(2·strips + 2, size)`.

    First those of the columns, for x in each strip and for y in each strip, then x and y of the
    rows. The corners decide a homography `(a·u + b·v + c) / (1 + g·u + h·v)` of u and v in 0..1,
    with g and h as small as the corners' rounding. To the first order in them it is
    `c + (a - c·g)·u + (b - c·h)·v - a·g·u² - b·h·v² - (a·h + b·g)·u·v`.
    """
    (x3, y3), (x0, y0), (x1, y1), (x2, y2) = corners
    off_x, off_y = x0 - x1 + x2 - x3, y0 - y1 + y2 - y3
    area = (x1 - x2) * (y3 - y2) - (x3 - x2) * (y1 - y2)
    g = (off_x * (y3 - y2) - (x3 - x2) * off_y) / area
    h = ((x1 - x2) * off_y - off_x * (y1 - y2)) / area
    columns, rows = [], []
    for first, right, low in ((x0, x1, x3), (y0, y1, y3)):
        a, b = right - first + g * right, low - first + h * low
        mixed = -(a * h + b * g)
        linear = a - first * g
        # u·v = (u - 1/2)·(v - middle) + v/2 + middle·u - middle/2, the first of it left out
        columns += [(-a * g, linear + mixed * at, -mixed * at / 2) for at in _MIDDLES]
        rows.append((-b * h, b - first * h + mixed / 2, first))
    square, slope, start = (np.array(columns + rows).T * scale)[:, :, None]
    along = np.arange(size) / size
    values = square * along
    values += slope
    values *= along
    values += start
    # A number may be too large for 32 bits, its sums are not: bits above them cancel out.
    return np.rint(values, out=values).astype(np.int64).astype(np.int32)
