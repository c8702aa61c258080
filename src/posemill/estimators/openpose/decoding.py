"""From OpenPose's maps to people: peaks, limbs between them, people made of limbs.

Maps are `(57, height, width)` at an eighth of the network's input: 18 heat maps, one of the
background, and 38 part-affinity maps (x and y of the direction along each of 19 limbs). All
coordinates here are in cells of the maps, the centre of the first at 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from posemill.records import FloatArray, IntArray
from posemill.skeletons import get_skeleton

NUM_POINTS, NUM_MAPS = 18, 57
# From point, to point, x channel of the affinity maps (y is the next). The last two, from ears to
# shoulders, hold a person together and never begin one.
_LIMBS = np.array([
    (1, 2, 12), (1, 5, 20), (2, 3, 14), (3, 4, 16), (5, 6, 22), (6, 7, 24), (1, 8, 0), (8, 9, 2),
    (9, 10, 4), (1, 11, 6), (11, 12, 8), (12, 13, 10), (1, 0, 28), (0, 14, 30), (14, 16, 34),
    (0, 15, 32), (15, 17, 36), (2, 16, 18), (5, 17, 26),
])  # fmt: skip
_NUM_STARTING = 17


def _mirrored() -> tuple[IntArray, FloatArray]:
    """Return for each map the one it is in a mirrored picture, and its sign there."""
    other = np.array(get_skeleton("openpose-18").mirror)
    maps, signs = np.arange(NUM_MAPS), np.ones(NUM_MAPS, np.float32)
    maps[:NUM_POINTS] = other
    channel_of = {(start, stop): channel for start, stop, channel in _LIMBS.tolist()}
    for (start, stop), channel in channel_of.items():
        x = NUM_POINTS + 1 + channel
        maps[x] = NUM_POINTS + 1 + channel_of[int(other[start]), int(other[stop])]
        maps[x + 1], signs[x] = maps[x] + 1, -1
    return maps, signs


MIRRORED_MAPS, MIRRORED_SIGNS = _mirrored()
_UPSAMPLED = 4  # peaks are looked for at half of the input's size
_SMOOTHING = 1.5  # sigma there
_MOST_PEAKS = 96  # of one point: a crowd, and a bound for noise
_BEFORE = np.array([[1, 1, 1], [1, 0, 0], [0, 0, 0]], np.uint8)
_SAMPLES = 10  # places along a limb


@dataclass(frozen=True)
class Thresholds:
    """What counts as found.

    Args:
        peak: Least height of a heat map's peak.
        affinity: Least agreement of a place on a limb with the limb's direction.
        share: Least share of a limb's places that agree.
        parts: Least number of points of a person.
        person: Least mean of a person's peaks and limbs.
    """

    peak: float = 0.1
    affinity: float = 0.05
    share: float = 0.8
    parts: int = 4
    person: float = 0.2


@dataclass(frozen=True, eq=False)
class People:
    """The people of a picture, best first.

    Args:
        points: `(people, 18, 2)`, x and y in cells; NaN where not found.
        scores: `(people, 18)`, height of the peak, 0 where not found.
        totals: `(people,)`, the mean of a person's peaks and limbs.
    """

    points: FloatArray
    scores: FloatArray
    totals: FloatArray


@dataclass(frozen=True, eq=False)
class _Peaks:
    """Candidates of every point, `(18, most)` each; places without one have score 0."""

    x: FloatArray
    y: FloatArray
    scores: FloatArray


def find_people(maps: FloatArray, thresholds: Thresholds) -> People:
    """Return the people in the maps of one picture."""
    peaks = _find_peaks(maps[:NUM_POINTS], thresholds.peak)
    limbs = _score_limbs(peaks, maps[NUM_POINTS + 1 :], thresholds)
    owners, sums = _join(_match(limbs), limbs, peaks.scores.shape[1])
    return _people_of(owners, sums, peaks, thresholds)


def _find_peaks(heat: FloatArray, least: float) -> _Peaks:
    height, width = heat.shape[1:]
    size = width * _UPSAMPLED, height * _UPSAMPLED
    large: Any = cv2.resize(heat.transpose(1, 2, 0), size, interpolation=cv2.INTER_CUBIC)
    large = cv2.GaussianBlur(large, (0, 0), _SMOOTHING, borderType=cv2.BORDER_REPLICATE)
    # Above those before it and not below those behind it: of a plateau one cell is the peak.
    is_peak = (large > least) & (large > cv2.dilate(large, _BEFORE))
    is_peak &= large >= cv2.dilate(large, _BEFORE[::-1, ::-1])
    # `np.nonzero` of three axes takes ten times as long.
    rows, columns, points = np.unravel_index(np.flatnonzero(is_peak), is_peak.shape)
    scores = large[rows, columns, points]
    order = np.lexsort((-scores, points))
    counts = np.bincount(points, minlength=NUM_POINTS)
    ranks = np.arange(len(points)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept, ranks = order[ranks < _MOST_PEAKS], ranks[ranks < _MOST_PEAKS]
    rows, columns, points, scores = rows[kept], columns[kept], points[kept], scores[kept]
    found = np.zeros((3, NUM_POINTS, min(max(counts, default=0), _MOST_PEAKS)), np.float32)
    x = columns + _vertex(large, rows, columns, points, axis=1)
    y = rows + _vertex(large, rows, columns, points, axis=0)
    # The centre of a small cell lies within the large one, not on its corner.
    for place, values in enumerate((x, y)):
        found[place, points, ranks] = (values + 0.5) / _UPSAMPLED - 0.5
    found[2, points, ranks] = np.minimum(scores, 1)
    return _Peaks(*found)


def _vertex(
    heat: FloatArray, rows: IntArray, columns: IntArray, points: IntArray, *, axis: int
) -> FloatArray:
    """Return how far, at most half a cell, the top of a parabola through three cells lies off."""
    place = rows if axis == 0 else columns
    last = heat.shape[axis] - 1

    def beside(step: int) -> FloatArray:
        moved = np.clip(place + step, 0, last)
        chosen = (moved, columns) if axis == 0 else (rows, moved)
        values: FloatArray = heat[chosen[0], chosen[1], points]
        return values

    before, top, after = beside(-1), beside(0), beside(1)
    bend = 2 * top - before - after
    offset = np.divide(after - before, 2 * bend, out=np.zeros_like(bend), where=bend > 1e-9)
    clipped: FloatArray = np.clip(offset, -0.5, 0.5)
    return clipped


def _score_limbs(peaks: _Peaks, affinity: FloatArray, thresholds: Thresholds) -> FloatArray:
    """Return `(19, most, most)`: how well each pair of candidates is a limb; 0 where it is none."""
    start, stop, channel = _LIMBS.T
    there = peaks.scores > 0
    limb, first, second = np.nonzero(there[start][:, :, None] & there[stop][:, None, :])
    one, other = (start[limb], first), (stop[limb], second)
    across, down = peaks.x[other] - peaks.x[one], peaks.y[other] - peaks.y[one]
    length = np.hypot(across, down)
    steps = np.linspace(0, 1, _SAMPLES, dtype=np.float32)
    x = peaks.x[one][:, None] + across[:, None] * steps
    y = peaks.y[one][:, None] + down[:, None] * steps
    maps = channel[limb]
    length_or_one = np.maximum(length, 1e-6)[:, None]
    along = _sample(affinity, maps, x, y) * (across[:, None] / length_or_one) + _sample(
        affinity, maps + 1, x, y
    ) * (down[:, None] / length_or_one)
    # A limb of more than half the picture is unlikely.
    score = along.mean(1) + np.minimum(0.5 * affinity.shape[1] / length_or_one[:, 0] - 1, 0)
    is_limb = ((along > thresholds.affinity).mean(1) >= thresholds.share) & (score > 0)
    scores = np.zeros((len(_LIMBS), *(2 * peaks.scores.shape[1:])), np.float32)
    scores[limb, first, second] = np.where(is_limb & (length > 0), score, 0)
    return scores


def _sample(maps: FloatArray, channels: IntArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the maps' values between cells, bilinear; `(pairs, samples)`."""
    height, width = maps.shape[1:]
    x, y = np.clip(x, 0, width - 1), np.clip(y, 0, height - 1)
    left, top = x.astype(np.int64), y.astype(np.int64)
    right_share, lower_share = x - left, y - top
    flat = maps.reshape(-1)
    upper = (channels[:, None] * height + top) * width
    lower = upper + np.where(top < height - 1, width, 0)
    right = np.minimum(left + 1, width - 1)
    above = flat[upper + left] * (1 - right_share) + flat[upper + right] * right_share
    below = flat[lower + left] * (1 - right_share) + flat[lower + right] * right_share
    values: FloatArray = above * (1 - lower_share) + below * lower_share
    return values


def _match(scores: FloatArray) -> npt.NDArray[np.bool_]:
    """Return which pairs are taken, best first, no candidate twice in a limb.

    Pairs that are the best of both their ends are taken in one go; what remains follows. That is
    what going through all pairs by their score gives.
    """
    taken = np.zeros(scores.shape, bool)
    left = scores.copy()
    while left.any():
        best = (
            (left > 0) & (left == left.max(2, keepdims=True)) & (left == left.max(1, keepdims=True))
        )
        # Of equal ones the first: a candidate is never taken twice.
        best &= (best.cumsum(2) == 1) & (best.cumsum(1) == 1)
        taken |= best
        left[best.any(2)[:, :, None] | best.any(1)[:, None, :] & np.ones_like(best)] = 0
    return taken


def _join(
    taken: npt.NDArray[np.bool_], scores: FloatArray, most: int
) -> tuple[IntArray, FloatArray]:
    """Return who each candidate belongs to, `(18, most)` with -1 for nobody, and limbs' sums."""
    owners = np.full((NUM_POINTS, most), -1)
    sums = np.zeros(0, np.float32)
    for limb, (start, stop, _) in enumerate(_LIMBS):
        first, second = np.nonzero(taken[limb])
        values = scores[limb, first, second]
        one, other = owners[start, first], owners[stop, second]
        if limb < _NUM_STARTING:
            new = (one < 0) & (other < 0)
            one = one.copy()
            one[new] = len(sums) + np.arange(new.sum())
            owners[start, first[new]] = one[new]
            sums = np.append(sums, np.zeros(new.sum(), np.float32))
        # Whoever has one end gets the other, if they have none of it yet.
        for mine, theirs, point, place in ((one, other, stop, second), (other, one, start, first)):
            free = (mine >= 0) & (theirs < 0) & (mine[:, None] != owners[point]).all(axis=1)
            owners[point, place[free]] = mine[free]
            np.add.at(sums, mine[free], values[free])
        # Two halves of one person, which share no point, become one.
        for a, b, value in zip(
            *(each[(one >= 0) & (other >= 0) & (one != other)] for each in (one, other, values)),
            strict=True,
        ):
            has_a, has_b = (owners == a).any(1), (owners == b).any(1)
            if not (has_a & has_b).any():
                owners[owners == b] = a
                sums[a] += sums[b] + value
        same = (one >= 0) & (one == other)
        np.add.at(sums, one[same], values[same])
    return owners, sums


def _people_of(owners: IntArray, sums: FloatArray, peaks: _Peaks, thresholds: Thresholds) -> People:
    point, place = np.nonzero(owners >= 0)
    person = owners[point, place]
    points = np.full((len(sums), NUM_POINTS, 2), np.nan, np.float32)
    scores = np.zeros((len(sums), NUM_POINTS), np.float32)
    points[person, point, 0] = peaks.x[point, place]
    points[person, point, 1] = peaks.y[point, place]
    scores[person, point] = peaks.scores[point, place]
    counts = (scores > 0).sum(1)
    totals = ((scores.sum(1) + sums) / np.maximum(counts, 1)).astype(np.float32)
    kept = np.nonzero((counts >= thresholds.parts) & (totals >= thresholds.person))[0]
    kept = kept[np.argsort(-totals[kept], kind="stable")]
    return People(points[kept], scores[kept], totals[kept])
