"""The filters of video mode: One-Euro on coordinates, a low-pass on visibility.

Time is counted in processed frames of 33,333 microseconds, whatever the video's frame rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from posemill.records import FloatArray

SECONDS_PER_FRAME = 0.033333
_VISIBILITY_SHARE = 0.1


@dataclass
class OneEuro:
    """A One-Euro filter over an array of coordinates.

    Args:
        min_cutoff: Cut-off frequency in Hz at rest.
        beta: How much the cut-off rises with speed.
    """

    min_cutoff: float
    beta: float
    raw: FloatArray | None = None
    smooth: FloatArray | None = None
    slope: FloatArray | None = None
    frame: int = 0

    def __post_init__(self) -> None:
        self.min_cutoff = float(np.float32(self.min_cutoff))

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
        rate = 1 / (SECONDS_PER_FRAME * (frame - self.frame))
        slope = (values - self.raw).astype(np.float64) * (value_scale * rate)
        share = _share(1.0, rate)
        slope = share * slope + (1 - share) * self.slope
        cutoff = self.min_cutoff + self.beta * np.abs(slope)
        shares = 1 / (1 + rate / (2 * math.pi * cutoff))
        smooth = (shares * values + (1 - shares) * self.smooth).astype(np.float32)
        self.raw, self.smooth, self.frame = values, smooth, frame
        self.slope = slope.astype(np.float32)
        return smooth


def _share(cutoff: float, rate: float) -> float:
    return 1 / (1 + rate / (2 * math.pi * cutoff))


def smooth_visibility(new: FloatArray, previous: FloatArray | None) -> FloatArray:
    """Return the low-passed visibility; the first one passes through."""
    if previous is None:
        return new
    share = np.float32(_VISIBILITY_SHARE)
    return share * new + (1 - share) * previous
