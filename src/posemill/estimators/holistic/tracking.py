"""Whether a hand or a face is looked for where it was in the frame before."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from posemill.estimators.landmarks.rects import Rect, Size, wrap_angle
from posemill.records import FloatArray


@dataclass(frozen=True)
class TrackingRule:
    """How far the rectangle from the last frame may be from the one found in this frame.

    Args:
        degrees: Difference of rotation.
        translation: Difference of the centres, in sides of the found rectangle.
        scale: Difference of the sides, in sides of the found rectangle.
        margin: By how much the found rectangle is enlarged before all old points must lie in it.
    """

    degrees: float
    translation: float
    scale: float
    margin: float

    def choose(self, found: Rect, previous: Rect, points: FloatArray, size: Size) -> Rect:
        """Return `previous` where it still fits, else `found`.

        Args:
            found: From this frame.
            previous: From the last frame's landmarks.
            points: `(n, 3)`, those landmarks.
            size: Of this frame.
        """
        width, height = size
        if abs(math.degrees(wrap_angle(previous.rotation - found.rotation))) > self.degrees:
            return found
        cos, sin = math.cos(found.rotation), math.sin(found.rotation)
        found_w, found_h = found.width * width, found.height * height
        off_x = (previous.center_x - found.center_x) * width
        off_y = (previous.center_y - found.center_y) * height
        if (
            abs(cos * off_x + sin * off_y) > self.translation * found_w
            or abs(cos * off_y - sin * off_x) > self.translation * found_h
            or abs(previous.width * width - found_w) > self.scale * found_w
            or abs(previous.height * height - found_h) > self.scale * found_h
        ):
            return found
        x = (points[:, 0] - np.float32(found.center_x)) * width
        y = (points[:, 1] - np.float32(found.center_y)) * height
        reach_x, reach_y = found_w * (1 + self.margin) / 2, found_h * (1 + self.margin) / 2
        inside_x = np.abs(cos * x + sin * y).max() < reach_x
        inside_y = np.abs(cos * y - sin * x).max() < reach_y
        return previous if inside_x and inside_y else found
