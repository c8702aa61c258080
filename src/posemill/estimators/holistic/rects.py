"""Rotated rectangles: where in a picture a network looks, and how its points come back.

All of it follows the legacy Holistic graph. A `Rect` has its centre and size normalised by the
picture's width and height, and a rotation in radians, clockwise on the screen.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posemill.records import FloatArray

Size = tuple[int, int]  # width, height in pixels
Point = tuple[float, float]

# In boxes around landmarks the running maximum starts at the smallest positive float32: a box
# that lies left of or above the picture reaches up to its edge.
_SMALLEST = float(np.finfo(np.float32).tiny)


class Rect(NamedTuple):
    """Centre and size normalised by the picture's width and height; rotation in radians."""

    center_x: float
    center_y: float
    width: float
    height: float
    rotation: float


def wrap_angle(angle: float) -> float:
    """Return the angle in -pi (inclusive) to pi (exclusive)."""
    return angle - 2 * math.pi * math.floor((angle + math.pi) / (2 * math.pi))


def rotation_between(start: Point, end: Point, size: Size, *, target: float) -> float:
    """Return by how much the line from start to end is turned away from the target angle."""
    width, height = size
    return wrap_angle(
        target - math.atan2(-(end[1] - start[1]) * height, (end[0] - start[0]) * width)
    )


def rect_on_line(start: Point, end: Point, size: Size, *, target: float) -> Rect:
    """Return the square around `start` whose half side is the distance to `end`."""
    width, height = size
    side = 2 * math.hypot((end[0] - start[0]) * width, (end[1] - start[1]) * height)
    rotation = rotation_between(start, end, size, target=target)
    return Rect(start[0], start[1], side / width, side / height, rotation)


def enlarge(rect: Rect, size: Size, *, scale: float, shift_y: float = 0.0) -> Rect:
    """Return a square of the longer side times `scale`, moved along its own y by `shift_y` heights.

    The shift is measured in the height before scaling.
    """
    width, height = size
    center_x, center_y = rect.center_x, rect.center_y
    if shift_y:
        center_x -= height * rect.height * shift_y * math.sin(rect.rotation) / width
        center_y += rect.height * shift_y * math.cos(rect.rotation)
    side = max(rect.width * width, rect.height * height) * scale
    return Rect(center_x, center_y, side / width, side / height, rect.rotation)


def box_of_landmarks(points: FloatArray) -> Rect:
    """Return the upright box around `(n, 2)` landmarks; its far edges are never negative."""
    low_x, low_y = points.min(0).tolist()
    high_x, high_y = points.max(0).tolist()
    high_x, high_y = max(high_x, _SMALLEST), max(high_y, _SMALLEST)
    return Rect((low_x + high_x) / 2, (low_y + high_y) / 2, high_x - low_x, high_y - low_y, 0.0)


def box_of_keypoints(points: FloatArray) -> Rect:
    """Return the upright box around `(n, 2)` points of a detection."""
    low_x, low_y = points.min(0).tolist()
    high_x, high_y = points.max(0).tolist()
    return Rect((low_x + high_x) / 2, (low_y + high_y) / 2, high_x - low_x, high_y - low_y, 0.0)


def rotated_box_of_landmarks(points: FloatArray, rotation: float, size: Size) -> Rect:
    """Return the box around `(n, 2)` landmarks, turned by `rotation`."""
    width, height = size
    box = box_of_landmarks(points)
    cos, sin = math.cos(rotation), math.sin(rotation)
    x = (points[:, 0] - box.center_x) * width
    y = (points[:, 1] - box.center_y) * height
    turned_x, turned_y = cos * x + sin * y, cos * y - sin * x
    low_x, high_x = float(turned_x.min()), max(float(turned_x.max()), _SMALLEST)
    low_y, high_y = float(turned_y.min()), max(float(turned_y.max()), _SMALLEST)
    middle_x, middle_y = (low_x + high_x) / 2, (low_y + high_y) / 2
    return Rect(
        (cos * middle_x - sin * middle_y) / width + box.center_x,
        (sin * middle_x + cos * middle_y) / height + box.center_y,
        (high_x - low_x) / width,
        (high_y - low_y) / height,
        rotation,
    )


def project(points: FloatArray, rect: Rect) -> FloatArray:
    """Return `(n, 2 or 3)` points of a crop (0..1) as points of the picture; z by the width."""
    cos, sin = math.cos(rect.rotation), math.sin(rect.rotation)
    result = np.empty_like(points)
    x, y = points[:, 0] - np.float32(0.5), points[:, 1] - np.float32(0.5)
    result[:, 0] = (cos * x - sin * y) * rect.width + rect.center_x
    result[:, 1] = (sin * x + cos * y) * rect.height + rect.center_y
    if points.shape[1] > 2:
        result[:, 2] = points[:, 2] * rect.width
    return result
