"""Smooth the keypoints of a clip along time: one-euro, gaussian or savgol.

A filter never looks across a gap: a point that was missing in a frame begins anew behind it.
Missing points stay missing, and scores stay as they are.
"""

from __future__ import annotations

import dataclasses
import math

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
            weights = np.exp(-2 * (np.arange(-reach, reach + 1) / reach) ** 2)
            smoothed = _fit_locally(alone.points, runs, weights, 0)
        else:
            smoothed = _fit_locally(alone.points, runs, np.ones(2 * reach + 1), 2)
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
    return np.where(mask, np.cumsum(begins, axis=0), -1)


def _fit_locally(
    points: FloatArray, runs: IntArray, weights: np.ndarray, degree: int
) -> np.ndarray:
    """Return the middle of the polynomial of a degree that fits best in the window of each point.

    `weights` are those of the frames of a window. At the ends of a run it has frames on one side
    only; points in windows of no more than `degree` frames stay as they are.
    """
    reach, orders = len(weights) // 2, np.arange(2 * degree + 1)
    power_sums = np.zeros((*runs.shape, len(orders)))  # of offset**order
    value_sums = np.zeros((*runs.shape, degree + 1, 3))  # of offset**order times the value
    for offset in range(-reach, reach + 1):
        length = max(len(points) - abs(offset), 0)
        here = slice(max(-offset, 0), max(-offset, 0) + length)
        there = slice(max(offset, 0), max(offset, 0) + length)
        is_same = runs[here] == runs[there]
        powers = is_same[..., None] * weights[reach + offset] * float(offset) ** orders
        power_sums[here] += powers
        value_sums[here] += powers[..., : degree + 1, None] * np.nan_to_num(points[there, :, None])
    is_enough = (power_sums[..., :1] > degree)[..., None]
    exponents = orders[: degree + 1]
    normal = power_sums[..., exponents[:, None] + exponents]  # equations of least squares
    fitted = np.linalg.solve(np.where(is_enough, normal, np.eye(degree + 1)), value_sums)
    return np.where(is_enough[..., 0], fitted[..., 0, :], points)


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
