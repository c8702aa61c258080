"""The body: where it is, its 33 landmarks, and the two auxiliary points that follow it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from posemill.estimators.holistic.crops import whole_picture
from posemill.estimators.holistic.detection import Detector
from posemill.estimators.holistic.rects import Rect, Size, enlarge, project, rect_on_line
from posemill.estimators.holistic.smoothing import smooth_visibility
from posemill.estimators.holistic.state import HolisticState
from posemill.records import FloatArray

DETECTOR_STRIDES = (8, 16, 32, 32, 32)
_MARGIN = 1.25
_CROP_SIZE = 256
_MAP_SIZE = 64
# The graph file says 7, but the Python API loses that option and runs with the default.
_KERNEL = 9
_REACH = np.arange(_KERNEL) - _KERNEL // 2
_MIN_HEAT = 0.5
_UPRIGHT = math.pi / 2


@dataclass
class PoseLandmarks:
    """The body in one frame.

    Args:
        points: `(33, 3)`: x, y normalised by the picture's size, z in the scale of x.
        visibility: `(33,)` in 0..1.
        world: `(33, 3)` in metres around the middle of the hips.
        auxiliary: `(2, 3)`: middle of the hips, and a point at the distance of the body's size.
    """

    points: FloatArray
    visibility: FloatArray
    world: FloatArray
    auxiliary: FloatArray


def rect_from_detection(
    detector: Detector, outputs: list[FloatArray], size: Size
) -> Rect | None:
    """Return where the body is by the detector's outputs for the whole picture, None if nobody."""
    points = detector.best(outputs[0][0], outputs[1].reshape(-1))
    if points is None:
        return None
    _, pad_x, pad_y = whole_picture(*size)
    center, reach = (
        ((float(x) - pad_x) / (1 - 2 * pad_x), (float(y) - pad_y) / (1 - 2 * pad_y))
        for x, y in points[:2]
    )
    return enlarge(rect_on_line(center, reach, size, target=_UPRIGHT), size, scale=_MARGIN)


def rect_from_auxiliary(auxiliary: FloatArray, size: Size) -> Rect:
    """Return where the body is expected by the auxiliary points of the frame before."""
    center, reach = ((float(x), float(y)) for x, y in auxiliary[:, :2])
    return enlarge(rect_on_line(center, reach, size, target=_UPRIGHT), size, scale=_MARGIN)


def read_pose(outputs: list[FloatArray], rect: Rect, *, min_score: float) -> PoseLandmarks | None:
    """Return the landmarks from the network's outputs for the crop at `rect`, None if no body."""
    raw, score, heat, world = outputs
    if not score[0, 0] > min_score:
        return None
    raw = raw.reshape(39, 5)
    points = raw[:, :3] / np.float32(_CROP_SIZE)
    refine_by_heat(points, heat[0])
    points = project(points, rect)
    visibility = 1 / (1 + np.exp(-raw[:33, 3]))
    cos, sin = math.cos(rect.rotation), math.sin(rect.rotation)
    metres = world.reshape(39, 3)[:33]
    turned = metres.copy()
    turned[:, 0] = cos * metres[:, 0] - sin * metres[:, 1]
    turned[:, 1] = sin * metres[:, 0] + cos * metres[:, 1]
    return PoseLandmarks(points[:33], visibility, turned, points[33:35])


def refine_by_heat(points: FloatArray, heat: FloatArray) -> None:
    """Move each point to the centre of heat around it, where there is enough heat. In place.

    Args:
        points: `(39, 3)`, x and y in 0..1 of the crop.
        heat: `(39, 64, 64)` logits.
    """
    with np.errstate(invalid="ignore"):
        cells = np.trunc(points[:, :2] * np.float32(_MAP_SIZE))
    on_map = ((cells >= 0) & (cells < _MAP_SIZE)).all(1)
    columns, rows = (np.where(on_map, cells[:, axis], 0).astype(np.int64) for axis in (0, 1))
    columns, rows = columns[:, None] + _REACH, rows[:, None] + _REACH  # (39, 9)
    outside_x, outside_y = ((v < 0) | (v >= _MAP_SIZE) for v in (columns, rows))
    last = _MAP_SIZE - 1
    window = heat[
        np.arange(len(points))[:, None, None],
        rows.clip(0, last)[:, :, None],
        columns.clip(0, last)[:, None, :],
    ]  # (39, 9, 9)
    weights = 1 / (1 + np.exp(-window))
    weights[outside_y[:, :, None] | outside_x[:, None, :]] = 0
    refined = on_map & (weights.max((1, 2)) >= _MIN_HEAT)
    total = weights.sum((1, 2))
    total[~refined] = 1
    x = (weights.sum(1) * columns).sum(1) / total / _MAP_SIZE
    y = (weights.sum(2) * rows).sum(1) / total / _MAP_SIZE
    points[refined, 0] = x[refined]
    points[refined, 1] = y[refined]


def follow(pose: PoseLandmarks, state: HolisticState, size: Size) -> PoseLandmarks:
    """Return the landmarks as the clip's filters see them, and remember where the body is."""
    width, height = size
    to_pixels = np.array([width, height, width], np.float32)
    auxiliary = pose.auxiliary * to_pixels
    offset = auxiliary[1, :2] - auxiliary[0, :2]
    object_scale = 2 * math.hypot(float(offset[0]), float(offset[1]))
    points, visibility, world = pose.points, pose.visibility, pose.world
    if object_scale >= 1e-6:
        value_scale, frame = 1 / object_scale, state.num_frames
        auxiliary = state.aux_filter(auxiliary, frame, value_scale=value_scale)
        if state.smooths:
            pixels = state.pose_filter(points * to_pixels, frame, value_scale=value_scale)
            points = pixels / to_pixels
    if state.smooths:
        visibility = smooth_visibility(visibility, state.visibility)
        state.visibility = visibility
        world = state.world_filter(world, state.num_frames)
    state.auxiliary = (auxiliary / to_pixels)[:, :2]
    return PoseLandmarks(points, visibility, world, pose.auxiliary)
