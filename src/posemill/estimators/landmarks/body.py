"""The body: where it is, its 33 landmarks, and the two auxiliary points that follow it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from posemill.estimators.landmarks.body_state import BodyState
from posemill.estimators.landmarks.detection import Detection, without_letterbox
from posemill.estimators.landmarks.libm import sigmoid
from posemill.estimators.landmarks.masks import enlarge_mask
from posemill.estimators.landmarks.rects import (
    Rect,
    Size,
    enlarge,
    f32,
    project,
    square_on_line,
    to_pixels,
    turn,
    without_border,
)
from posemill.estimators.landmarks.smoothing import smooth_visibility
from posemill.records import FloatArray

DETECTOR_STRIDES = (8, 16, 32, 32, 32)
DETECTOR_SIZE = 224
_MARGIN = 1.25
_CROP_SIZE = 256
_MAP_SIZE = 64
# The graph file says 7, but the Python API loses that option and runs with the default.
_KERNEL = 9
_REACH = _KERNEL // 2
_WINDOW_Y, _WINDOW_X = np.mgrid[-_REACH : _REACH + 1, -_REACH : _REACH + 1].reshape(2, -1, 1)
_MIN_HEAT = 0.5
_UPRIGHT = math.pi / 2
_MIN_OBJECT_SCALE = 1e-6


@dataclass
class PoseLandmarks:
    """The body in one frame.

    Args:
        landmarks: `(35, 3)`: x, y normalised by the picture's size, z in the scale of x; the 33 of
            the body, and two auxiliary ones: the middle of the hips, and a point at the distance of
            the body's size.
        visibility: `(33,)` in 0..1.
        metres: `(33, 3)` around the middle of the hips, turned as the crop was.
        rotation: Of the crop.
        world: `(33, 3)` in metres, upright; None unless it is wanted.
        mask: `(height, width)` of the picture: how sure each pixel belongs to the person, 0..1;
            None from a network without it.
    """

    landmarks: FloatArray
    visibility: FloatArray
    metres: FloatArray
    rotation: np.float32
    world: FloatArray | None = None
    mask: FloatArray | None = None

    @property
    def points(self) -> FloatArray:
        """The body's 33 landmarks, `(33, 3)`."""
        return self.landmarks[:33]


def rect_from_detection(detection: Detection, size: Size) -> Rect:
    """Return where the body is that was detected in a whole picture."""
    return rect_around(without_letterbox(detection, size).points, size)


def rect_around(points: FloatArray, size: Size) -> Rect:
    """Return the square around the first point that the second one says the size of."""
    (center_x, center_y), (reach_x, reach_y) = points[:2, :2]
    pixels = to_pixels((center_x, center_y), size), to_pixels((reach_x, reach_y), size)
    return enlarge(square_on_line(*pixels, size, target=_UPRIGHT), size, scale=_MARGIN)


def read_pose(
    outputs: list[FloatArray], rect: Rect, size: Size, *, min_score: float
) -> PoseLandmarks | None:
    """Return the landmarks from the network's outputs for the crop at `rect`, None if no body."""
    raw, score, heat, world = outputs[:4]
    if not float(score[0, 0]) > min_score:
        return None
    raw = raw.reshape(39, 5)[:35]
    points = raw[:, :3] / np.float32(_CROP_SIZE)
    refine_by_heat(points, heat[0])
    landmarks = project(without_border(points, rect, size), rect)
    visibility = sigmoid(raw[:33, 3])
    mask = enlarge_mask(outputs[4].reshape(256, 256), rect, size) if len(outputs) > 4 else None
    metres = world.reshape(39, 3)[:33]
    return PoseLandmarks(landmarks, visibility, metres, rect.rotation, mask=mask)


def refine_by_heat(points: FloatArray, heat: FloatArray) -> None:
    """Move each point to the centre of heat around it, where there is enough heat. In place.

    Args:
        points: `(n, 3)`, x and y in 0..1 of the crop.
        heat: `(n or more, 64, 64)` logits.
    """
    cells = points[:, :2] * np.float32(_MAP_SIZE)
    on_map = ((cells > -1) & (cells < _MAP_SIZE)).all(1)  # rounded towards zero: -0.5 is cell 0
    if not on_map.all():
        cells[~on_map] = 0
    x, y = cells.astype(np.int32).T
    columns, rows = _WINDOW_X + x, _WINDOW_Y + y  # (81, n)
    is_out = None
    if min(x.min(), y.min()) < _REACH or max(x.max(), y.max()) >= _MAP_SIZE - _REACH:
        is_out = (columns < 0) | (columns >= _MAP_SIZE) | (rows < 0) | (rows >= _MAP_SIZE)
        columns[is_out] = rows[is_out] = 0
    weights = sigmoid(heat[np.arange(len(x)), rows, columns])
    if is_out is not None:
        weights[is_out] = 0
    # Sums over the first axis go row by row, as a plain loop in float32 adds.
    total, warm = weights.sum(0), on_map & (weights.max(0) >= _MIN_HEAT)
    for axis, at in enumerate((columns, rows)):
        moved = (weights * at.astype(np.float32)).sum(0) / _MAP_SIZE
        np.divide(moved, total, out=points[:, axis], where=warm)


def follow(
    pose: PoseLandmarks, state: BodyState | None, size: Size, *, keeps_world: bool = False
) -> PoseLandmarks:
    """Return the landmarks as the clip's filters see them, and remember where the body is.

    Without a state they only go to pixels and back, which can change their last bit.

    Args:
        pose: Of one frame.
        state: Of its clip; None for a frame that stands alone.
        size: Of the frame.
        keeps_world: Whether landmarks in metres are wanted, too.
    """
    width, height = size
    pixels_of = np.array([width, height, width], np.float32)
    pixels = pose.landmarks * pixels_of
    if keeps_world:
        pose.world = turn(pose.metres, pose.rotation)
    if state is None or not state.follows_pose:
        pose.landmarks = pixels / pixels_of
        return pose
    object_scale = _object_scale(pixels[33:], size)
    smooth = pixels
    if object_scale >= _MIN_OBJECT_SCALE:
        scale = f32(1) / object_scale
        smooth = state.body_filter(pixels, state.num_frames, value_scale=float(scale))
    # Made with the size of this frame; the next one may have another.
    state.expect(rect_around(smooth[33:, :2] / pixels_of[:2], size))
    pose.landmarks = (smooth if state.smooths else pixels) / pixels_of
    if state.smooths:
        pose.visibility = smooth_visibility(pose.visibility, state.visibility)
        state.visibility = pose.visibility
        if pose.world is not None:
            pose.world = state.world_filter(pose.world, state.num_frames)
    return pose


def _object_scale(auxiliary: FloatArray, size: Size) -> np.float32:
    """Return the side in pixels of the square between the two auxiliary points, in pixels too."""
    (center_x, center_y), (reach_x, reach_y) = auxiliary[:, :2]
    square = square_on_line((center_x, center_y), (reach_x, reach_y), size, target=_UPRIGHT)
    return (square.width * size[0] + square.height * size[1]) / f32(2)
