"""Where Holistic reads a hand: where the body says it is, where it really is, or where it was."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from posemill.estimators.holistic.parts import PartFinder
from posemill.estimators.holistic.tracking import TrackingRule
from posemill.estimators.landmarks.body import PoseLandmarks
from posemill.estimators.landmarks.crop_network import CropNetwork, Part
from posemill.estimators.landmarks.hand import read_points, read_world, rect_of_landmarks
from posemill.estimators.landmarks.rects import (
    Point,
    Rect,
    Size,
    enlarge,
    f32,
    project,
    rotation_between,
    square_on_line,
    to_pixels,
    without_border,
)
from posemill.records import FloatArray

SIDES = ("left_hand", "right_hand")
MIN_SCORE = 0.5
# wrist, little finger, index finger of the body's landmarks
_BODY_POINTS = {"left_hand": (15, 17, 19), "right_hand": (16, 18, 20)}
_MIN_VISIBILITY = 0.1
_SHIFT = -0.1
_RECROP_SIZE = 256
_TWO, _THREE = f32(2), f32(3)
CROPS = ("stock", "fitted")
_PER_LENGTH, _PER_BREADTH = f32(1.36807), f32(0.57733)
_RULE = TrackingRule(degrees=40, translation=0.2, scale=0.4, margin=-0.1)


def rect_from_body(
    pose: PoseLandmarks, side: str, size: Size, *, crop: str = "stock"
) -> Rect | None:
    """Return roughly where a hand is by the body's landmarks, None if its wrist is hidden.

    Args:
        pose: The body.
        side: `left_hand` or `right_hand`.
        size: Of the picture.
        crop: One of `CROPS`. `stock`: twice the distance from the wrist to the middle of the hand
            is its size, which is too small where the hand does not face the camera. `fitted`: a
            rule with the hand's breadth in it (Moryossef 2024).
    """
    wrist, pinky, index = _BODY_POINTS[side]
    if not pose.visibility[wrist] > _MIN_VISIBILITY:
        return None
    wrist_px, pinky_px, index_px = (
        to_pixels(tuple(pose.points[point, :2]), size) for point in (wrist, pinky, index)
    )
    middle_x = (_TWO * index_px[0] + pinky_px[0]) / _THREE
    middle_y = (_TWO * index_px[1] + pinky_px[1]) / _THREE
    # The square lies around the middle of the hand, but is turned by the line from the wrist.
    square = square_on_line((middle_x, middle_y), wrist_px, size, target=0.0)
    if crop == "fitted":
        length = _distance(wrist_px, (middle_x, middle_y))
        side_px = _PER_LENGTH * length + _PER_BREADTH * _distance(index_px, pinky_px)
        square = square._replace(width=side_px / size[0], height=side_px / size[1])
    rotation = rotation_between(wrist_px, (middle_x, middle_y), target=math.pi / 2)
    return enlarge(square._replace(rotation=rotation), size, scale=2.7, shift_y=_SHIFT)


def _distance(start: Point, end: Point) -> np.float32:
    x, y = end[0] - start[0], end[1] - start[1]
    return np.sqrt(x * x + y * y)


def rect_from_recrop(outputs: list[FloatArray], rect: Rect, size: Size) -> Rect:
    """Return where the hand is by the recrop network's outputs for the crop at `rect`."""
    points = outputs[0].reshape(2, 2) / np.float32(_RECROP_SIZE)
    points = project(without_border(points, rect, size), rect)
    center, reach = (to_pixels((x, y), size) for x, y in points)
    square = square_on_line(center, reach, size, target=-math.pi / 2)
    return enlarge(square, size, scale=1.0, shift_y=_SHIFT)


def rect_to_read(found: Rect, previous: FloatArray | None, size: Size) -> Rect:
    """Return where the landmarks are read: where the hand was, if that still fits, or `found`."""
    if previous is None:
        return found
    return _RULE.choose(found, rect_of_landmarks(previous, size), previous, size)


class HandFinder(PartFinder):
    """Hands: a network moves the region that follows from the body.

    Args:
        locator: `hand_recrop`.
        reader: `hand_landmark_full`, with side for landmarks in metres.
        crop: The rule by which the region follows from the body, one of `CROPS`.
        keeps_world: Whether landmarks in metres are wanted.
    """

    def __init__(
        self, locator: CropNetwork, reader: CropNetwork, *, crop: str, keeps_world: bool
    ) -> None:
        super().__init__(locator, reader)
        self._crop, self._keeps_world = crop, keeps_world

    def _rects_from_body(self, body: PoseLandmarks, size: Size) -> Iterable[tuple[str, Rect]]:
        for side in SIDES:
            rect = rect_from_body(body, side, size, crop=self._crop)
            if rect is not None:
                yield side, rect

    def _rect_from_locator(self, outputs: list[FloatArray], rect: Rect, size: Size) -> Rect:
        return rect_from_recrop(outputs, rect, size)

    def _rect_to_read(self, rect: Rect, previous: FloatArray | None, size: Size) -> Rect:
        return rect_to_read(rect, previous, size)

    def _read(self, outputs: list[FloatArray], rect: Rect, size: Size) -> Part | None:
        part = read_points(outputs, rect, size, min_score=MIN_SCORE)
        if part is None or not self._keeps_world:
            return part
        return part._replace(world=read_world(outputs, rect))
