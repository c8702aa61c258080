import cv2
import numpy as np
import pytest

from posemill.estimators.landmarks.crops import corners_of
from posemill.estimators.landmarks.libm import exp
from posemill.estimators.landmarks.masks import _from_picture, enlarge_mask
from posemill.estimators.landmarks.rects import Rect, f32
from posemill.estimators.landmarks.sampling import _fill, _sums, fixed_places


def homography(corners, size):
    """Return x and y `(2, size * size)` of a crop's pixels, by eight equations in float64."""
    target = [(0, size), (0, 0), (size, 0), (size, size)]
    rows, values = [], []
    for (u, v), (x, y) in zip(target, corners, strict=True):
        rows += [[u, v, 1, 0, 0, 0, -u * x, -v * x], [0, 0, 0, u, v, 1, -u * y, -v * y]]
        values += [x, y]
    matrix = np.append(np.linalg.solve(rows, values), 1).reshape(3, 3)
    v, u = np.mgrid[:size, :size].reshape(2, -1)
    x, y, depth = matrix @ np.stack([u, v, np.ones_like(u)])
    return np.stack([x / depth, y / depth])


TURNED = corners_of((f32(400.3), f32(300.1)), (f32(355.5), f32(355.5)), f32(10))
BENT = [(10.0, 210.0), (10.0, 10.0), (210.0, 12.0), (205.0, 209.0)]


@pytest.mark.parametrize(
    ("size", "corners", "doubt"),
    [
        (4, TURNED, 3),  # what is neglected, rounded up, and two halves
        (20, TURNED, 4),
        (64, TURNED, 4),
        (256, TURNED, 5),
        (64, BENT, 163_871),
    ],
)
def test_sums_are_wrong_by_no_more_than_they_say(size, corners, doubt):
    scale = 2.0**16
    first, growth, said = _sums(corners, size, scale)
    sums = np.empty((2, size * size), np.int32)
    _fill(sums, first, growth)
    assert np.abs(sums - homography(corners, size) * scale).max() <= said == doubt


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
        np.testing.assert_array_equal(enlarge_mask(logits, rect, (width, height)), expected)
