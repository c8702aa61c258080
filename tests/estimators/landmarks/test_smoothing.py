"""The filters of video mode, against their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest

from posemill.estimators.landmarks.smoothing import OneEuro, smooth_visibility


def test_the_filter_passes_the_first_values_and_follows_slowly_at_rest() -> None:
    one = OneEuro(0.05, 80.0)
    first = np.array([10, 20], np.float32)
    assert one(first, 1) is first
    second = one(np.array([10.001, 20], np.float32), 2, value_scale=1e-3)
    assert 10 < second[0] < 10.0005
    jumped = one(np.array([500, 20], np.float32), 3)
    assert jumped[0] > 490
    one.reset()
    np.testing.assert_array_equal(one(first, 4), first)


def test_visibility_changes_by_a_tenth() -> None:
    new, old = np.array([1.0], np.float32), np.array([0.0], np.float32)
    assert smooth_visibility(new, None) is new
    assert float(smooth_visibility(new, old)[0]) == pytest.approx(0.1)


@pytest.mark.parametrize("frames_apart", [1, 3])
@pytest.mark.parametrize("value_scale", [1.0, 0.01])
def test_a_step_is_filtered_as_the_formula_of_one_euro_says(
    frames_apart: int, value_scale: float
) -> None:
    min_cutoff, beta, step = 0.05, 80.0, 0.5
    one = OneEuro(min_cutoff, beta)
    one(np.array([10], np.float32), 1)
    found = one(np.array([10 + step], np.float32), 1 + frames_apart, value_scale=value_scale)
    seconds = frames_apart * 0.033333

    def share(cutoff: float) -> float:
        return 1 / (1 + 1 / (2 * math.pi * cutoff * seconds))

    slope = share(1.0) * step * value_scale / seconds
    expected = 10 + share(min_cutoff + beta * abs(slope)) * step
    assert float(found[0]) == pytest.approx(expected, rel=1e-6)


def test_time_is_counted_from_the_last_values() -> None:
    last = []
    for frames in ((1, 2, 3), (1, 2, 9)):
        one = OneEuro(0.05, 0.0)
        for frame, value in zip(frames, (0, 0, 1), strict=True):
            found = one(np.array([value], np.float32), frame)
        last.append(float(found[0]))
    assert last[0] < last[1]
