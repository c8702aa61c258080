"""The detections of an SSD network: of bodies, palms or faces."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from posemill.estimators.landmarks.libm import sigmoid
from posemill.estimators.landmarks.rects import WHOLE, Rect, Size, f32, project_by_matrix
from posemill.records import FloatArray

_MIN_OVERLAP = 0.3
_MAX_LOGIT = 100.0
_TWO = f32(2)


class Detection(NamedTuple):
    """One detection, in shares of the crop or of the picture.

    `box` is `(4,)`: left, top, width, height. `points` are `(n, 2)`.
    """

    score: np.float32
    box: FloatArray
    points: FloatArray

    def rect(self, rotation: np.float32) -> Rect:
        """Return the box as a rectangle that is turned by `rotation`."""
        left, top, width, height = self.box
        return Rect(left + width / _TWO, top + height / _TWO, width, height, rotation)


def make_anchors(size: int, strides: Sequence[int], *, per_layer: int = 2) -> FloatArray:
    """Return the anchors' centres `(n, 2)`, normalised, in the order of the network's rows.

    Layers of equal stride that follow each other share a grid.

    Args:
        size: Side of the network's input in pixels.
        strides: Of its layers.
        per_layer: Anchors of a cell in each layer.
    """
    centers = []
    index = 0
    while index < len(strides):
        stride = strides[index]
        run = index
        while run < len(strides) and strides[run] == stride:
            run += 1
        cells = math.ceil(size / stride)
        y, x = np.meshgrid(np.arange(cells), np.arange(cells), indexing="ij")
        grid = (np.stack([x, y], -1).reshape(-1, 2) + 0.5) / cells
        centers.append(grid.repeat(per_layer * (run - index), 0))
        index = run
    return np.concatenate(centers).astype(np.float32)


class Detector:
    """Turns the raw output of an SSD network into detections.

    Args:
        size: Side of the network's input in pixels.
        strides: Of its layers.
        min_score: Detections below it do not count.
        anchors_per_layer: Anchors of a cell in each layer.
    """

    def __init__(
        self, size: int, strides: Sequence[int], *, min_score: float, anchors_per_layer: int = 2
    ) -> None:
        self._anchors = make_anchors(size, strides, per_layer=anchors_per_layer)
        self._least, self._scale = f32(min_score), f32(size)
        # A little below where the sigmoid reaches the threshold; at 0 every logit counts.
        clipped = min(max(min_score, 1e-43), 1 - 1e-9)
        self._min_logit = max(math.log(clipped / (1 - clipped)) - 0.01, -_MAX_LOGIT)
        if min_score <= 0:
            self._min_logit = -math.inf

    def find(self, boxes: FloatArray, logits: FloatArray) -> Iterator[Detection]:
        """Yield the detections in shares of the crop, the best first.

        Each is the mean, weighted by score, of all that overlap with the best one that is left.

        Args:
            boxes: `(anchors, 4 + 2n)`: centre, size and n points in pixels, relative to the anchor.
            logits: `(anchors,)`.
        """
        # Most anchors are far below the threshold: only the others' scores are worth their price.
        likely = (logits >= self._min_logit).nonzero()[0]
        if not len(likely):
            return
        scores = sigmoid(np.minimum(logits[likely], _MAX_LOGIT))
        # (anchors, 2 + n, 2): centre, size and the points; then both corners and the points
        places = (boxes[likely] / self._scale).reshape(len(likely), -1, 2)
        half = places[:, 1] / _TWO
        places += self._anchors[likely][:, None]
        low = places[:, 0] - half
        sides = places[:, 0] + half - low
        places[:, 0] = low
        places[:, 1] = low + sides
        is_good = (scores >= self._least) & (sides.min(1) >= 0)
        order = (-scores).argsort(kind="stable")
        order = order[is_good[order]]
        places, scores = places[order], scores[order]
        while len(scores):
            is_same = _overlap(places) > _MIN_OVERLAP
            top = scores[0]
            if not is_same.any():  # the best one has no area
                first = order[len(order) - len(scores)]
                yield Detection(top, np.concatenate([low[first], sides[first]]), places[0, 2:])
                return
            weights = scores[is_same]
            # Sums over the first axis go row by row, as the original adds; the best is the first.
            mean = (places[is_same] * weights[:, None, None]).sum(0) / weights.cumsum()[-1]
            mean[1] -= mean[0]
            yield Detection(top, mean[:2].reshape(4), mean[2:])
            places, scores = places[~is_same], scores[~is_same]

    def best(self, boxes: FloatArray, logits: FloatArray) -> Detection | None:
        """Return the best of `find`, None if there is none."""
        return next(self.find(boxes, logits), None)


def _overlap(places: FloatArray) -> FloatArray:
    """Return intersection over union of each box (its corners come first) with the first one."""
    low, high = places[:, 0], places[:, 1]
    shared_sides = np.maximum(np.minimum(high, high[0]) - np.maximum(low, low[0]), 0)
    shared = shared_sides[:, 0] * shared_sides[:, 1]
    sides = high - low
    areas = sides[:, 0] * sides[:, 1]
    union = areas + areas[0] - shared
    union[union <= 0] = 1  # of boxes without an area, which share nothing
    return shared / union


def without_letterbox(detection: Detection, size: Size) -> Detection:
    """Return a detection of the square around a whole picture in shares of the picture."""
    pads = np.array(empty_shares(*size), np.float32)
    inner = f32(1) - (pads + pads)
    box = np.concatenate([(detection.box[:2] - pads) / inner, detection.box[2:] / inner])
    return Detection(detection.score, box, (detection.points - pads) / inner)


def project_detection(detection: Detection, size: Size, rect: Rect = WHOLE) -> Detection:
    """Return a detection of the square around `rect` in shares of the picture.

    The same as `without_letterbox` for a whole picture, but for the order of operations: faces are
    brought back in this way, palms and bodies in the other.
    """
    low, sides = detection.box[:2], detection.box[2:]
    places = np.concatenate([low[None], (low + sides)[None], detection.points])
    projected = project_by_matrix(places, rect, size)
    box = projected[:2].reshape(4).copy()
    box[2:] -= box[:2]
    return Detection(detection.score, box, projected[2:])


def empty_shares(width: np.float32, height: np.float32) -> tuple[np.float32, np.float32]:
    """Return which share of the square around the whole picture is empty left, and on top of it."""
    aspect, one, none = height / width, f32(1), f32(0)
    if aspect < one:
        return none, (one - aspect) / _TWO
    return (one - one / aspect) / _TWO, none
