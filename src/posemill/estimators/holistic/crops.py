"""Crops of a picture, as the networks see them.

The warp is OpenCV's classic one, with the corners rounded to float32 as the legacy graph does:
with OpenCV 4.10 to 4.13 its bytes are those of the original, bit for bit.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
import numpy.typing as npt

from posemill.estimators.holistic.rects import Rect
from posemill.records import Frame


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

    def cut(self, frame: Frame, rect: Rect, out: npt.NDArray[np.uint8]) -> None:
        """Write the crop at `rect`, which is square in pixels, into `out` `(size, size, 3)`."""
        height, width = frame.shape[:2]
        box = (
            (rect.center_x * width, rect.center_y * height),
            (rect.width * width, rect.height * height),
            math.degrees(rect.rotation),
        )
        matrix = cv2.getPerspectiveTransform(cv2.boxPoints(box), self._corners)
        cv2.warpPerspective(
            frame, matrix, (self.size, self.size), dst=out, flags=cv2.INTER_LINEAR,
            borderMode=self._border,
        )  # fmt: skip


def whole_picture(width: int, height: int) -> tuple[Rect, float, float]:
    """Return the square that holds the whole picture, and the empty share left and on top of it."""
    side = max(width, height)
    rect = Rect(0.5, 0.5, side / width, side / height, 0.0)
    return rect, (1 - width / side) / 2, (1 - height / side) / 2
