"""Where crops and masks are sampled: the sums against OpenCV's own arithmetic."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from posemill.estimators.landmarks.crops import corners_of
from posemill.estimators.landmarks.libm import exp
from posemill.estimators.landmarks.masks import _from_picture, enlarge_mask
from posemill.estimators.landmarks.rects import Rect, f32
from posemill.estimators.landmarks.sampling import (
    Corner,
    SampleGrid,
    _fill,
    _opencv_steps,
    _sums,
    fixed_places,
)

BENT = [(10.0, 210.0), (10.0, 10.0), (210.0, 12.0), (205.0, 209.0)]


def turned(x: float, y: float, side: float, degrees: float) -> list[Corner]:
    return corners_of((f32(x), f32(y)), (f32(side), f32(side)), f32(degrees))


def homography(corners: list[Corner], size: int) -> np.ndarray:
    """Return x and y `(2, size, size)` of a crop's pixels, by eight equations in float64."""
    target = [(0, size), (0, 0), (size, 0), (size, size)]
    rows, values = [], []
    for (u, v), (x, y) in zip(target, corners, strict=True):
        rows += [[u, v, 1, 0, 0, 0, -u * x, -v * x], [0, 0, 0, u, v, 1, -u * y, -v * y]]
        values += [x, y]
    matrix = np.append(np.linalg.solve(rows, values), 1).reshape(3, 3)
    v, u = np.mgrid[:size, :size]
    x, y, depth = np.tensordot(matrix, np.stack([u, v, np.ones_like(u)]), 1)
    return np.stack([x / depth, y / depth])


@pytest.mark.parametrize("size", [4, 16, 20, 64, 192, 256])
@pytest.mark.parametrize("origin", [(0, 0), (37, 91)])
def test_every_coordinate_is_the_one_that_opencv_computes(size, origin):
    places = np.arange(2 * size * size)
    grid = SampleGrid(256)
    for corners in (turned(400.3, 300.1, 355.5, 10), turned(-70.2, 2000.7, 40.4, -125)):
        steps = _opencv_steps(corners, (size, size), places, origin)
        found = grid.locate(corners, size, origin=origin, limits=None)
        assert found.shape == (2, size, size)
        np.testing.assert_array_equal(found.reshape(-1) * 32, steps)
        # and they are the place of the pixel, to half a step of 1/32 px
        exact = homography(corners, size) - np.array(origin)[:, None, None]
        assert np.abs(found - exact).max() < 0.5 / 32 + 1e-4


def test_coordinates_beyond_the_limits_are_the_limits():
    corners = turned(50, 40, 60, 0)
    free = SampleGrid(64).locate(corners, 64, origin=(0, 0), limits=None)
    kept = SampleGrid(64).locate(corners, 64, origin=(0, 0), limits=((30, 60), (25, 55)))
    assert (free[0].min(), free[0].max(), free[1].min()) == (20.0, 79.0625, 10.0)
    np.testing.assert_array_equal(kept, [free[0].clip(30, 60), free[1].clip(25, 55)])


@pytest.mark.parametrize(
    ("size", "corners", "doubt"),
    [
        (4, turned(400.3, 300.1, 355.5, 10), 3),  # what is neglected, rounded up, and two halves
        (20, turned(400.3, 300.1, 355.5, 10), 4),
        (64, turned(400.3, 300.1, 355.5, 10), 4),
        (256, turned(400.3, 300.1, 355.5, 10), 5),
        (64, BENT, 163_871),
    ],
)
def test_sums_are_wrong_by_no_more_than_they_say(size, corners, doubt):
    scale = 2.0**16
    first, growth, said = _sums(corners, size, scale)
    sums = np.empty((2, size * size), np.int32)
    _fill(sums, first, growth)
    wrong = np.abs(sums - homography(corners, size).reshape(2, -1) * scale).max()
    assert wrong <= said == doubt


@pytest.mark.parametrize("size_wh", [(256, 256), (256, 144)])
def test_fixed_places_are_those_of_a_warp(size_wh):
    rng = np.random.default_rng(4)
    for width, height in ((512, 512), (1280, 720), (333, 217), (3, 900)):
        picture = rng.integers(0, 256, (height, width, 3), np.uint8)
        corners = [(0, height), (0, 0), (width, 0), (width, height)]
        target = [(0, size_wh[1]), (0, 0), (size_wh[0], 0), size_wh]
        to_crop = cv2.getPerspectiveTransform(
            np.array(corners, np.float32), np.array(target, np.float32)
        )
        warped = cv2.warpPerspective(picture, to_crop, size_wh, flags=cv2.INTER_LINEAR)
        cut = cv2.remap(picture, *fixed_places(corners, size_wh), cv2.INTER_LINEAR)
        np.testing.assert_array_equal(cut, warped)


@pytest.mark.parametrize("side", [40, 250, 900, 3000])
@pytest.mark.parametrize("angle", [0.0, 0.7, -2.5])
def test_a_mask_is_that_of_the_whole_map_however_little_the_picture_shows_of_it(side, angle):
    width, height = f32(230), f32(170)
    logits = np.random.default_rng(1).normal(0, 8, (256, 256)).astype(np.float32)
    sure = (1 / (exp(-logits).astype(np.float64) + 1)).astype(np.float32)
    for x, y in ((0.5, 0.5), (0.1, 0.9), (1.4, -0.3)):
        rect = Rect(*map(f32, (x, y, side / width, side / height, angle)))
        to_map = _from_picture(rect, (width, height)) * f32(256)
        to_map[:, :2] *= f32(1) / np.array([width, height])
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        expected = cv2.warpAffine(sure, to_map, (230, 170), flags=flags)
        found = enlarge_mask(logits, rect, (width, height))
        np.testing.assert_array_equal(found, expected)
