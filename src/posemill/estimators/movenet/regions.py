"""Regions of bodies for MediaPipe's network, by MoveNet's points."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from posemill.estimators.landmarks.rects import Rect, Region, f32, rotation_between
from posemill.estimators.movenet.engine import MoveNetEstimator
from posemill.records import FloatArray, Frame

# Of COCO's 17 points.
_HEAD, _SHOULDERS, _HIPS = slice(0, 5), slice(5, 7), slice(11, 13)
# Half a side of the region, in distances from the middle of the hips to the farthest point: the
# margin of MediaPipe's own regions. 1.1 and 1.6 find fewer people of COCO.
_REACH = 1.25


class MoveNetRegions:
    """A region for each person that the engine `movenet` finds, the largest first.

    Its smaller network is as good for this as the larger one, which takes four times as long.

    Args:
        device: `cpu`, `cuda:N` or `tensorrt:N`.
        threads: Threads inside one network call.
    """

    def __init__(self, *, device: str, threads: int) -> None:
        self._engine = MoveNetEstimator(device=device, threads=threads, network="lightning")

    def find(self, frames: Sequence[Frame]) -> Iterator[list[Region]]:
        """Yield the regions of the bodies in each frame, the largest first."""
        if not frames:
            return
        keypoints = self._engine.estimate(frames)
        assert keypoints.others is not None
        starts = keypoints.others.starts
        for row, frame in enumerate(frames):
            others = keypoints.others.points[starts[row] : starts[row + 1]]
            size = np.array(frame.shape[1::-1], np.float32)
            people = [keypoints.points[row, :, :2], *others[..., :2]]
            rects = (_region_of(points * size, size) for points in people)
            yield [Region(rect) for rect in rects if rect is not None]

    def identity(self) -> dict[str, str]:
        """Return what decides the result."""
        return {f"movenet {name}": value for name, value in self._engine.identity().items()}


def _region_of(points: FloatArray, size: FloatArray) -> Rect | None:
    """Return the square around the hips that holds all points, upright along the trunk.

    Args:
        points: `(17, 2)` in pixels, NaN where not found.
        size: Of the picture.

    Returns:
        None where neither hips nor shoulders were found.
    """
    head, shoulders, hips = (_middle(points[part]) for part in (_HEAD, _SHOULDERS, _HIPS))
    if shoulders is None:
        shoulders = head
    if hips is None:
        if shoulders is None or head is None or shoulders is head:
            return None
        # A trunk is about twice as long as it is from the shoulders to the middle of the head.
        hips = shoulders + 2 * (shoulders - head)
    if shoulders is None:
        shoulders = hips - np.array([0, 1], np.float32)
    reach = _REACH * float(np.nanmax(np.linalg.norm(points - hips, axis=1)))
    if reach <= 0:
        return None
    rotation = rotation_between(
        (hips[0], hips[1]), (shoulders[0], shoulders[1]), target=math.pi / 2
    )
    width, height = f32(2 * reach) / size
    return Rect(hips[0] / size[0], hips[1] / size[1], width, height, rotation)


def _middle(points: FloatArray) -> FloatArray | None:
    """Return the mean of the points that were found, None if there is none."""
    there = points[~np.isnan(points[:, 0])]
    return there.mean(axis=0) if len(there) else None
