"""Bones and points as lines and dots: colours by part and side, widths by the size of the part."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from posemill.records import BoolArray, FloatArray, Frame
from posemill.skeletons import Bone, Part, get_skeleton
from posemill.skeletons.palette import (
    BODY_PARTS,
    COLOURS,
    RIM,
    Colour,
    bone_keys,
    point_keys,
    repeated_points,
)

_SHIFT = 4  # cv2 takes coordinates in sixteenths of a pixel: lines do not jump from frame to frame
_UNSURE_OPACITY = 0.4
_FACE_RIM_OPACITY = 0.35  # a full rim would hide the small features below it
_ANGLES = np.linspace(0, 2 * np.pi, 24, endpoint=False)
_CIRCLE = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], 1)  # (corners, 2), radius 1


def paint_keypoints(
    canvas: Frame,
    skeleton_name: str,
    points: FloatArray,
    sure: BoolArray,
    *,
    line_scale: float = 1.0,
    rim: Colour = RIM,
) -> None:
    """Draw one frame's keypoints into the canvas.

    Args:
        canvas: `(height, width, 3)` RGB, modified.
        skeleton_name: Layout of the points.
        points: `(keypoints, 2)` in pixels of the canvas, NaN where not to be drawn.
        sure: `(keypoints,)`: the others are drawn fainter.
        line_scale: Widens all lines.
        rim: Colour around all lines: one for each person.
    """
    is_found = ~np.isnan(points[:, 0])
    thin = np.zeros(len(points), bool)
    for part_name, repeated in repeated_points(skeleton_name).items():
        part = get_skeleton(skeleton_name).part(part_name)
        if is_found[part.start : part.stop].any():
            thin[list(repeated)] = True
    brush = _Brush(skeleton_name, points, thin, scale=line_scale, rim=rim)
    if (is_found & ~sure).any():
        layer = canvas.copy()
        brush.paint(layer, is_found)
        _blend(layer, canvas, _UNSURE_OPACITY)
    brush.paint(canvas, is_found & sure)


@cache
def _drawing_order(skeleton_name: str) -> tuple[tuple[Part, tuple[int, ...]], ...]:
    """Return each part with the numbers of its bones: body first, hands last, so on top."""
    skeleton = get_skeleton(skeleton_name)
    order = (*BODY_PARTS, "face", "left_hand", "right_hand")
    rank = {name: number for number, name in enumerate(order)}
    parts = sorted(skeleton.parts, key=lambda part: rank.get(part.name, len(rank)))
    # A bone between two parts (ankle to toe) belongs to the later one.
    ends = list(enumerate(map(max, skeleton.bones)))
    return tuple(
        (part, tuple(number for number, end in ends if part.start <= end < part.stop))
        for part in parts
    )


@dataclass(frozen=True)
class _Brush:
    """What is the same for all strokes of a frame."""

    skeleton_name: str
    points: FloatArray  # (keypoints, 2) in pixels
    thin: BoolArray  # (keypoints,): body points that a part of their own shows better
    scale: float  # of all line widths
    rim: Colour = RIM

    def paint(self, canvas: Frame, visible: BoolArray) -> None:
        """Draw every visible point, and every bone between two of them."""
        skeleton, keys = get_skeleton(self.skeleton_name), bone_keys(self.skeleton_name)
        for part, numbers in _drawing_order(self.skeleton_name):
            width = self._part_width(part, max(canvas.shape[:2]))
            lines = [
                (skeleton.bones[number], COLOURS[keys[number]])
                for number in numbers
                if visible[list(skeleton.bones[number])].all()
            ]
            # All rims first: the rim of one bone must not cut through another.
            rim_layer = canvas.copy() if part.name == "face" and lines else canvas
            for bone, _ in lines:
                if not self.thin[list(bone)].any():
                    self._line(rim_layer, bone, self.rim, width + 2 * max(1.0, width / 4))
            if rim_layer is not canvas:
                _blend(rim_layer, canvas, _FACE_RIM_OPACITY)
            for bone, colour in lines:
                is_thin = self.thin[list(bone)].any()
                self._line(canvas, bone, colour, 0.4 * width if is_thin else width)
            if part.name != "face":
                self._paint_joints(canvas, part, visible, width)

    def _paint_joints(self, canvas: Frame, part: Part, visible: BoolArray, width: float) -> None:
        keys = point_keys(self.skeleton_name)
        for index in range(part.start, part.stop):
            if visible[index] and not self.thin[index]:
                self._dot(canvas, index, self.rim, 0.85 * width + max(1.0, width / 4))
                self._dot(canvas, index, COLOURS[keys[index]], 0.85 * width)
                self._dot(canvas, index, (255, 255, 255), 0.45 * width)

    def _part_width(self, part: Part, long_side: int) -> float:
        """Return the line width for a part: thinner where the part is small in the picture."""
        points = self.points[part.start : part.stop]
        points = points[~np.isnan(points[:, 0])]
        extent = float(np.ptp(points, axis=0).max()) if len(points) else 0.0
        share, detail = 0.75, 24
        if part.name == "face":
            share, detail = 1 / 3, 90
        elif part.name in BODY_PARTS:
            share, detail = 1, 60
        width = min(share * long_side / 220, extent / detail)
        return max(1.0, width * self.scale)

    def _line(self, canvas: Frame, bone: Bone, colour: Colour, width: float) -> None:
        start, end = self.points[list(bone)]
        along = end - start
        # cv2.line knows whole widths only; a filled polygon has any, plus half a pixel of blur.
        across = np.array([-along[1], along[0]]) / max(np.hypot(*along), 1e-3) * (width - 1) / 2
        corners = np.array([start + across, end + across, end - across, start - across])
        _fill(canvas, corners, colour)

    def _dot(self, canvas: Frame, index: int, colour: Colour, radius: float) -> None:
        # cv2.circle makes diamonds of small circles.
        _fill(canvas, self.points[index] + max(radius - 0.5, 0.25) * _CIRCLE, colour)


def _fill(canvas: Frame, corners: npt.NDArray[Any], colour: Colour) -> None:
    fixed = np.rint(corners * (1 << _SHIFT)).astype(np.int32)
    cv2.fillConvexPoly(canvas, fixed, colour, cv2.LINE_AA, _SHIFT)


def _blend(layer: Frame, canvas: Frame, opacity: float) -> None:
    cv2.addWeighted(layer, opacity, canvas, 1 - opacity, 0, dst=canvas)
