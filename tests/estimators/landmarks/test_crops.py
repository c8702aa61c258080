"""Crops against OpenCV's own warp: every byte."""

import math

import cv2
import numpy as np
import pytest

from posemill.estimators.landmarks import crops, sampling
from posemill.estimators.landmarks.crops import Cropper, corners_of
from posemill.estimators.landmarks.rects import Rect, f32
from posemill.estimators.landmarks.sampling import SampleGrid

SIZE = 64


@pytest.fixture(autouse=True)
def _by_our_own_coordinates(monkeypatch):
    """Small crops are OpenCV's own where its warp is the classic one; here none is."""
    monkeypatch.setattr(crops, "_IS_CLASSIC", False)


def make_picture(width, height):
    return np.random.default_rng(2).integers(0, 256, (height, width, 3), np.uint8)


def square(x, y, side, angle, picture):
    """Return a square given in pixels as a rect of the picture."""
    height, width = picture.shape[:2]
    return Rect(*map(f32, (x / width, y / height, side / width, side / height, angle)))


def opencv_crop(picture, rect, size, *, repeats_border):
    height, width = (f32(side) for side in picture.shape[:2])
    longer = float(max(rect.width * width, rect.height * height))
    box = ((float(rect.center_x * width), float(rect.center_y * height)), (longer, longer),
           float(f32(float(rect.rotation * f32(180)) / math.pi)))  # fmt: skip
    corners = cv2.boxPoints(box)
    mine = corners_of((f32(box[0][0]), f32(box[0][1])), (f32(longer),) * 2, f32(box[2]))
    np.testing.assert_array_equal(np.array(mine, np.float32), corners)
    target = np.array([(0, size), (0, 0), (size, 0), (size, size)], np.float32)
    matrix = cv2.getPerspectiveTransform(corners, target)
    border = cv2.BORDER_REPLICATE if repeats_border else cv2.BORDER_CONSTANT
    return cv2.warpPerspective(picture, matrix, (size, size), borderMode=border)


def cut(picture, rect, size, **options):
    out = np.full((size, size, 3), 77, np.uint8)
    Cropper(size, SampleGrid(size), **options).cut(picture, rect, out)
    return out


def check(picture, rect, size=SIZE, *, repeats_border=True):
    """Return our crop, after a check that it is OpenCV's."""
    crop = cut(picture, rect, size, repeats_border=repeats_border)
    expected = opencv_crop(picture, rect, size, repeats_border=repeats_border)
    np.testing.assert_array_equal(crop, expected)
    return crop


@pytest.mark.parametrize("repeats_border", [True, False])
@pytest.mark.parametrize(
    ("width", "height", "sides"),
    [
        (150, 90, (10, 150)),
        (641, 479, (30, 300)),  # parts inside, parts over the edge
        (7, 5, (3, 60)),
        (1, 1, (1, 9)),
        (200, 160, (300, 900)),  # most of the crop lies outside
        (3840, 2160, (1500, 3500)),  # too large to be copied
    ],
)
def test_crops_are_those_of_opencv(width, height, sides, repeats_border):
    rng = np.random.default_rng(3)
    picture = make_picture(width, height)
    for _ in range(100):
        center = rng.uniform(-0.3, 1.3) * width, rng.uniform(-0.3, 1.3) * height
        rect = square(*center, rng.uniform(*sides), rng.uniform(-3, 3), picture)
        check(picture, rect, repeats_border=repeats_border)


def test_small_crops_are_the_same_by_opencv_itself(monkeypatch):
    picture = make_picture(320, 240)
    where = square(150.3, 120.1, 300, 0.7, picture)
    ours = cut(picture, where, 192, repeats_border=True)
    monkeypatch.setattr(crops, "_IS_CLASSIC", True)
    monkeypatch.setattr(SampleGrid, "locate", None)  # not asked
    np.testing.assert_array_equal(cut(picture, where, 192, repeats_border=True), ours)


@pytest.mark.parametrize("size", [128, 192, 224, 256])
@pytest.mark.parametrize("angle", [0.0, 1.0, -2.5, math.pi / 2])
def test_crops_of_the_networks_sizes_are_those_of_opencv(size, angle):
    picture = make_picture(320, 240)
    for step in range(12):
        rect = square(150.3 + step * 7.77, 120.1, 60.4 + 35 * step, angle, picture)
        check(picture, rect, size)


def test_many_crops_of_a_large_picture_are_those_of_opencv():
    """A coordinate in a hundred thousand would be rounded the other way without a second look."""
    rng = np.random.default_rng(4)
    picture = make_picture(1280, 720)
    for _ in range(60):
        center = rng.uniform(0, 1280), rng.uniform(0, 720)
        rect = square(*center, rng.uniform(100, 1500), rng.uniform(-0.3, 0.3), picture)
        check(picture, rect, 256)


def test_what_is_bent_by_the_rounding_of_its_corners_is_located_as_opencv_does():
    """An eighth of a pixel where float32 has steps of 1/2048 px: one order is not enough."""
    corners = [(8191.91943359375, 8191.9794921875), (8192.046875, 8191.9794921875),
               (8192.046875, 8192.1064453125), (8191.9189453125, 8192.1064453125)]  # fmt: skip
    origin, places = (8190, 8190), np.arange(2 * 128 * 128)
    found = SampleGrid(128).locate(corners, 128, origin=origin, limits=None)
    expected = sampling._opencv_steps(corners, (128, 128), places, origin)
    np.testing.assert_array_equal(found.reshape(-1) * 32, expected)


ODD = {
    # One pixel and a half step aside: every coordinate is halfway, which is rounded to even.
    "all in the middle": ((300, 300), (*[(148 + 1 / 64) / 300] * 2, *[256 / 300] * 2, 0)),
    # OpenCV solves for its matrix with an error of 0.0001 px here.
    "tiny and far out": ((16383, 6), (0.89210427, 0.5755848, 5.9727818e-06, 0.01630868, 2.677918)),
    "nowhere": ((150, 90), (0.5, math.nan, 0.5, 0.5, 0.0)),
    "infinitely far": ((150, 90), (math.inf, 0.5, 0.5, 0.5, 0.0)),
    "without a side": ((150, 90), (0.5, 0.5, 0.0, 0.0, 0.0)),
    "huge": ((150, 90), (0.5, 0.5, 1e6, 1e6, 0.3)),
}


@pytest.mark.parametrize(("size_wh", "where"), ODD.values(), ids=ODD)
def test_odd_crops_are_those_of_opencv(size_wh, where):
    with np.errstate(invalid="ignore"):
        check(make_picture(*size_wh), Rect(*map(f32, where)), 256)


@pytest.mark.parametrize("repeats_border", [True, False])
@pytest.mark.parametrize(("x", "y"), [(-900, 50), (50, -900), (2000, 50), (50, 2000), (-9e5, 50)])
def test_a_crop_outside_the_picture_shows_its_edge_or_nothing(x, y, repeats_border):
    picture = make_picture(150, 90)
    crop = check(picture, square(x, y, 120, 0.5, picture), repeats_border=repeats_border)
    assert crop.any() == repeats_border


def test_a_rectangle_whose_sides_differ_fills_the_crop_where_it_may_be_stretched():
    picture = make_picture(320, 240)
    where = Rect(*map(f32, (0.5, 0.4, 150 / 320, 100 / 240, 0.3)))
    box = ((160.0, 96.0), (150.0, 100.0), float(f32(float(where.rotation * f32(180)) / math.pi)))
    target = np.array([(0, SIZE), (0, 0), (SIZE, 0), (SIZE, SIZE)], np.float32)
    matrix = cv2.getPerspectiveTransform(cv2.boxPoints(box), target)
    stretched = cv2.warpPerspective(picture, matrix, (SIZE, SIZE), borderMode=cv2.BORDER_REPLICATE)
    np.testing.assert_array_equal(
        cut(picture, where, SIZE, repeats_border=True, stretches=True), stretched
    )
    check(picture, where)


def test_the_whole_picture_lies_in_the_middle_of_its_square():
    out = cut(np.full((2, 4, 3), 200, np.uint8), None, 4, repeats_border=False)
    assert out[..., 0].tolist() == [[0] * 4, [200] * 4, [200] * 4, [0] * 4]


@pytest.mark.parametrize(("width", "height"), [(640, 480), (176, 144), (359, 641), (1920, 1080)])
def test_whole_pictures_of_one_shape_in_turns_with_others_are_those_of_opencv(width, height):
    """The coordinates of the last shape are kept."""
    cropper = Cropper(224, SampleGrid(224), repeats_border=False)
    pictures = [make_picture(width, height), make_picture(height, width)]
    out = np.zeros((224, 224, 3), np.uint8)
    for picture in (*pictures, pictures[1][::-1].copy(), pictures[0]):
        cropper.cut(picture, None, out)
        side = max(width, height)
        where = square(picture.shape[1] / 2, picture.shape[0] / 2, side, 0, picture)
        expected = opencv_crop(picture, where, 224, repeats_border=False)
        np.testing.assert_array_equal(out, expected)
