"""Crops of a picture, as the networks see them.

The warp is OpenCV's classic one, with the corners rounded to float32 as the legacy graph does: its
bytes are those of the original, bit for bit. The corners are our own: version 4.14 rounds those of
its `boxPoints` in another way, and warps as before.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
import numpy.typing as npt

from posemill.estimators.holistic.rects import HALF, Point, Rect, f32
from posemill.records import Frame

Corner = tuple[float, float]
_HALF_TURN = f32(180)


class Cropper:
    """Cuts rotated squares out of pictures.

    Args:
        size: Side of the crops in pixels.
        repeats_border: Outside the picture, the nearest pixel; otherwise black.
        stretches: Whether a rectangle whose sides differ (in their last bits, they are squares)
            fills the crop; otherwise its longer side counts for both.
    """

    def __init__(self, size: int, *, repeats_border: bool, stretches: bool = False) -> None:
        self.size = size
        self._stretches = stretches
        self._border = cv2.BORDER_REPLICATE if repeats_border else cv2.BORDER_CONSTANT
        corners = [(0, size), (0, 0), (size, 0), (size, size)]
        self._corners = np.array(corners, np.float32)

    def cut(self, frame: Frame, rect: Rect | None, out: npt.NDArray[np.uint8]) -> None:
        """Write a crop into `out` `(size, size, 3)`.

        Args:
            frame: The picture.
            rect: Square in pixels but for the last bit. None for the square that holds the whole
                picture.
            out: Where to.
        """
        height, width = f32(frame.shape[0]), f32(frame.shape[1])
        if rect is None:
            sides = (max(width, height),) * 2
            angle, center = f32(0), (width * HALF, height * HALF)
        else:
            sides = rect.width * width, rect.height * height
            if not self._stretches:
                sides = (max(sides),) * 2
            angle = f32(float(rect.rotation * _HALF_TURN) / math.pi)
            center = (rect.center_x * width, rect.center_y * height)
        corners = corners_of(center, sides, angle)
        to_crop = cv2.getPerspectiveTransform(np.array(corners, np.float32), self._corners)
        cv2.warpPerspective(
            frame, to_crop, (self.size, self.size), dst=out, flags=cv2.INTER_LINEAR,
            borderMode=self._border,
        )  # fmt: skip


def corners_of(center: Point, sides: Point, degrees: np.float32) -> list[Corner]:
    """Return bottom left, top left, top right and bottom right of a turned rectangle, in pixels.

    Rounded to float32 at every step, as OpenCV's `boxPoints` does.
    """
    x, y = center
    radians = float(degrees) * math.pi / 180
    down, right = f32(math.cos(radians)) * HALF, f32(math.sin(radians)) * HALF
    width, height = sides
    low_x, low_y = x - right * height - down * width, y + down * height - right * width
    top_x, top_y = x + right * height - down * width, y - down * height - right * width
    two = f32(2)
    corners = ((low_x, low_y), (top_x, top_y), (two * x - low_x, two * y - low_y),
               (two * x - top_x, two * y - top_y))  # fmt: skip
    return [(float(x), float(y)) for x, y in corners]


def empty_shares(width: np.float32, height: np.float32) -> tuple[np.float32, np.float32]:
    """Return which share of the square around the whole picture is empty left, and on top of it."""
    aspect, one, none = height / width, f32(1), f32(0)
    if aspect < one:
        return none, (one - aspect) * HALF
    return (one - one / aspect) * HALF, none
