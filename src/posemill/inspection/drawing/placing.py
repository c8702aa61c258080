"""Where keypoints lie in a picture, and whether they belong into one at all."""

from __future__ import annotations

import numpy as np

from posemill.records import FloatArray, PoseClip

_FARTHEST = 20.0  # in widths or heights of the picture; points beyond are not drawn
_MAX_FRAMES = 64  # looked at per clip: a movie asks for every frame of it


def model_bounds(clip: PoseClip) -> tuple[FloatArray, FloatArray] | None:
    """Return the corners around all points of a clip that was centred and scaled for a model.

    None for a clip in picture coordinates: our files say which it is, and clips whose pictures have
    a size are in them. Those of others are told apart by where the points lie: in a picture mostly
    between 0 and 1, around 0 for a model (hips and knees below the picture's edge are usual, a
    third of the points left of it is not).
    """
    if clip.normalized == "none" and (clip.sizes_wh > 0).all():
        return None
    step = max(1, len(clip) // _MAX_FRAMES)
    flat = clip.points[::step, :, :2].reshape(-1, 2)
    flat = flat[np.isfinite(flat).all(1)]
    if not len(flat):
        return None
    far = ((flat <= -0.5) | (flat >= 1.5)).any(1).mean()
    if clip.normalized == "none" and far < 0.4 and (flat[:, 0] < 0).mean() < 0.33:
        return None
    low, high = np.percentile(flat, (1, 99), axis=0).astype(np.float32)
    return low, high


def place_points(
    points: FloatArray, size_wh: tuple[int, int], bounds: tuple[FloatArray, FloatArray] | None
) -> FloatArray:
    """Return `(keypoints, 2)` in pixels of a canvas, NaN where not to be drawn.

    With the `bounds` of `model_bounds` the clip as a whole is fitted into the canvas.
    """
    points = points[:, :2].astype(np.float32)
    size = np.array(size_wh, np.float32)
    if bounds is not None:
        low, high = bounds
        scale = 0.9 * float((size / np.maximum(high - low, 1e-6)).min())
        points = ((points - (low + high) / 2) * scale / size + 0.5).astype(np.float32)
    with np.errstate(invalid="ignore"):
        sane = np.all(np.abs(points) < _FARTHEST, axis=1)
    return np.asarray(np.where(sane[:, None], points, np.nan) * size, np.float32)
