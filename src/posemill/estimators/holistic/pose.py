"""The body: where it is, its 33 landmarks, and the two auxiliary points that follow it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from posemill.estimators.holistic.crops import empty_shares
from posemill.estimators.holistic.detection import Detector, sigmoid
from posemill.estimators.holistic.rects import (
    Point,
    Rect,
    Size,
    cos_sin,
    enlarge,
    f32,
    project,
    square_on_line,
    to_pixels,
    without_border,
)
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
_MIN_OBJECT_SCALE = 1e-6


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


def rect_from_detection(detector: Detector, outputs: list[FloatArray], size: Size) -> Rect | None:
    """Return where the body is by the detector's outputs for the whole picture, None if nobody."""
    points = detector.best(outputs[0][0], outputs[1].reshape(-1))
    if points is None:
        return None
    pad_x, pad_y = empty_shares(*size)
    scale_x, scale_y = f32(1) - (pad_x + pad_x), f32(1) - (pad_y + pad_y)
    return _rect_around(
        ((points[0, 0] - pad_x) / scale_x, (points[0, 1] - pad_y) / scale_y),
        ((points[1, 0] - pad_x) / scale_x, (points[1, 1] - pad_y) / scale_y),
        size,
    )


def rect_from_auxiliary(auxiliary: FloatArray, size: Size) -> Rect:
    """Return where the body is expected by the auxiliary points of the frame before."""
    (center_x, center_y), (reach_x, reach_y) = auxiliary[:, :2]
    return _rect_around((center_x, center_y), (reach_x, reach_y), size)


def _rect_around(center: Point, reach: Point, size: Size) -> Rect:
    pixels = to_pixels(center, size), to_pixels(reach, size)
    return enlarge(square_on_line(*pixels, size, target=_UPRIGHT), size, scale=_MARGIN)


def read_pose(
    outputs: list[FloatArray], rect: Rect, size: Size, *, min_score: float
) -> PoseLandmarks | None:
    """Return the landmarks from the network's outputs for the crop at `rect`, None if no body."""
    raw, score, heat, world = outputs
    if not score[0, 0] > min_score:
        return None
    raw = raw.reshape(39, 5)
    points = raw[:, :3] / np.float32(_CROP_SIZE)
    refine_by_heat(points, heat[0])
    points = project(without_border(points, rect, size), rect)
    visibility = sigmoid(raw[:33, 3])
    cos, sin = cos_sin(rect.rotation)
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
    weights = sigmoid(window)
    weights[outside_y[:, :, None] | outside_x[:, None, :]] = 0
    refined = on_map & (weights.max((1, 2)) >= _MIN_HEAT)
    total = _sum_in_order(weights)
    total[~refined] = 1
    x = _sum_in_order(weights * columns[:, None, :].astype(np.float32)) / _MAP_SIZE / total
    y = _sum_in_order(weights * rows[:, :, None].astype(np.float32)) / _MAP_SIZE / total
    points[refined, 0] = x[refined]
    points[refined, 1] = y[refined]


def _sum_in_order(windows: FloatArray) -> FloatArray:
    """Return the sum of each `(n, 9, 9)` window, row by row, as a plain loop in float32 adds it."""
    return windows.reshape(len(windows), -1).cumsum(1)[:, -1]


def follow(pose: PoseLandmarks, state: HolisticState | None, size: Size) -> PoseLandmarks:
    """Return the landmarks as the clip's filters see them, and remember where the body is.

    Without a state they only go to pixels and back, which can change their last bit.
    """
    width, height = size
    pixels_of = np.array([width, height, width], np.float32)
    pixels, visibility, world = pose.points * pixels_of, pose.visibility, pose.world
    if state is None or not state.follows_pose:
        return PoseLandmarks(pixels / pixels_of, visibility, world, pose.auxiliary)
    auxiliary = pose.auxiliary * pixels_of
    object_scale = _object_scale(pose.auxiliary, size)
    if object_scale >= _MIN_OBJECT_SCALE:
        value_scale, frame = f32(1) / object_scale, state.num_frames
        auxiliary = state.aux_filter(auxiliary, frame, value_scale=value_scale)
        if state.smooths:
            pixels = state.pose_filter(pixels, frame, value_scale=value_scale)
    if state.smooths:
        visibility = smooth_visibility(visibility, state.visibility)
        state.visibility = visibility
        world = state.world_filter(world, state.num_frames)
    state.auxiliary = (auxiliary / pixels_of)[:, :2]
    return PoseLandmarks(pixels / pixels_of, visibility, world, pose.auxiliary)


def _object_scale(auxiliary: FloatArray, size: Size) -> np.float32:
    """Return the side in pixels of the square between the two auxiliary points."""
    center, reach = (to_pixels((point[0], point[1]), size) for point in auxiliary)
    square = square_on_line(center, reach, size, target=_UPRIGHT)
    return (square.width * size[0] + square.height * size[1]) / f32(2)
