"""Points of other makers that are pixels, where a file usually holds shares of the picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.errors import FormatError

LOOKED_AT = 256  # frames
# Normalised points are rarely outside -1..2; a median beyond this is one of pixels.
_LEAST_PIXELS = 4


def median_of_pixels(points: npt.NDArray[Any]) -> float:
    """Return the median of x and y if they are pixels, 0 if they are normalised.

    Args:
        points: `(frames, keypoints, 2 or 3)`: some of a file, or all: not all are looked at.
    """
    step = max(1, len(points) // LOOKED_AT)
    with np.errstate(all="ignore"):
        values = np.abs(np.asarray(points[::step, :, :2], np.float32))
    found = values[np.isfinite(values) & (values > 0)]
    median = float(np.median(found)) if found.size else 0.0
    return median if median > _LEAST_PIXELS else 0.0


def divide_pixels(
    path: Path, points: npt.NDArray[Any], sizes_wh: npt.NDArray[np.int32], median: float
) -> npt.NDArray[np.float32]:
    """Return pixels divided by the pictures' width and height, z by the width.

    Args:
        path: For messages, as `median` is.
        points: `(frames, keypoints, 2 or 3)` in pixels.
        sizes_wh: `(frames, 2)`, 0 where not known.
        median: What `median_of_pixels` said.
    """
    if not (sizes_wh > 0).all():
        raise FormatError(
            "{path}: expected x and y divided by the pictures' size, got pixels (their median is "
            "{median:.0f}) of pictures whose size is not known; give it by {--size:WIDTHxHEIGHT}",
            path=path,
            median=median,
        )
    with np.errstate(all="ignore"):  # what is not a number is refused later
        scale = sizes_wh[:, [0, 1, 0][: points.shape[2]]].astype(np.float32)
        return points.astype(np.float32) / scale[:, None]
