import dataclasses

import numpy as np
import pytest

from posemill.clips.smoothing import METHODS, smooth
from posemill.records import OtherPeople, PersonIds, PoseClip

K = 18


def make_clip(path, *, fps=25.0):
    """A clip of one moving body: `path` is `(frames, 2)`, the place of its first point."""
    frames = len(path)
    shape = np.random.default_rng(0).uniform(-0.2, 0.2, (K, 2))
    points = np.zeros((frames, K, 3), np.float32)
    points[..., :2] = path[:, None] + shape
    return PoseClip(
        points, np.ones((frames, K), np.float32), np.full((frames, 2), 100, np.int32),
        skeleton_name="openpose-18", fps=fps,
    )  # fmt: skip


@pytest.fixture
def noisy():
    """A body that swings once in two seconds; and the same with noise."""
    seconds = np.arange(100) / 25
    clean = make_clip(np.stack([0.5 + 0.1 * np.sin(np.pi * seconds), 0.5 + 0 * seconds], 1))
    noise = np.random.default_rng(1).normal(0, 0.004, clean.points.shape).astype(np.float32)
    return clean, dataclasses.replace(clean, points=clean.points + noise)


@pytest.mark.parametrize("method", METHODS)
def test_noise_becomes_less_and_the_motion_stays(method, noisy):
    clean, rough = noisy
    smoothed = smooth(rough, method)

    def jitter(clip):
        return float(np.abs(np.diff(clip.points, 2, axis=0)).mean())

    assert jitter(smoothed) < 0.5 * jitter(rough)
    assert np.abs(smoothed.points - clean.points).max() < 0.04
    assert smoothed.scores is rough.scores
    if method != "one-euro":  # filters that see the future are nearer and do not lag
        error = np.abs(smoothed.points - clean.points).mean()
        assert error < 0.75 * np.abs(rough.points - clean.points).mean()
        assert error < np.abs(smooth(rough, "one-euro").points - clean.points).mean()


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_seen_across_a_gap_and_missing_points_stay_missing(method):
    path = np.zeros((40, 2))
    path[20:] = 1.0  # another place behind the gap
    clip = make_clip(path)
    clip.points[18:21, 3] = np.nan
    before = clip.points.copy()
    smoothed = smooth(clip, method)
    np.testing.assert_array_equal(np.isnan(smoothed.points), np.isnan(before))
    np.testing.assert_allclose(smoothed.points[:18, 3], before[:18, 3], atol=1e-6)
    np.testing.assert_allclose(smoothed.points[21:, 3], before[21:, 3], atol=1e-6)
    assert np.abs(smoothed.points[19:21, 4] - before[19:21, 4]).max() > 0.01  # no gap there
    np.testing.assert_array_equal(clip.points, before)


@pytest.mark.parametrize("method", METHODS)
def test_frames_that_were_left_out_are_a_gap_and_every_second_frame_is_none(method):
    clip = make_clip(np.repeat([[0.0, 0.0], [1.0, 1.0]], 20, axis=0))
    cut = np.concatenate([np.arange(20), np.arange(30, 50)])
    apart = smooth(dataclasses.replace(clip, frame_indices=cut), method)
    np.testing.assert_allclose(apart.points, clip.points, atol=1e-6)
    halved = dataclasses.replace(clip, frame_indices=2 * np.arange(40))
    together = smooth(clip, method)
    np.testing.assert_array_equal(smooth(halved, method).points, together.points)
    assert np.abs(together.points - clip.points).max() > 0.01


def test_savgol_keeps_a_parabola_and_equals_the_textbook_window():
    frames = np.arange(30)
    clip = make_clip(np.stack([0.001 * frames**2, 0.5 - 0.01 * frames], 1))
    np.testing.assert_allclose(smooth(clip, "savgol").points, clip.points, atol=1e-5)
    # Five points, second order: -3, 12, 17, 12, -3 over 35 (Savitzky and Golay, 1964).
    pulse = make_clip(np.eye(1, 30, 15).repeat(2, 0).T)
    smoothed = smooth(pulse, "savgol", window_seconds=4 / 25)
    step = (smoothed.points - smoothed.points[0])[13:18, 0, 0] * 35
    np.testing.assert_allclose(step, [-3, 12, 17, 12, -3], atol=1e-4)


def test_gaussian_takes_means_whose_weights_fall_with_the_distance_also_at_the_ends():
    path = np.stack([np.eye(9)[4], np.arange(9.0)], 1)
    change = smooth(make_clip(path), "gaussian").points[:, 0] - make_clip(path * 0).points[:, 0]
    weights = np.exp([-2, -0.5, 0, -0.5, -2])
    np.testing.assert_allclose(change[2:7, 0], weights / weights.sum(), atol=1e-5)
    np.testing.assert_allclose(change[0, 1], weights[2:] @ [0, 1, 2] / weights[2:].sum(), atol=1e-5)


def test_the_rate_of_the_clip_decides_how_many_frames_are_a_window():
    pulse = np.eye(1, 60, 30).repeat(2, 0).T
    slow = smooth(make_clip(pulse, fps=10), "gaussian")
    fast = smooth(make_clip(pulse, fps=50), "gaussian")
    unknown = smooth(make_clip(pulse, fps=None), "gaussian")

    def width(clip):
        return int((np.abs(clip.points[:, 0, 0] - clip.points[0, 0, 0]) > 1e-6).sum())

    assert (width(slow), width(fast), width(unknown)) == (3, 11, 5)


def test_short_clips_and_clips_without_anybody_stay():
    for method in METHODS:
        for frames in (0, 1, 2):
            clip = make_clip(np.zeros((frames, 2)))
            np.testing.assert_allclose(smooth(clip, method).points, clip.points)
        nobody = make_clip(np.full((5, 2), np.nan))
        nobody.points[:] = np.nan
        assert np.isnan(smooth(nobody, method).points).all()


def test_a_wrong_argument_is_named():
    wrong = {"window_seconds": 0, "min_cutoff": float("nan"), "beta": -1, "method": "kalman"}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=rf"^{name}: expected"):
            smooth(make_clip(np.zeros((4, 2))), **{name: value})


@pytest.mark.parametrize("method", METHODS)
def test_two_people_who_change_places_in_the_clip_are_smoothed_each_alone(method):
    rng = np.random.default_rng(2)
    left, right = (
        make_clip(np.array([x, 0.5]) + rng.normal(0, 0.004, (30, 2))) for x in (0.3, 0.7)
    )
    is_left_first = np.arange(30) % 3 > 0
    firsts = np.where(is_left_first[:, None, None], left.points, right.points)
    seconds = np.where(is_left_first[:, None, None], right.points, left.points)
    others = OtherPeople(
        np.ones(30, np.int64),
        seconds,
        left.scores,
        ids=PersonIds(np.where(is_left_first, 1, 2), np.where(is_left_first, 2, 1)),
    )
    both = smooth(dataclasses.replace(left, points=firsts, others=others), method)
    alone = [smooth(clip, method).points for clip in (left, right)]
    np.testing.assert_array_equal(both.points[is_left_first], alone[0][is_left_first])
    np.testing.assert_array_equal(both.others.points[is_left_first], alone[1][is_left_first])
    np.testing.assert_array_equal(both.points[~is_left_first], alone[1][~is_left_first])
