"""The body's rules without a network: places, points moved by heat, filters over a clip."""

import math

import numpy as np
import pytest

from posemill.estimators.landmarks.body import PoseLandmarks, follow, read_pose, refine_by_heat
from posemill.estimators.landmarks.body_state import BodyState
from posemill.estimators.landmarks.rects import Rect, f32
from posemill.estimators.landmarks.smoothing import OneEuro

SIZE = (f32(200), f32(100))


def body(x=0.5, visibility=1.0):
    """A body at one place, its two auxiliary points 20 px apart, one above the other."""
    landmarks = np.tile(np.array([x, 0.5, 0.1], np.float32), (35, 1))
    landmarks[34, 1] = 0.3
    metres = np.tile(np.array([1.0, 2.0, 3.0], np.float32), (33, 1))
    return PoseLandmarks(landmarks, np.full(33, visibility, np.float32), metres, f32(math.pi / 2))


def test_heat_moves_a_point_only_where_there_is_enough():
    points = np.full((39, 3), 0.5, np.float32)
    points[2, 0] = 1.4  # off the map
    heat = np.full((39, 64, 64), -20, np.float32)
    heat[0, 34, 33] = heat[2, 34, 33] = 20
    heat[1, 34, 33] = -1
    refine_by_heat(points, heat)
    np.testing.assert_allclose(points[0, :2], [33 / 64, 34 / 64], atol=1e-5)
    assert points[1].tolist() == [0.5] * 3
    assert points[2, 0] == f32(1.4)


@pytest.mark.parametrize(("x", "y"), [(0.001, 0.5), (0.5, 0.001), (0.999, 0.5), (0.5, 0.999)])
def test_heat_beyond_the_edge_of_the_map_does_not_count(x, y):
    """A window of 9 x 9 at an edge: its inner half is evenly warm, so its middle is the centre."""
    points = np.array([[x, y, 0]], np.float32)
    refine_by_heat(points, np.full((1, 64, 64), 20, np.float32))
    for value, v in zip(points[0, :2], (x, y), strict=True):
        inside = [cell for cell in range(int(v * 64) - 4, int(v * 64) + 5) if 0 <= cell < 64]
        assert float(value) == pytest.approx(np.mean(inside) / 64, abs=1e-5)


def outputs(score):
    """A network's outputs: every point in the middle of the crop, no heat."""
    raw = np.tile(np.array([128, 128, 64, 2, 0], np.float32), (39, 1))
    metres = np.tile(np.array([1.0, 2.0, 3.0], np.float32), (39, 1))
    heat = np.full((1, 39, 64, 64), -20, np.float32)
    return [raw.reshape(1, -1), np.array([[score]], np.float32), heat, metres.reshape(1, -1)]


def test_a_body_is_read_above_the_score_that_was_asked_for():
    place = Rect(f32(0.3), f32(0.4), f32(0.2), f32(0.4), f32(0.5))
    assert read_pose(outputs(0.5), place, SIZE, min_score=0.5) is None
    pose = read_pose(outputs(0.51), place, SIZE, min_score=0.5)
    assert pose.landmarks.shape == (35, 3)
    np.testing.assert_allclose(pose.landmarks[0], [0.3, 0.4, 0.25 * 0.2], atol=1e-6)
    np.testing.assert_allclose(pose.visibility, [1 / (1 + math.exp(-2))] * 33, rtol=1e-6)
    assert (pose.metres == [1, 2, 3]).all()
    assert pose.rotation == f32(0.5)


def test_metres_are_turned_upright_where_they_are_asked_for():
    static = BodyState(follows_pose=False)
    for state in (None, static):
        world = follow(body(), state, SIZE, keeps_world=True).world
        np.testing.assert_allclose(world[0], [-2, 1, 3], atol=1e-6)  # a quarter turn
    assert static.next_rect is None  # nothing is remembered of a body that is not followed


def test_a_body_may_be_followed_without_being_smoothed():
    state = BodyState(smooths=False)
    for x, visibility in ((0.5, 1.0), (0.51, 0.0)):
        state.num_frames += 1
        pose = follow(body(x, visibility), state, SIZE, keeps_world=True)
    assert float(pose.points[0, 0]) == pytest.approx(0.51, abs=1e-6)
    assert pose.visibility[0] == 0
    assert state.visibility is None
    assert state.next_rect.center_x < 0.51
    np.testing.assert_allclose(pose.world[0], [-2, 1, 3], atol=1e-6)


def test_speed_counts_in_sizes_of_the_body():
    """The same step in pixels is slow for a large body and fast for a small one."""
    moved = []
    for reach in (0.05, 0.45):  # 5 and 45 px
        state = BodyState()
        for x in (0.5, 0.51):
            state.num_frames += 1
            pose = body(x)
            pose.landmarks[34, 1] = 0.5 - reach
            found = follow(pose, state, SIZE)
        moved.append(float(found.points[0, 0]))
    assert 0.51 > moved[0] > moved[1] > 0.5


def test_a_body_without_size_is_not_filtered():
    state = BodyState(num_frames=1)
    pose = body()
    pose.landmarks[34] = pose.landmarks[33]
    follow(pose, state, SIZE)
    assert state.body_filter.raw is None
    assert state.next_rect is not None


@pytest.mark.parametrize("frames_apart", [1, 3])
@pytest.mark.parametrize("value_scale", [1.0, 0.01])
def test_a_step_is_filtered_as_the_formula_of_one_euro_says(frames_apart, value_scale):
    min_cutoff, beta, step = 0.05, 80.0, 0.5
    one = OneEuro(min_cutoff, beta)
    one(np.array([10], np.float32), 1)
    found = one(np.array([10 + step], np.float32), 1 + frames_apart, value_scale=value_scale)
    seconds = frames_apart * 0.033333

    def share(cutoff):
        return 1 / (1 + 1 / (2 * math.pi * cutoff * seconds))

    slope = share(1.0) * step * value_scale / seconds
    expected = 10 + share(min_cutoff + beta * abs(slope)) * step
    assert float(found[0]) == pytest.approx(expected, rel=1e-6)


def test_time_is_counted_from_the_last_values():
    last = []
    for frames in ((1, 2, 3), (1, 2, 9)):
        one = OneEuro(0.05, 0.0)
        for frame, value in zip(frames, (0, 0, 1), strict=True):
            found = one(np.array([value], np.float32), frame)
        last.append(float(found[0]))
    assert last[0] < last[1]
