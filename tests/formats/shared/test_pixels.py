"""Points that are pixels are known by their median, and divided by the size of the picture."""

from __future__ import annotations

import numpy as np
import pytest

from posemill.errors import ContentError
from posemill.formats.shared.pixels import are_pixels, from_pixels, to_pixels
from posemill.testing.formats import make_clip


def test_the_median_of_found_x_and_y_says_that_points_are_pixels() -> None:
    found = [[2, 6, 1e6], [0, np.nan, 1e6], [np.inf, 0, 1e6], [3, 6, 1e6]]
    assert are_pixels(np.array([found]))
    assert not are_pixels(np.array([[[0.5, 0.5, 9], [0.5, 9, 9]]]))
    assert not are_pixels(np.zeros((0, 5, 2)))


def test_some_256_frames_are_looked_at() -> None:
    points = np.full((512, 1, 2), 0.5)
    points[1::2] = 300
    assert not are_pixels(points)
    assert are_pixels(points[1:])


def test_x_and_z_are_divided_by_the_width_and_y_by_the_height() -> None:
    sizes_wh = np.array([(100, 50), (20, 40)], np.int32)
    found = from_pixels(np.full((2, 1, 3), 10), sizes_wh)
    np.testing.assert_allclose(found, [[[0.1, 0.2, 0.1]], [[0.5, 0.25, 0.5]]], rtol=1e-6)
    assert found.dtype == np.float32
    with pytest.raises(ContentError, match="size="):
        from_pixels(np.ones((2, 1, 2)), sizes_wh * [[1], [0]])


def test_pixels_are_rounded_and_zero_where_missing() -> None:
    clip = make_clip(1, frames=1, skeleton="openpose-18", size_wh=(1000, 10))
    clip.points[0, :3, :2] = [[0.1234567, 0.5], [np.nan, np.nan], [2, -1]]
    clip.scores[0, :3] = [0.12345678, 0, 0]
    np.testing.assert_allclose(
        to_pixels(clip)[0, :3], [[123.457, 5, 0.123457], [0, 0, 0], [2000, -10, 1e-6]], rtol=1e-12
    )
