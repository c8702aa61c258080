"""The filters of video mode: One-Euro on coordinates, a low-pass on visibility.

Time is counted in processed frames of 33,333 microseconds, whatever the video's frame rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from posemill.records import FloatArray

_NANOSECONDS_PER_FRAME = 33_333_000
_VISIBILITY_SHARE = 0.1


@dataclass
class OneEuro:
    """A One-Euro filter over an array of coordinates.

    Args:
        min_cutoff: Cut-off frequency in Hz at rest; a number, or one for each coordinate.
        beta: How much the cut-off rises with speed; likewise.
    """

    min_cutoff: Any
    beta: Any
    raw: FloatArray | None = None
    smooth: FloatArray | None = None
    slope: FloatArray | None = None
    frame: int = 0

    def __post_init__(self) -> None:
        self.min_cutoff = np.float64(np.float32(self.min_cutoff))

    def reset(self) -> None:
        """Forget: the next values pass through unchanged."""
        self.raw = self.smooth = self.slope = None

    def __call__(self, values: FloatArray, frame: int, *, value_scale: float = 1.0) -> FloatArray:
        """Return the filtered values.

        Args:
            values: Any shape, the same each time.
            frame: Number of the processed frame: time is the difference to the last one.
            value_scale: Makes speeds comparable: one over the object's size in pixels.
        """
        if self.raw is None or self.smooth is None or self.slope is None:
            self.raw, self.smooth, self.frame = values, values, frame
            self.slope = np.zeros_like(values)
            return values
        rate = 1 / ((frame - self.frame) * _NANOSECONDS_PER_FRAME * 1e-9)
        steps = values.astype(np.float64) - self.raw
        slopes = (steps * float(value_scale) * rate).astype(np.float32)
        self.slope = _low_pass(slopes, self.slope, _share(1.0, rate))
        cutoff = self.min_cutoff + self.beta * np.abs(self.slope.astype(np.float64))
        self.smooth = _low_pass(values, self.smooth, _share(cutoff, rate))
        self.raw, self.frame = values, frame
        return self.smooth


def _share(cutoff: Any, rate: float) -> Any:
    """Return how much of a new value counts, as float32, for cut-off frequencies in Hz."""
    return np.float32(1 / (1 + 1 / (2 * math.pi * cutoff) / (1 / rate)))


def _low_pass(new: FloatArray, old: FloatArray, share: Any) -> FloatArray:
    """Return `share·new + (1 - share)·old`, rounded where the original rounds."""
    # Said of the array too: before numpy 2 a float64 number did not make it one.
    rest = (1 - np.float64(share)) * old.astype(np.float64)
    result: FloatArray = (share * new + rest).astype(np.float32)
    return result


def smooth_visibility(new: FloatArray, previous: FloatArray | None) -> FloatArray:
    """Return the low-passed visibility; the first one passes through."""
    if previous is None:
        return new
    return _low_pass(new, previous, np.float32(_VISIBILITY_SHARE))
