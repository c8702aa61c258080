"""The best detection of an SSD network: the pose detector's and the face detector's."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from posemill.estimators.holistic.libm import sigmoid
from posemill.records import FloatArray

_MIN_OVERLAP = 0.3
_MAX_LOGIT = 100.0


def make_anchors(size: int, strides: Sequence[int]) -> FloatArray:
    """Return the anchors' centres `(n, 2)`, normalised: two per cell and layer, in network order.

    Layers of equal stride that follow each other share a grid.
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
        centers.append(grid.repeat(2 * (run - index), 0))
        index = run
    return np.concatenate(centers).astype(np.float32)


class Detector:
    """Turns the raw output of an SSD network into the points of its best detection.

    Args:
        size: Side of the network's input in pixels.
        strides: Of its layers.
        min_score: Detections below it do not count.
    """

    def __init__(self, size: int, strides: Sequence[int], *, min_score: float) -> None:
        self._size = size
        self._anchors = make_anchors(size, strides)
        self._min_score = min_score
        # A little below where the sigmoid reaches the threshold; at 0 every logit counts.
        clipped = min(max(min_score, 1e-43), 1 - 1e-9)
        self._min_logit = max(math.log(clipped / (1 - clipped)) - 0.01, -_MAX_LOGIT)
        if min_score <= 0:
            self._min_logit = -math.inf

    def best(self, boxes: FloatArray, logits: FloatArray) -> FloatArray | None:
        """Return the points `(n, 2)` of the best detection in 0..1 of the crop, None if none.

        The best one is the mean, weighted by score, of all that overlap with the top one.

        Args:
            boxes: `(anchors, 4 + 2n)`: centre, size and n points in pixels, relative to the anchor.
            logits: `(anchors,)`.
        """
        # Most anchors are far below the threshold: only the others' scores are worth their price.
        kept = (logits >= self._min_logit).nonzero()[0]
        values, scores = boxes[kept], sigmoid(np.minimum(logits[kept], _MAX_LOGIT))
        good = (scores >= self._min_score) & (values[:, 2] >= 0) & (values[:, 3] >= 0)
        if not good.all():
            kept, values, scores = kept[good], values[good], scores[good]
        if not len(kept):
            return None
        values /= np.float32(self._size)
        pairs = values.reshape(len(kept), -1, 2)  # centre, size, points
        anchors = self._anchors[kept]
        pairs[:, 0] += anchors
        pairs[:, 2:] += anchors[:, None]
        top = int(scores.argmax())
        cluster = (_overlap(values, top) > _MIN_OVERLAP).nonzero()[0]
        if not len(cluster):
            cluster = np.array([top])
        weights = scores[cluster]
        # Added one after the other, best first, as the original does.
        order = np.argsort(-weights, kind="stable")
        weights = weights[order]
        summed = (pairs[cluster[order], 2:] * weights[:, None, None]).sum(0)
        return summed / weights.cumsum()[-1]


def _overlap(boxes: FloatArray, top: int) -> FloatArray:
    """Return intersection over union of each box (centre, size) with the one at `top`."""
    reach = boxes[:, 2:4] / 2
    low, high = boxes[:, :2] - reach, boxes[:, :2] + reach
    sides = np.minimum(high, high[top]) - np.maximum(low, low[top])
    sides = np.maximum(sides, 0)
    shared = sides[:, 0] * sides[:, 1]
    areas = boxes[:, 2] * boxes[:, 3]
    union = areas + areas[top] - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
