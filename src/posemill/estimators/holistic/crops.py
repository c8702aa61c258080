"""Crops of a picture, as the networks see them.

The warp is OpenCV's classic one, with the corners rounded to float32 as the legacy graph does:
with OpenCV 4.10 to 4.13 its bytes are those of the original, bit for bit. Coordinates often lie
exactly between two of the 1/32 px steps it rounds to, and then the last bit of float64 decides:
whoever computes them in another order gets another pixel now and then.
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
# Largest source area, in areas of the crop, that is copied to give it a border.
_MAX_ENLARGEMENT = 2.5
_MARGIN = 2


class Cropper:
    """Cuts rotated squares out of pictures.

    Args:
        size: Side of the crops in pixels.
        repeats_border: Outside the picture, the nearest pixel; otherwise black.
        stretches: Whether a rectangle whose sides differ (in their last bits, they are squares)
            fills the crop; otherwise its longer side counts for both.
        exact: Whether every byte is the original's. Otherwise crops that reach over the picture's
            edge take half the time, and one of them in thirty has a pixel off by a grey level.
    """

    def __init__(
        self, size: int, *, repeats_border: bool, stretches: bool = False, exact: bool = False
    ) -> None:
        self.size = size
        self._stretches = stretches
        self._exact = exact
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
        # Solved by OpenCV, not in closed form: the last bits of the matrix decide some pixels.
        to_crop = cv2.getPerspectiveTransform(np.array(corners, np.float32), self._corners)
        to_source = cv2.invert(to_crop)[1].astype(np.float64, copy=False)
        if not self._exact:
            frame = self._with_border(frame, corners, to_source)
        cv2.warpPerspective(
            frame, to_source, (self.size, self.size), dst=out,
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, borderMode=self._border,
        )  # fmt: skip

    def _with_border(
        self, frame: Frame, corners: list[Corner], to_source: npt.NDArray[np.float64]
    ) -> Frame:
        """Return the part of the picture under the crop, with what lies outside drawn around it.

        OpenCV takes twice as long for pixels outside the picture as for those inside. Where the
        part is not much larger than the crop, it is cheaper to copy it into a frame of its border.
        `to_source` is moved along with it.
        """
        height, width = frame.shape[:2]
        (low_x, low_y), (high_x, high_y) = (
            (pick(x for x, _ in corners), pick(y for _, y in corners)) for pick in (min, max)
        )
        if low_x >= 1 and low_y >= 1 and high_x < width - 2 and high_y < height - 2:
            return frame
        if not (high_x - low_x) * (high_y - low_y) < _MAX_ENLARGEMENT * self.size**2:
            return frame
        left, top = math.floor(low_x) - _MARGIN, math.floor(low_y) - _MARGIN
        right, bottom = math.ceil(high_x) + _MARGIN, math.ceil(high_y) + _MARGIN
        part = frame[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
        if not part.size:
            return frame
        to_source[0] -= left * to_source[2]
        to_source[1] -= top * to_source[2]
        bordered: Frame = cv2.copyMakeBorder(  # type: ignore[assignment]  # its stubs: any number
            part, max(-top, 0), max(bottom - height, 0), max(-left, 0), max(right - width, 0),
            self._border,
        )  # fmt: skip
        return bordered


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
