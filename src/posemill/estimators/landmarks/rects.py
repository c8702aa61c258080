"""Rotated rectangles: where in a picture a network looks, and how its points come back.

All of it follows MediaPipe's legacy graphs, in float32 and in its order of operations: a crop's
pixels are chosen in steps of 1/32 px, so the last bit of a corner decides some of them, and the
networks behind magnify it. A `Rect` has its centre and size normalised by the picture's width and
height, and a rotation in radians, clockwise on the screen.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from posemill.estimators.landmarks.libm import atan2, cos_sin
from posemill.records import FloatArray

Size = tuple[np.float32, np.float32]  # width, height in pixels
Point = tuple[np.float32, np.float32]
f32 = np.float32

HALF = f32(0.5)
_TWO = f32(2)
# In boxes around landmarks the running maximum starts at the smallest positive float32: a box
# that lies left of or above the picture reaches up to its edge.
_SMALLEST = np.finfo(np.float32).tiny


class Rect(NamedTuple):
    """Centre and size normalised by the picture's width and height; rotation in radians."""

    center_x: np.float32
    center_y: np.float32
    width: np.float32
    height: np.float32
    rotation: np.float32


class Region(NamedTuple):
    """Where a body may be; `closer` is the same in a part of the picture, seen larger."""

    rect: Rect
    closer: Rect | None = None


WHOLE = Rect(HALF, HALF, f32(1), f32(1), f32(0))


def wrap_angle(angle: float | np.float32) -> np.float32:
    """Return the angle in -pi (inclusive) to pi (exclusive)."""
    angle = float(angle)
    return f32(angle - 2 * math.pi * math.floor((angle + math.pi) / (2 * math.pi)))


def rotation_between(start: Point, end: Point, *, target: float) -> np.float32:
    """Return by how much the line from start to end (in pixels) is turned away from the target."""
    turn = atan2(-(end[1] - start[1]), end[0] - start[0])
    return wrap_angle(f32(target) - turn)


def to_pixels(point: Point, size: Size) -> Point:
    """Return a normalised point in pixels."""
    return point[0] * size[0], point[1] * size[1]


def square_on_line(start: Point, end: Point, size: Size, *, target: float) -> Rect:
    """Return the square around `start` whose half side is the distance to `end`, both in pixels."""
    width, height = size
    x, y = end[0] - start[0], end[1] - start[1]
    side = np.sqrt(x * x + y * y) * _TWO
    rotation = rotation_between(start, end, target=target)
    return Rect(start[0] / width, start[1] / height, side / width, side / height, rotation)


def enlarge(rect: Rect, size: Size, *, scale: float, shift_y: float = 0.0) -> Rect:
    """Return a square of the longer side times `scale`, moved along its own y by `shift_y` heights.

    The shift is measured in the height before scaling.
    """
    width, height = size
    center_x, center_y = rect.center_x, rect.center_y
    if shift_y:
        cos, sin = cos_sin(rect.rotation)
        shift = height * rect.height * f32(shift_y)
        center_x = center_x - shift * sin / width
        center_y = center_y + shift * cos / height
    side = max(rect.width * width, rect.height * height)
    factor = f32(scale)
    return Rect(center_x, center_y, side / width * factor, side / height * factor, rect.rotation)


def box_of_landmarks(points: FloatArray, rotation: np.float32) -> Rect:
    """Return the upright box around `(n, 2)` landmarks; its far edges are never negative."""
    low_x, low_y = points.min(0)
    high_x, high_y = np.maximum(points.max(0), _SMALLEST)
    width, height = high_x - low_x, high_y - low_y
    return Rect(low_x + width / _TWO, low_y + height / _TWO, width, height, rotation)


def box_of_keypoints(points: FloatArray, rotation: np.float32) -> Rect:
    """Return the upright box around `(n, 2)` points of a detection."""
    low_x, low_y = points.min(0)
    high_x, high_y = points.max(0)
    width, height = high_x - low_x, high_y - low_y
    return Rect((low_x + high_x) / _TWO, (low_y + high_y) / _TWO, width, height, rotation)


def turned_box_of_landmarks(points: FloatArray, rotation: np.float32, size: Size) -> Rect:
    """Return the box around `(n, 2)` landmarks, turned by `rotation`."""
    width, height = size
    low, high = points.min(0), np.maximum(points.max(0), _SMALLEST)
    middle_x, middle_y = (high + low) / _TWO
    cos, sin = cos_sin(wrap_angle(-rotation))
    x = (points[:, 0] - middle_x) * width
    y = (points[:, 1] - middle_y) * height
    turned_x, turned_y = x * cos - y * sin, x * sin + y * cos
    low_x, high_x = turned_x.min(), max(turned_x.max(), _SMALLEST)
    low_y, high_y = turned_y.min(), max(turned_y.max(), _SMALLEST)
    center_x, center_y = (high_x + low_x) / _TWO, (high_y + low_y) / _TWO
    cos, sin = cos_sin(rotation)
    return Rect(
        (center_x * cos - center_y * sin + width * middle_x) / width,
        (center_x * sin + center_y * cos + height * middle_y) / height,
        (high_x - low_x) / width,
        (high_y - low_y) / height,
        rotation,
    )


def turn(points: FloatArray, rotation: np.float32) -> FloatArray:
    """Return `(n, 3)` points in metres, their x and y turned by the rotation of the crop."""
    cos, sin = cos_sin(rotation)
    x, y, z = points.T
    return np.stack([cos * x - sin * y, sin * x + cos * y, z], 1)


def overlap(one: Rect, other: Rect) -> float:
    """Return intersection over union of two rectangles as if they were upright, in shares."""
    left, top, right, bottom = _edges(one)
    other_left, other_top, other_right, other_bottom = _edges(other)
    width = min(right, other_right) - max(left, other_left)
    height = min(bottom, other_bottom) - max(top, other_top)
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    areas = (right - left) * (bottom - top) + (other_right - other_left) * (
        other_bottom - other_top
    )
    return float(shared / (areas - shared))


def _edges(rect: Rect) -> tuple[np.float32, np.float32, np.float32, np.float32]:
    left = f32(float(rect.center_x) - float(rect.width) / 2)
    top = f32(float(rect.center_y) - float(rect.height) / 2)
    return left, top, left + rect.width, top + rect.height


def without_border(points: FloatArray, rect: Rect, size: Size) -> FloatArray:
    """Return `(n, 2 or 3)` points of a crop as shares of `rect`, not of the square around it.

    A rect is square but for its last bits; the crop is the square of its longer side.
    """
    one = f32(1)
    aspect = (rect.height * size[1]) / (rect.width * size[0])
    if aspect == one:
        return points
    result = points.copy()
    if aspect < one:
        top = (one - aspect) / _TWO
        result[:, 1] = (points[:, 1] - top) / (one - (top + top))
    else:
        left = (one - one / aspect) / _TWO
        inner = one - (left + left)
        result[:, 0] = (points[:, 0] - left) / inner
        if points.shape[1] > 2:
            result[:, 2] = points[:, 2] / inner
    return result


def project(points: FloatArray, rect: Rect) -> FloatArray:
    """Return `(n, 2 or 3)` points of a crop (0..1) as points of the picture; z by the width."""
    cos, sin = cos_sin(rect.rotation)
    result = np.empty_like(points)
    x, y = points[:, 0] - HALF, points[:, 1] - HALF
    result[:, 0] = (cos * x - sin * y) * rect.width + rect.center_x
    result[:, 1] = (sin * x + cos * y) * rect.height + rect.center_y
    if points.shape[1] > 2:
        result[:, 2] = points[:, 2] * rect.width
    return result


def project_by_matrix(points: FloatArray, rect: Rect, size: Size) -> FloatArray:
    """Return `(n, 2)` points of a crop (0..1) as points of the picture, as for detections.

    The same as `project` but for the order of operations.
    """
    along, across, offset = _projection(rect, size)
    return points[:, :1] * along + points[:, 1:2] * across + offset


@functools.lru_cache(maxsize=64)  # for whole pictures, which many are
def _projection(rect: Rect, size: Size) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what a step along and across a crop is in shares of the picture, and its corner."""
    width, height = size
    side = max(rect.width * width, rect.height * height)
    cos, sin = cos_sin(rect.rotation)
    center_x, center_y = rect.center_x * width, rect.center_y * height
    to_x, to_y = f32(1) / width, f32(1) / height
    offset_x = (-HALF * side * cos + HALF * side * sin + center_x) * to_x
    offset_y = (-HALF * side * cos - HALF * side * sin + center_y) * to_y
    along, across = (side * cos * to_x, side * sin * to_y), (-side * sin * to_x, side * cos * to_y)
    return np.array(along), np.array(across), np.array((offset_x, offset_y))
