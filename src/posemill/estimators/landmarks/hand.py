"""A hand: where a palm was detected, its 21 landmarks, and where it will be."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posemill.estimators.landmarks.crop_network import Part
from posemill.estimators.landmarks.detection import Detection
from posemill.estimators.landmarks.libm import sigmoid
from posemill.estimators.landmarks.rects import (
    Rect,
    Size,
    enlarge,
    f32,
    project,
    rotation_between,
    to_pixels,
    turn,
    turned_box_of_landmarks,
    without_border,
)
from posemill.records import FloatArray

PALM_STRIDES = (8, 16, 16, 16)
PALM_SIZE = 192
_CROP_SIZE = 224
_DEPTH_SCALE = 0.4
_UP = math.pi / 2
_TWO = f32(2)
_PALM = np.array([0, 1, 2, 3, 5, 6, 9, 10, 13, 14, 17, 18])
_LABELS = ("Left", "Right")


class Hand(NamedTuple):
    """A hand of which the network also said which one it is, and its size.

    `points` are `(21, 3)` in shares of the picture, `world` in metres. `score` says how sure it is
    a hand. `side` is 0 for "Left", 1 for "Right": the network takes pictures for mirrored.
    `side_score` is in 0.5..1.
    """

    points: FloatArray
    score: float
    world: FloatArray
    side: int
    side_score: float

    @property
    def label(self) -> str:
        """`Left` or `Right`."""
        return _LABELS[self.side]


class SideLayer:
    """The layer that says how sure a hand is a left one, with MediaPipe's order of additions.

    Args:
        weights: `(features,)`, a multiple of four.
        bias: `(1,)`.
    """

    def __init__(self, weights: FloatArray, bias: FloatArray) -> None:
        self._weights, self._bias = weights, bias[0]

    def left_score(self, features: FloatArray) -> np.float32:
        """Return how sure a hand is a left one, 0..1, from the network's `(features,)`."""
        products = (features * self._weights).reshape(-1, 4)
        products[0, 0] += self._bias
        # Four sums of every fourth product, row by row, as a register of four numbers adds.
        first, second, third, fourth = products.sum(0)
        logit = (first + third) + (second + fourth)
        return sigmoid(logit.reshape(1))[0]


def rect_from_palm(detection: Detection, size: Size) -> Rect:
    """Return where the hand of a palm is, which was detected in a picture of that size."""
    (wrist_x, wrist_y), (middle_x, middle_y) = detection.points[[0, 2]]
    rotation = rotation_between(
        to_pixels((wrist_x, wrist_y), size), to_pixels((middle_x, middle_y), size), target=_UP
    )
    return enlarge(detection.rect(rotation), size, scale=2.6, shift_y=-0.5)


def rect_of_landmarks(points: FloatArray, size: Size) -> Rect:
    """Return where a hand with these landmarks is expected in the next frame."""
    wrist, index, middle, ring = points[[0, 5, 9, 13], :2]
    knuckles_x, knuckles_y = ((index + ring) / _TWO + middle) / _TWO
    rotation = rotation_between(
        to_pixels((wrist[0], wrist[1]), size), to_pixels((knuckles_x, knuckles_y), size), target=_UP
    )
    box = turned_box_of_landmarks(points[_PALM, :2], rotation, size)
    return enlarge(box, size, scale=2.0, shift_y=-0.1)


def read_points(
    outputs: list[FloatArray], rect: Rect, size: Size, *, min_score: float
) -> Part | None:
    """Return the landmarks `(21, 3)` from the network's outputs, None if there is no hand."""
    raw, score = outputs[0], float(outputs[1][0, 0])
    if not score > min_score:
        return None
    points = raw.reshape(21, 3) / np.float32(_CROP_SIZE)
    points[:, 2] /= np.float32(_DEPTH_SCALE)
    return Part(project(without_border(points, rect, size), rect), score)


def read_world(outputs: list[FloatArray], rect: Rect) -> FloatArray:
    """Return the landmarks `(21, 3)` in metres, upright, from outputs of a network with side."""
    return turn(outputs[3].reshape(21, 3), rect.rotation)


def around_wrist(world: FloatArray) -> FloatArray:
    """Return landmarks in metres with the wrist as origin; the network's is inside of the hand."""
    return world - world[0]


def read_hand(
    outputs: list[FloatArray], rect: Rect, size: Size, *, layer: SideLayer, min_score: float
) -> Hand | None:
    """Return all that the network says of a hand, None if there is none."""
    part = read_points(outputs, rect, size, min_score=min_score)
    if part is None:
        return None
    left_score = layer.left_score(outputs[2][0])
    right_score = f32(1.0 - float(left_score))
    side = int(right_score > left_score)
    side_score = float((left_score, right_score)[side])
    return Hand(part.points, part.score, read_world(outputs, rect), side, side_score)
