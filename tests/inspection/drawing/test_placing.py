"""Where points lie in a picture, and how clips made for a model are told apart."""

import numpy as np
import pytest

from posemill.inspection.drawing.placing import model_bounds, place_points
from posemill.records import PoseClip


def make(xy, num_frames=6, **fields):
    """Return a clip of openpose-18 whose first points are these, the others missing."""
    points = np.full((num_frames * 18, 3), np.nan, np.float32)
    points[: len(xy), :2] = np.reshape(xy, (-1, 2))
    points = points.reshape(num_frames, 18, 3)
    sizes = np.zeros((num_frames, 2), np.int32)
    return PoseClip(points, np.ones((num_frames, 18)), sizes, "openpose-18", **fields)


def is_for_model(xy, **fields):
    return model_bounds(make(xy, **fields)) is not None


@pytest.mark.parametrize(
    ("place", "num_of_model"),  # of a hundred points, how many there make a clip one for a model
    [((1.5, 0.5), 40), ((0.5, 1.5), 40), ((0.5, -0.5), 40), ((0.5, 9), 40), ((-0.1, 0.5), 33),
     ((1.49, 0.5), 101), ((0.5, 1.49), 101), ((0.5, -0.49), 101), ((0, 0), 101)],
)  # fmt: skip
def test_points_are_told_apart_by_how_many_are_far_outside_of_a_picture(place, num_of_model):
    assert not is_for_model([place] * (num_of_model - 1) + [(0, 0.5)] * (101 - num_of_model))
    assert num_of_model > 100 or is_for_model(
        [place] * num_of_model + [(0, 0.5)] * (100 - num_of_model)
    )


def test_what_is_for_a_model_is_told_by_the_file_the_picture_and_the_points():
    xy = [(-0.1, 0.5)] * 60 + [(0.2, 0.5)] * 40
    clip = make(xy)
    assert model_bounds(clip) is not None
    clip.sizes_wh[:] = (640, 480)
    assert model_bounds(clip) is None
    assert is_for_model([(0.5, 0.5)], normalized="bbox")
    assert not is_for_model([], normalized="bbox")
    assert not is_for_model([(np.inf, 0.5)], normalized="bbox")
    assert not is_for_model([], num_frames=0)


def test_bounds_leave_out_a_hundredth_at_both_ends():
    x = np.arange(101)
    low, high = model_bounds(make(np.stack([x, 10 * x], 1)))
    np.testing.assert_allclose([low, high], [[1, 10], [99, 990]])
    assert low.dtype == np.float32


@pytest.mark.parametrize(("num_frames", "expected"), [(127, True), (128, False)])
def test_some_64_frames_are_looked_at(num_frames, expected):
    clip = make([], num_frames)
    clip.points[::2] = 0.5
    clip.points[1::2] = 5
    assert (model_bounds(clip) is not None) == expected


def test_points_are_placed_by_the_size_of_the_picture_and_those_of_a_model_in_the_middle():
    clip = make([(9, 9)] * 18 + [(0.5, 0.25), (19.9, -19.9), (20, 0), (0, -20), (np.inf, 0)])
    found = place_points(clip.points[1], (200, 100), None)
    np.testing.assert_allclose(found[:6], [
        (100, 25), (3980, -1990), *[(np.nan, np.nan)] * 4
    ], rtol=1e-5)  # fmt: skip
    assert (found.shape, found.dtype) == ((18, 2), np.float32)
    bounds = np.array([-1, -1], np.float32), np.array([1, 3], np.float32)
    # 90 % of 100 pixels for a height of 4: 22.5 pixels for 1.
    found = place_points(make([(1, 3), (0, 1), (-1, -1)]).points[0], (200, 100), bounds)
    np.testing.assert_allclose(found[:3], [(122.5, 95), (100, 50), (77.5, 5)], rtol=1e-5)
    spot = np.array([2, 2], np.float32)
    found = place_points(make([(2, 2), (2.1, 2)]).points[0], (200, 100), (spot, spot))
    np.testing.assert_allclose(found[:2], [(100, 50), (np.nan, np.nan)])
