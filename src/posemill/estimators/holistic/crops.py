"""Crops of a picture, as the networks see them.

The warp is OpenCV's classic one, with the corners rounded to float32 as the legacy graph does:
with OpenCV 4.10 to 4.13 its bytes are those of the original, bit for bit.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
import numpy.typing as npt

from posemill.estimators.holistic.rects import HALF, Rect, f32
from posemill.records import Frame

_HALF_TURN = f32(180)


class Cropper:
    """Cuts rotated squares out of pictures into one buffer that is used again and again.

    Args:
        size: Side of the crops in pixels.
        repeats_border: Outside the picture, the nearest pixel; otherwise black.
    """

    def __init__(self, size: int, *, repeats_border: bool) -> None:
        self.size = size
        self._border = cv2.BORDER_REPLICATE if repeats_border else cv2.BORDER_CONSTANT
        corners = [(0, size), (0, 0), (size, 0), (size, size)]
        self._corners = np.array(corners, np.float32)

    def cut(self, frame: Frame, rect: Rect | None, out: npt.NDArray[np.uint8]) -> None:
        """Write a crop into `out` `(size, size, 3)`.

        Args:
            frame: The picture.
            rect: Square in pixels but for the last bit: the longer side counts. None for the
                square that holds the whole picture.
            out: Where to.
        """
        height, width = f32(frame.shape[0]), f32(frame.shape[1])
        if rect is None:
            side, angle = max(width, height), 0.0
            center = (float(width) / 2, float(height) / 2)
        else:
            side = max(rect.width * width, rect.height * height)
            angle = float(rect.rotation * _HALF_TURN) / math.pi
            center = (float(rect.center_x * width), float(rect.center_y * height))
        box = (center, (float(side), float(side)), angle)
        matrix = cv2.getPerspectiveTransform(cv2.boxPoints(box), self._corners)
        cv2.warpPerspective(
            frame, matrix, (self.size, self.size), dst=out, flags=cv2.INTER_LINEAR,
            borderMode=self._border,
        )  # fmt: skip


def empty_shares(width: np.float32, height: np.float32) -> tuple[np.float32, np.float32]:
    """Return which share of the square around the whole picture is empty left, and on top of it."""
    side, one = max(width, height), f32(1)
    return (one - width / side) * HALF, (one - height / side) * HALF
