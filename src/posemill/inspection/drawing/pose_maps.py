"""Skeletons on black, in the colours that pose-driven generators such as ControlNet were taught.

Limbs are ellipses of nine pixels across in 0.6 of their colour, points are dots of radius 4 in
theirs, whatever the size of the picture: a generator expects no others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import cv2
import numpy as np

from posemill.errors import ConfigError
from posemill.records import FloatArray, Frame, PoseClip
from posemill.skeletons.palette import OPENPOSE_COLOURS

SKELETON = "openpose-18"
# In the order of their colours. The neck is point 1.
_LIMBS = ((1, 2), (1, 5), (2, 3), (3, 4), (5, 6), (6, 7), (1, 8), (8, 9), (9, 10), (1, 11),
          (11, 12), (12, 13), (1, 0), (0, 14), (14, 16), (0, 15), (15, 17))  # fmt: skip
_HALF_WIDTH, _RADIUS, _WEIGHT = 4, 4, 0.6


def pose_maps(clip: PoseClip, rows: Sequence[int]) -> Iterator[tuple[int, Frame]]:
    """Yield each row with its map, `(height, width, 3)` RGB of the size of its picture.

    All people are drawn, the one that stands for the frame last. Points outside of the picture are
    left out. Where nobody was found the map is black.
    """
    try:
        clip = clip.as_skeleton(SKELETON)
    except ValueError as error:
        raise ConfigError("{--style:openpose}: {error}", error=error) from error
    if clip.normalized != "none":
        raise ConfigError(
            "{--style:openpose}: clip {clip_id!r} was normalised by {normalized!r}, so it has no "
            "place in a picture; take the run it was made of",
            clip_id=clip.clip_id,
            normalized=clip.normalized,
        )
    others = clip.others
    for row in rows:
        width, height = clip.sizes_wh[row].tolist()
        if width <= 0 or height <= 0:
            raise ConfigError(
                "{--style:openpose}: clip {clip_id!r} does not say how large its pictures are; "
                "give it by {--size:WIDTHxHEIGHT}",
                clip_id=clip.clip_id,
            )
        canvas = np.zeros((height, width, 3), np.uint8)
        if others is not None:
            for points in others.points[others.starts[row] : others.starts[row + 1]][::-1]:
                _paint(canvas, points)
        _paint(canvas, clip.points[row])
        yield row, canvas


def _paint(canvas: Frame, points: FloatArray) -> None:
    """Draw a person; `points` are `(18, 3)` as shares of the picture, NaN where not found."""
    with np.errstate(invalid="ignore"):
        is_inside = np.asarray(((points[:, :2] >= 0) & (points[:, :2] <= 1)).all(axis=1))
    pixels = points[:, :2].astype(np.float64) * canvas.shape[1::-1]
    for (start, stop), colour in zip(_LIMBS, OPENPOSE_COLOURS, strict=False):
        if is_inside[start] and is_inside[stop]:
            x, y = ((pixels[start] + pixels[stop]) / 2).tolist()
            across, down = (pixels[start] - pixels[stop]).tolist()
            axes = int(math.hypot(across, down) / 2), _HALF_WIDTH
            angle = int(math.degrees(math.atan2(down, across)))
            corners = np.asarray(cv2.ellipse2Poly((int(x), int(y)), axes, angle, 0, 360, 1))
            cv2.fillConvexPoly(canvas, corners, [int(_WEIGHT * channel) for channel in colour])
    for index in np.flatnonzero(is_inside):
        x, y = pixels[index].tolist()
        cv2.circle(canvas, (int(x), int(y)), _RADIUS, OPENPOSE_COLOURS[index], thickness=-1)
