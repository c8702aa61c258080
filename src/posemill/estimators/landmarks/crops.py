"""Crops of a picture, as the networks see them.

The warp is OpenCV's classic one, with the corners rounded to float32 as the legacy graph does: its
bytes are those of the original, bit for bit. Version 4.14 warps in another way, but samples at
given coordinates as before: ours are the classic ones, in every version from 4.10 on.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
import numpy.typing as npt

from posemill.estimators.landmarks.rects import HALF, Point, Rect, f32
from posemill.estimators.landmarks.sampling import Corner, Limits, SampleGrid
from posemill.records import Frame

_HALF_TURN = f32(180)
# Largest part of a picture, in areas of the crop, that is copied to give it a border.
_MAX_COPY = 6
# Pixels right of and below a sample that OpenCV wants to see before it takes its quick way.
_RIGHT, _BELOW = 3, 2
# OpenCV itself is quicker up to this size, where its warp is still the classic one.
_IS_CLASSIC = tuple(map(int, cv2.__version__.split(".")[:2])) < (4, 14)
_MAX_WARPED = 192


class Cropper:
    """Cuts rotated squares out of pictures.

    Args:
        size: Side of the crops in pixels.
        grid: Finds where to sample; may be shared.
        repeats_border: Outside the picture, the nearest pixel; otherwise black.
        stretches: Whether a rectangle whose sides differ (in their last bits, they are squares)
            fills the crop; otherwise its longer side counts for both.
    """

    def __init__(
        self, size: int, grid: SampleGrid, *, repeats_border: bool, stretches: bool = False
    ) -> None:
        self.size = size
        self._stretches = stretches
        self._grid = grid
        # The coordinates of whole pictures, for they depend on nothing but the pictures' shape.
        self._whole: tuple[tuple[int, ...], npt.NDArray[np.float32]] | None = None
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
        is_small = rect is not None and _IS_CLASSIC and self.size <= _MAX_WARPED
        if is_small or not _is_moderate(corners):
            self._warp(frame, corners, out)
            return
        source, (left, top), limits = self._source(frame, corners)
        if rect is None and self._whole is not None and self._whole[0] == frame.shape:
            x, y = self._whole[1]
        else:
            x, y = maps = self._grid.locate(corners, self.size, origin=(left, top), limits=limits)
            if rect is None:
                self._whole = frame.shape, maps.copy()
        cv2.remap(source, x, y, cv2.INTER_LINEAR, dst=out, borderMode=self._border)

    def _source(
        self, frame: Frame, corners: list[Corner]
    ) -> tuple[Frame, tuple[int, int], Limits | None]:
        """Return the part of the picture under the crop, its origin, and limits for coordinates.

        OpenCV takes twice as long for pixels outside the picture as for those inside. A part that
        is not large is copied into a thin frame of its border, and all that lies further outside
        is sampled there: it has the same colours.
        """
        height, width = frame.shape[:2]
        low_x, low_y, high_x, high_y = _box(corners)
        left = min(max(math.floor(low_x) - 1, 0), width - 1)
        top = min(max(math.floor(low_y) - 1, 0), height - 1)
        right = max(min(math.ceil(high_x) + _RIGHT, width), left + 1)
        bottom = max(min(math.ceil(high_y) + _BELOW, height), top + 1)
        part = frame[top:bottom, left:right]
        if low_x >= 0 and low_y >= 0 and high_x < width - _RIGHT and high_y < height - _BELOW:
            return part, (left, top), None
        part_height, part_width = part.shape[:2]
        if part_height * part_width > _MAX_COPY * self.size**2:
            return part, (left, top), ((-1, part_width), (-1, part_height))
        bordered: Frame = cv2.copyMakeBorder(  # type: ignore[assignment]  # its stubs: any number
            part, 1, _BELOW, 1, _RIGHT, self._border
        )
        return bordered, (left - 1, top - 1), ((0, part_width + 1), (0, part_height + 1))

    def _warp(self, frame: Frame, corners: list[Corner], out: npt.NDArray[np.uint8]) -> None:
        """Write the crop into `out` by OpenCV alone."""
        to_crop = cv2.getPerspectiveTransform(np.array(corners, np.float32), self._corners)
        cv2.warpPerspective(
            frame,
            to_crop,
            (self.size, self.size),
            dst=out,
            flags=cv2.INTER_LINEAR,
            borderMode=self._border,
        )


def _box(corners: list[Corner]) -> tuple[float, float, float, float]:
    """Return lowest x and y, highest x and y."""
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = corners
    return min(x0, x1, x2, x3), min(y0, y1, y2, y3), max(x0, x1, x2, x3), max(y0, y1, y2, y3)


def _is_moderate(corners: list[Corner]) -> bool:
    """Return whether a crop is of a size and at a place for `SampleGrid`; False if not finite."""
    low_x, low_y, high_x, high_y = _box(corners)
    reach, side = SampleGrid.MAX_REACH, SampleGrid.MIN_SIDE
    is_near = low_x > -reach and low_y > -reach and high_x < reach and high_y < reach
    return is_near and high_x - low_x >= side and high_y - low_y >= side


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
    right_top = two * x - low_x, two * y - low_y
    right_low = two * x - top_x, two * y - top_y
    corners = ((low_x, low_y), (top_x, top_y), right_top, right_low)
    return [(float(x), float(y)) for x, y in corners]
