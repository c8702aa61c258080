"""Points that are pixels are known by their median, and divided by the size of the picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posemill.formats.shared.pixels import divide_pixels, median_of_pixels


def test_only_found_x_and_y_count() -> None:
    points = np.array([[[10, 20, 1e6], [0, np.nan, 1e6], [np.inf, 0, 1e6], [30, 30, 1e6]]])
    assert median_of_pixels(points) == 25
    assert median_of_pixels(np.zeros((0, 5, 2))) == 0


@pytest.mark.parametrize(("num_frames", "expected"), [(255, 100), (511, 300), (512, 100)])
def test_some_256_frames_are_looked_at(num_frames: int, expected: float) -> None:
    points = np.full((num_frames, 1, 2), 100.0)
    points[1::2] = 300
    points[2] = 300 if num_frames == 511 else 100
    # All of 511: 255 times 100 and 256 times 300. Every other one of 512: 100 alone.
    assert median_of_pixels(points) == expected


def divide(points: Any, *sizes_wh: tuple[int, int]) -> Any:
    return divide_pixels(Path("p"), np.array(points), np.array(sizes_wh, np.int32), 123.6)


def test_x_and_z_are_divided_by_the_width_and_y_by_the_height() -> None:
    found = divide([[[10, 10, 10]], [[10, 10, 10]]], (100, 50), (20, 40))
    np.testing.assert_allclose(found, [[[0.1, 0.2, 0.1]], [[0.5, 0.25, 0.5]]], rtol=1e-6)
    assert found.dtype == np.float32
    assert divide([[[3, 4]]], (1, 1)).tolist() == [[[3, 4]]]


def test_one_large_number_among_shares_makes_no_pixels() -> None:
    assert median_of_pixels(np.array([[[0.5, 0.5], [0.5, 9]]])) == 0
