"""NanoDet's persons: maps to boxes.

Each cell of its three maps says how sure it is of a person around it, and for the four sides of
the box how far away they are: as shares of 11 distances, 0 to 10 strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posemill.estimators.movenet.networks import MapsNetwork
from posemill.estimators.movenet.squares import Square, cut_square
from posemill.estimators.people import drop_doubles
from posemill.records import FloatArray, Frame

_STRIDES = (8, 16, 32)
_PERSON, _NUM_CLASSES, _BINS = 0, 80, 11
_MOST_OVERLAP = 0.6
_MOST_PEOPLE = 100  # as COCO counts; a bound for what is noise
_GREY = 114  # near the mean the network subtracts: nothing, to it


@dataclass(frozen=True, eq=False)
class Persons:
    """Boxes of a frame, the best first.

    Args:
        boxes: `(persons, 4)`: left, top, right, bottom in pixels, within the frame.
        scores: `(persons,)`, 0 to 1.
    """

    boxes: FloatArray
    scores: FloatArray


def detect(network: MapsNetwork, frames: Sequence[Frame], *, min_score: float) -> list[Persons]:
    """Return the persons of every frame whose score is at least `min_score`."""
    squares = [
        cut_square(frame, (0, 0), max(frame.shape[:2]), size=network.size, colour=_GREY)
        for frame in frames
    ]
    # The network wants BGR.
    pictures = [square.picture[..., ::-1] for square in squares]
    maps = [
        [each[row] for each in batch]
        for batch in network.run(pictures)
        for row in range(len(batch[0]))
    ]
    return [
        _persons(each, square, frame.shape[1::-1], min_score)
        for each, square, frame in zip(maps, squares, frames, strict=True)
    ]


def _persons(
    maps: Sequence[FloatArray], square: Square, size_wh: tuple[int, ...], min_score: float
) -> Persons:
    boxes, scores = find_boxes(maps, min_score=min_score)
    boxes = boxes * np.tile(square.scale, 2) + np.tile(square.shift, 2)
    boxes = np.clip(boxes, 0, np.tile(np.array(size_wh, np.float32), 2))
    there = (boxes[:, 2:] > boxes[:, :2]).all(axis=1)
    boxes, scores = boxes[there], scores[there]
    kept = drop_doubles(boxes, scores, most_overlap=_MOST_OVERLAP)[:_MOST_PEOPLE]
    return Persons(boxes[kept], scores[kept])


def find_boxes(maps: Sequence[FloatArray], *, min_score: float) -> tuple[FloatArray, FloatArray]:
    """Return boxes `(boxes, 4)` in pixels of the network's picture, and their scores.

    Args:
        maps: `(124, rows, columns)` of each stride.
        min_score: Boxes below are left out.
    """
    found = [(np.zeros((0, 4), np.float32), np.zeros(0, np.float32))]
    for values, stride in zip(maps, _STRIDES, strict=True):
        scores = 1 / (1 + np.exp(-values[_PERSON]))
        # A dog may look like a person too, but more like a dog.
        is_person = values[_PERSON] >= values[:_NUM_CLASSES].max(axis=0)
        rows, columns = np.nonzero(is_person & (scores >= min_score))
        shares = np.exp(values[_NUM_CLASSES:, rows, columns].reshape(4, _BINS, -1))
        shares /= shares.sum(axis=1, keepdims=True)
        sides = np.einsum("sbn,b->ns", shares, np.arange(_BINS, dtype=np.float32))
        centres = np.stack([columns, rows], axis=1) + 0.5
        boxes = np.concatenate([centres - sides[:, :2], centres + sides[:, 2:]], axis=1) * stride
        found.append((boxes.astype(np.float32), scores[rows, columns]))
    return np.concatenate([each for each, _ in found]), np.concatenate([each for _, each in found])
