"""Points in pixels of the picture, and points divided by its size, as clips have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.errors import ContentError
from posemill.formats.shared.losses import LEAST_SCORE
from posemill.records import PoseClip

LOOKED_AT = 256  # frames
# Normalised points are rarely outside -1..2; a median beyond this is one of pixels.
_LEAST_PIXELS = 4


def are_pixels(points: npt.NDArray[Any]) -> bool:
    """Return whether `(frames, keypoints, 2 or 3)` of another maker are pixels, by some medians."""
    step = max(1, len(points) // LOOKED_AT)
    with np.errstate(all="ignore"):
        values = np.abs(np.asarray(points[::step, :, :2], np.float32))
    values = values[np.isfinite(values) & (values > 0)]
    return bool(values.size and np.median(values) > _LEAST_PIXELS)


def from_pixels(
    pixels: npt.NDArray[Any], sizes_wh: npt.NDArray[np.int32]
) -> npt.NDArray[np.float32]:
    """Return `(frames, keypoints, 2 or 3)` divided by the pictures' sizes, z by their width."""
    if not (sizes_wh > 0).all():
        raise ContentError(
            "x and y are pixels of pictures whose sizes are not known; give one by "
            "{--size:WIDTHxHEIGHT}"
        )
    with np.errstate(all="ignore"):  # what is not a number is refused later
        scale = sizes_wh[:, [0, 1, 0][: pixels.shape[2]]].astype(np.float32)
        points: npt.NDArray[np.float32] = (pixels / scale[:, None]).astype(np.float32)
    return points


def to_pixels(clip: PoseClip) -> npt.NDArray[np.float64]:
    """Return `(frames, keypoints, 3)`: x and y in pixels and score, zeros where missing.

    A found point of score 0 gets 0.000001: to the readers of these formats 0 means missing.
    """
    pixels = np.zeros((*clip.scores.shape, 3))
    found = clip.mask
    pixels[..., :2][found] = np.round(clip.pixels()[found].astype(np.float64), 3)
    scores = np.maximum(clip.scores[found].astype(np.float64), LEAST_SCORE)
    pixels[..., 2][found] = np.round(scores, 6)
    return pixels
