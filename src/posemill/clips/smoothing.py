"""Smooth the keypoints of a clip along time: one-euro, gaussian or savgol.

A filter never looks across a gap: a point that was missing in a frame begins anew behind it.
Missing points stay missing, and scores stay as they are.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import numpy as np

from posemill.clips.people import change_each_person
from posemill.records import SMOOTHINGS, BoolArray, FloatArray, IntArray, PoseClip

METHODS = SMOOTHINGS[1:]
USUAL_FPS = 25.0
_DERIVATIVE_CUTOFF = 1.0  # Hz, of the speed that One-Euro follows


def smooth(
    clip: PoseClip,
    method: str = "one-euro",
    *,
    window_seconds: float = 0.2,
    min_cutoff: float = 1.0,
    beta: float = 2.0,
) -> PoseClip:
    """Return the clip with its points smoothed along time, those of each person alone.

    `gaussian` and `savgol` look at frames before and after, so they do not lag. `one-euro` looks
    back only, as a live filter does: it smooths a still hand much and a fast one little.

    Args:
        clip: At its own rate (`clip.fps`); 25 frames per second where it has none.
        method: `one-euro`, `gaussian` or `savgol` (Savitzky-Golay: a parabola in each window).
        window_seconds: What `gaussian` (four standard deviations) and `savgol` look at.
        min_cutoff: Cut-off frequency of `one-euro` for a point at rest, in Hz.
        beta: How fast that frequency rises with speed, in body sizes per second.

    Raises:
        ValueError: The method is unknown, or a number is not above 0.
    """
    if method not in METHODS:
        raise ValueError(f"method: expected one of {', '.join(METHODS)}, got {method!r}")
    numbers = {"window_seconds": window_seconds, "min_cutoff": min_cutoff}
    for name, value in numbers.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name}: expected a number above 0, got {value!r}")
    if not (math.isfinite(beta) and beta >= 0):
        raise ValueError(f"beta: expected 0 or more, got {beta!r}")
    fps = clip.fps or USUAL_FPS
    reach = max(1, round(window_seconds * fps / 2))

    def smooth_person(alone: PoseClip) -> PoseClip:
        runs = _number_runs(alone.mask, alone.frame_indices)
        if method == "one-euro":
            smoothed = _one_euro(alone.points, runs, fps=fps, min_cutoff=min_cutoff, beta=beta)
        elif method == "gaussian":
            smoothed = _gaussian(alone.points, runs, reach)
        else:
            smoothed = _fit_parabolas(alone.points, runs, reach)
        points = np.where((runs >= 0)[..., None], smoothed, alone.points).astype(np.float32)
        return dataclasses.replace(alone, points=points)

    return dataclasses.replace(change_each_person(clip, smooth_person), smoothed=method)


def _number_runs(mask: BoolArray, frame_indices: IntArray) -> IntArray:
    """Return `(frames, keypoints)`: the number of the unbroken run a point is in; -1 if missing."""
    begins = mask.copy()
    if len(mask) > 1:
        step = np.diff(frame_indices)
        # Every second frame of a video is unbroken too: the usual step is the clip's own.
        follows = (step == np.median(step))[:, None]
        begins[1:] = mask[1:] & ~(mask[:-1] & follows)
    numbers: IntArray = np.where(mask, np.cumsum(begins, axis=0), -1)
    return numbers


def _gaussian(points: FloatArray, runs: IntArray, reach: int) -> np.ndarray:
    """Return weighted means over the frames of the same run; weights sum to 1 at its ends too."""
    total = np.zeros(points.shape, np.float64)
    weights = np.zeros(runs.shape, np.float64)
    sigma = reach / 2
    for offset, here, is_same, values in _neighbours(points, runs, reach):
        weight = math.exp(-0.5 * (offset / sigma) ** 2)
        total[here] += weight * values
        weights[here] += weight * is_same
    return total / np.maximum(weights, 1e-12)[..., None]


def _fit_parabolas(points: FloatArray, runs: IntArray, reach: int) -> np.ndarray:
    """Return the middle of the parabola through each window: Savitzky and Golay's filter.

    At the ends of a run the window has frames on one side only; fewer than three stay as they are.
    """
    power_sums = np.zeros((5, *runs.shape))  # of offset**0 to offset**4
    value_sums = np.zeros((3, *points.shape))  # of offset**0 to offset**2 times the value
    for offset, here, is_same, values in _neighbours(points, runs, reach):
        powers = float(offset) ** np.arange(5)
        power_sums[:, here] += powers[:, None, None] * is_same
        value_sums[:, here] += powers[:3, None, None, None] * values
    s0, s1, s2, s3, s4 = power_sums
    is_enough = s0 >= 3
    # Cramer's rule for the constant term of the normal equations.
    determinant = s0 * (s2 * s4 - s3 * s3) - s1 * (s1 * s4 - s2 * s3) + s2 * (s1 * s3 - s2 * s2)
    shares = np.stack([s2 * s4 - s3 * s3, s2 * s3 - s1 * s4, s1 * s3 - s2 * s2])
    shares = shares / np.where(is_enough, determinant, 1)
    fitted = (shares[..., None] * value_sums).sum(axis=0)
    return np.where(is_enough[..., None], fitted, points)


def _neighbours(
    points: FloatArray, runs: IntArray, reach: int
) -> Iterator[tuple[int, slice, np.ndarray, np.ndarray]]:
    """Yield each offset of a window, the frames that have a frame there, which of their points are
    of one run with that (1, else 0), and the points there, 0 where they are not.
    """
    for offset in range(-reach, reach + 1):
        length = max(len(points) - abs(offset), 0)
        here = slice(max(-offset, 0), max(-offset, 0) + length)
        there = slice(max(offset, 0), max(offset, 0) + length)
        is_same = ((runs[here] == runs[there]) & (runs[here] >= 0)).astype(np.float64)
        yield offset, here, is_same, is_same[..., None] * np.nan_to_num(points[there])


def _one_euro(
    points: FloatArray, runs: IntArray, *, fps: float, min_cutoff: float, beta: float
) -> np.ndarray:
    """Return points through the filter of Casiez, Roussel and Vogel, one for each run."""
    size = _body_size(points)
    smoothed = points.astype(np.float64)
    speed = np.zeros(points.shape[1:])
    for frame in range(1, len(points)):
        goes_on = ((runs[frame] == runs[frame - 1]) & (runs[frame] >= 0))[:, None]
        new_speed = (points[frame] - points[frame - 1]) * (fps / size)
        share = _share(np.array(_DERIVATIVE_CUTOFF), fps)
        speed = np.where(goes_on, share * new_speed + (1 - share) * speed, 0.0)
        shares = _share(min_cutoff + beta * np.abs(speed), fps)
        mixed = shares * points[frame] + (1 - shares) * smoothed[frame - 1]
        smoothed[frame] = np.where(goes_on, mixed, points[frame])
    return smoothed


def _share(cutoff_hz: FloatArray | np.ndarray, fps: float) -> np.ndarray:
    """Return how much of a new value counts in a low-pass filter of this cut-off frequency."""
    return 1 / (1 + fps / (2 * math.pi * cutoff_hz))


def _body_size(points: FloatArray) -> float:
    """Return the median over frames of the larger side of the box around all found points."""
    places = points[..., :2]
    low = np.where(np.isnan(places), np.inf, places).min(axis=1)
    high = np.where(np.isnan(places), -np.inf, places).max(axis=1)
    sides = (high - low).max(axis=1)
    sides = sides[np.isfinite(sides)]
    median = float(np.median(sides)) if len(sides) else 0.0
    return median if median > 0 else 1.0
