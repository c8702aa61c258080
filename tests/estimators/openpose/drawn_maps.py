"""Maps as a perfect network would give them, of people whose points are known."""

from __future__ import annotations

import numpy as np

from posemill.estimators.openpose.decoding import _LIMBS, NUM_MAPS, NUM_POINTS
from posemill.records import FloatArray

# A person who stands and faces us, in units of their height; x, y of the 18 points.
STANDING = np.array([
    (0.00, 0.10), (0.00, 0.20), (-0.10, 0.20), (-0.14, 0.35), (-0.16, 0.48), (0.10, 0.20),
    (0.14, 0.35), (0.16, 0.48), (-0.06, 0.52), (-0.07, 0.74), (-0.08, 0.96), (0.06, 0.52),
    (0.07, 0.74), (0.08, 0.96), (-0.02, 0.08), (0.02, 0.08), (-0.05, 0.09), (0.05, 0.09),
], np.float32)  # fmt: skip


def person(x: float, y: float, height: float) -> FloatArray:
    """Return the 18 points, in cells, of a person whose head is at x and y."""
    return STANDING * np.float32(height) + np.array([x, y], np.float32)


def draw(people: list[FloatArray], shape: tuple[int, int]) -> FloatArray:
    """Return `(57, height, width)`; a point that is NaN is not drawn."""
    height, width = shape
    rows, columns = np.mgrid[:height, :width].astype(np.float32)
    maps = np.zeros((NUM_MAPS, height, width), np.float32)
    for points in people:
        for number, (x, y) in enumerate(points):
            if not np.isnan(x):
                spot = np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / (2 * 0.9**2))
                maps[number] = np.maximum(maps[number], spot)
        for start, stop, channel in _LIMBS:
            _draw_limb(maps[NUM_POINTS + 1 + channel :][:2], points[start], points[stop])
    maps[NUM_POINTS] = 1 - maps[:NUM_POINTS].max(0)
    return maps


def _draw_limb(maps: FloatArray, one: FloatArray, other: FloatArray) -> None:
    length = np.hypot(*(other - one))
    if np.isnan(length) or not length:
        return
    along = (other - one) / length
    rows, columns = np.mgrid[: maps.shape[1], : maps.shape[2]].astype(np.float32)
    x, y = columns - one[0], rows - one[1]
    share, off = x * along[0] + y * along[1], np.abs(x * along[1] - y * along[0])
    on = (share >= -1) & (share <= length + 1) & (off <= 1)
    maps[:, on] = along[:, None]
