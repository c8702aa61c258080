"""MoveNet's maps to the 17 points of a person, and who was found twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posemill.records import FloatArray, IntArray

NUM_POINTS = 17
# Cells: how slowly a point's heat loses weight with the distance from where the centre expects it.
_SLOWNESS = 1.8
# How far COCO's annotators put the same point apart, as a share of the person's size: twice this
# is what the similarity of two poses is measured by.
_SPREADS = np.array([0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072, 0.062, 0.062,
                     0.107, 0.107, 0.087, 0.087, 0.089, 0.089], np.float32)  # fmt: skip


def find_points(maps: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return points `(people, 17, 2)`, x and y as shares of the picture, and `(people, 17)` scores.

    What MoveNet's own last operators do, for any number of pictures: the person is the best of the
    centre's map; from there the network says where it expects each point; the point is the warmest
    cell of its heat map, weighed by the distance from there; and an offset leads inside the cell.

    Args:
        maps: Of points `(people, 17, cells, cells)`, of centres `(people, 1, …)`, to the points
            from a centre, and from a cell, `(people, 34, …)`: y and x of each.
    """
    heat, centres, ways, offsets = maps
    people, _, cells, _ = heat.shape
    rows = np.arange(people)
    y, x = np.divmod(centres.reshape(people, -1).argmax(axis=1), cells)
    expected = ways[rows, :, y, x].reshape(people, NUM_POINTS, 2) + np.stack([y, x], 1)[:, None]
    line = np.arange(cells, dtype=np.float32)
    down = line[:, None] - expected[..., 0, None, None]
    across = line - expected[..., 1, None, None]
    weighed = heat / (np.sqrt(down**2 + across**2) + _SLOWNESS)
    y, x = np.divmod(weighed.reshape(people, NUM_POINTS, -1).argmax(axis=2), cells)
    rows, points = rows[:, None], np.arange(NUM_POINTS)
    inside = offsets.reshape(people, NUM_POINTS, 2, cells, cells)[rows, points, :, y, x]
    places = (np.stack([x, y], axis=2) + inside[..., ::-1]) / cells
    return places.astype(np.float32), heat[rows, points, y, x]


def drop_same_people(
    points: FloatArray, totals: FloatArray, areas: FloatArray, *, most_alike: float
) -> IntArray:
    """Return whom to keep, the best first: nobody whose pose is that of a better one.

    Args:
        points: `(people, 17, 2)` in pixels.
        totals: `(people,)`: how sure each is.
        areas: `(people,)`: of their boxes, in pixels.
        most_alike: COCO's similarity (0 to 1) that two people may have.
    """
    squares = ((points[:, None] - points[None]) ** 2).sum(axis=3)  # (people, people, 17)
    sizes = (areas[:, None] + areas[None]) / 2
    alike = np.exp(-squares / (2 * sizes[..., None] * (2 * _SPREADS) ** 2)).mean(axis=2)
    kept: list[int] = []
    for person in np.argsort(-totals, kind="stable").tolist():
        if not kept or alike[person, kept].max() <= most_alike:
            kept.append(person)
    return np.array(kept, np.int64)
