"""Crops of a picture, as the networks see them.

The warp is OpenCV's classic one, with the corners rounded to float32 as the legacy graph does: its
bytes are those of the original, bit for bit. Version 4.14 warps in another way, but samples at
given coordinates as before: ours are the classic ones, in every version from 4.10 on.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from posemill.estimators.landmarks.rects import HALF, Point, Rect, f32
from posemill.estimators.landmarks.sampling import Corner, Limits, SampleGrid
from posemill.records import FloatArray, Frame

_HALF_TURN = f32(180)
# Largest part of a picture, in areas of the crop, that is copied to give it a border.
_MAX_COPY = 6
# Pixels right of and below a sample that OpenCV wants to see before it takes its quick way.
_RIGHT, _BELOW = 3, 2
# OpenCV itself is quicker up to this size, where its warp is still the classic one.
_IS_CLASSIC = tuple(map(int, cv2.__version__.split(".")[:2])) < (4, 14)
_MAX_WARPED = 192


class _WholePlaces(NamedTuple):
    """Where a whole picture is sampled, which depends on nothing but its shape.

    `rows` and `columns` are the part of the crop that shows it, `maps` those of `remap` for it.
    """

    shape: tuple[int, ...]
    rows: slice
    columns: slice
    maps: tuple[npt.NDArray[Any], npt.NDArray[Any]]

    @classmethod
    def of(cls, x: FloatArray, y: FloatArray, shape: tuple[int, ...]) -> _WholePlaces:
        """Return the places of pictures of a shape, from where each pixel of the crop lies."""
        rows, columns = _near(y[:, 0], shape[0]), _near(x[0], shape[1])
        maps = cv2.convertMaps(x[rows, columns], y[rows, columns], cv2.CV_16SC2)
        return cls(shape, rows, columns, maps)


def _near(places: FloatArray, length: int) -> slice:
    """Return which places, in their order, are less than about a pixel outside of 0..length."""
    near = ((places > -1) & (places < length)).nonzero()[0]
    return slice(max(int(near[0]) - 1, 0), int(near[-1]) + 2)


class Cropper:
    """Cuts rotated squares out of pictures.

    Args:
        size: Side of the crops in pixels.
        grid: Finds where to sample; may be shared.
        repeats_border: Outside the picture, the nearest pixel; otherwise black. Around a whole
            picture it is always black.
        stretches: Whether a rectangle whose sides differ (in their last bits, they are squares)
            fills the crop; otherwise its longer side counts for both.
    """

    def __init__(
        self, size: int, grid: SampleGrid, *, repeats_border: bool, stretches: bool = False
    ) -> None:
        self.size = size
        self._stretches = stretches
        self._grid = grid
        self._whole: _WholePlaces | None = None
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
        if rect is None:
            self._cut_whole(frame, out)
            return
        height, width = f32(frame.shape[0]), f32(frame.shape[1])
        sides = rect.width * width, rect.height * height
        if not self._stretches:
            sides = (max(sides),) * 2
        angle = f32(float(rect.rotation * _HALF_TURN) / math.pi)
        corners = corners_of((rect.center_x * width, rect.center_y * height), sides, angle)
        if (_IS_CLASSIC and self.size <= _MAX_WARPED) or not _is_moderate(corners):
            self._warp(frame, corners, out)
            return
        source, origin, limits = self._source(frame, corners)
        x, y = self._grid.locate(corners, self.size, origin=origin, limits=limits)
        cv2.remap(source, x, y, cv2.INTER_LINEAR, dst=out, borderMode=self._border)

    def _cut_whole(self, frame: Frame, out: npt.NDArray[np.uint8]) -> None:
        """Write the square that holds the whole picture into `out`."""
        if self._whole is None or self._whole.shape != frame.shape:
            height, width = f32(frame.shape[0]), f32(frame.shape[1])
            sides = (max(width, height),) * 2
            corners = corners_of((width * HALF, height * HALF), sides, f32(0))
            if not _is_moderate(corners):
                self._warp(frame, corners, out)
                return
            x, y = self._grid.locate(corners, self.size, origin=(0, 0), limits=None)
            self._whole = _WholePlaces.of(x, y, frame.shape)
        rows, columns = self._whole.rows, self._whole.columns
        beside = out[rows, : columns.start], out[rows, columns.stop :]
        for black in (out[: rows.start], out[rows.stop :], *beside):
            black[:] = 0
        cv2.remap(frame, *self._whole.maps, cv2.INTER_LINEAR, dst=out[rows, columns])

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
