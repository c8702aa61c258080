"""The body's rules without a network: places, points moved by heat, filters over a clip."""

from __future__ import annotations

import math

import numpy as np
import pytest

from posemill.estimators.landmarks.body import (
    PoseLandmarks,
    follow,
    read_pose,
    rect_from_detection,
    refine_by_heat,
)
from posemill.estimators.landmarks.body_state import BodyState
from posemill.estimators.landmarks.detection import Detection, empty_shares
from posemill.estimators.landmarks.rects import Rect, f32

SIZE = (f32(200), f32(100))


def body(x: float = 0.5, visibility: float = 1.0) -> PoseLandmarks:
    """A body at one place, its two auxiliary points 20 px apart, one above the other."""
    landmarks = np.tile(np.array([x, 0.5, 0.1], np.float32), (35, 1))
    landmarks[34, 1] = 0.3
    metres = np.tile(np.array([1.0, 2.0, 3.0], np.float32), (33, 1))
    return PoseLandmarks(landmarks, np.full(33, visibility, np.float32), metres, f32(math.pi / 2))


def test_what_is_empty_beside_a_picture_is_rounded_as_the_original_does() -> None:
    assert empty_shares(f32(4), f32(2)) == (0, 0.25)
    # 1 - 1/(640/359), each step rounded: one bit more than 1 - 359/640
    assert empty_shares(f32(359), f32(640)) == (f32(0.21953126788139343), 0)


def test_heat_moves_a_point_only_where_there_is_enough() -> None:
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
def test_heat_beyond_the_edge_of_the_map_does_not_count(x: float, y: float) -> None:
    """A window of 9 x 9 at an edge: its inner half is evenly warm, so its middle is the centre."""
    points = np.array([[x, y, 0]], np.float32)
    refine_by_heat(points, np.full((1, 64, 64), 20, np.float32))
    for value, v in zip(points[0, :2], (x, y), strict=True):
        inside = [cell for cell in range(int(v * 64) - 4, int(v * 64) + 5) if 0 <= cell < 64]
        assert float(value) == pytest.approx(np.mean(inside) / 64, abs=1e-5)


def test_a_detected_body_is_upright_and_a_quarter_larger() -> None:
    # In the square around the picture, of which 50 px are empty above and below.
    points = np.array([[0.5, 0.5], [0.5, 0.4]], np.float32)
    place = rect_from_detection(Detection(f32(0.9), np.zeros(4, np.float32), points), SIZE)
    # 20 px up: a square of 40 px, times 1.25
    assert [float(v) for v in place] == pytest.approx([0.5, 0.5, 0.25, 0.5, 0], abs=1e-6)


def outputs(score: float) -> list[np.ndarray]:
    """A network's outputs: every point in the middle of the crop, no heat."""
    raw = np.tile(np.array([128, 128, 64, 2, 0], np.float32), (39, 1))
    metres = np.tile(np.array([1.0, 2.0, 3.0], np.float32), (39, 1))
    heat = np.full((1, 39, 64, 64), -20, np.float32)
    return [raw.reshape(1, -1), np.array([[score]], np.float32), heat, metres.reshape(1, -1)]


def test_a_body_is_read_above_the_score_that_was_asked_for() -> None:
    place = Rect(f32(0.3), f32(0.4), f32(0.2), f32(0.4), f32(0.5))
    assert read_pose(outputs(0.5), place, SIZE, min_score=0.5) is None
    pose = read_pose(outputs(0.51), place, SIZE, min_score=0.5)
    assert pose is not None
    assert pose.landmarks.shape == (35, 3)
    np.testing.assert_allclose(pose.landmarks[0], [0.3, 0.4, 0.25 * 0.2], atol=1e-6)
    np.testing.assert_allclose(pose.visibility, [1 / (1 + math.exp(-2))] * 33, rtol=1e-6)
    assert (pose.metres == [1, 2, 3]).all()
    assert pose.rotation == f32(0.5)


def test_without_a_state_nothing_is_smoothed_and_no_metres_are_made() -> None:
    pose = follow(body(), None, SIZE)
    np.testing.assert_allclose(pose.points[0], [0.5, 0.5, 0.1], atol=1e-6)
    assert pose.world is None


def test_metres_are_turned_upright_where_they_are_asked_for() -> None:
    static = BodyState(follows_pose=False)
    for state in (None, static):
        world = follow(body(), state, SIZE, keeps_world=True).world
        assert world is not None
        np.testing.assert_allclose(world[0], [-2, 1, 3], atol=1e-6)  # a quarter turn
    assert static.next_rect is None  # nothing is remembered of a body that is not followed


def test_a_followed_body_is_smoothed_and_remembered() -> None:
    state = BodyState()
    for x, visibility in ((0.5, 1.0), (0.51, 0.0)):
        state.num_frames += 1
        pose = follow(body(x, visibility), state, SIZE, keeps_world=True)
    assert 0.5 < pose.points[0, 0] < 0.51
    assert float(pose.visibility[0]) == pytest.approx(0.9)
    assert state.next_rect is not None
    # the auxiliary points follow more slowly than the body
    assert 0.5 < state.next_rect.center_x < pose.points[0, 0]
    # 20 px up: a square of 40 px, times 1.25, in shares of this frame
    assert [float(v) for v in state.next_rect[1:]] == pytest.approx([0.5, 0.25, 0.5, 0], abs=1e-6)
    assert pose.world is not None


def test_a_body_may_be_followed_without_being_smoothed() -> None:
    state = BodyState(smooths=False)
    for x, visibility in ((0.5, 1.0), (0.51, 0.0)):
        state.num_frames += 1
        pose = follow(body(x, visibility), state, SIZE, keeps_world=True)
    assert float(pose.points[0, 0]) == pytest.approx(0.51, abs=1e-6)
    assert pose.visibility[0] == 0
    assert state.visibility is None
    assert state.next_rect is not None
    assert state.next_rect.center_x < 0.51
    assert pose.world is not None
    np.testing.assert_allclose(pose.world[0], [-2, 1, 3], atol=1e-6)


def test_speed_counts_in_sizes_of_the_body() -> None:
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


def test_a_body_without_size_is_not_filtered() -> None:
    state = BodyState(num_frames=1)
    pose = body()
    pose.landmarks[34] = pose.landmarks[33]
    follow(pose, state, SIZE)
    assert state.body_filter.raw is None
    assert state.next_rect is not None
