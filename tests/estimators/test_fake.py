"""The fake engine: what it says depends on every frame before, so tests can see lost ones."""

from __future__ import annotations

import numpy as np
import pytest

from posemill.errors import ConfigError, DeviceError
from posemill.estimators import open_estimator
from posemill.estimators.fake import FakeEstimator
from posemill.records import Frame


@pytest.fixture
def frames() -> list[Frame]:
    """Four frames of two sizes."""
    rng = np.random.default_rng(3)
    sizes = [(8, 6), (8, 6), (5, 9), (8, 6)]
    return [rng.integers(9, 256, (height, width, 3), np.uint8) for width, height in sizes]


def test_a_batch_gives_the_same_as_single_frames(frames: list[Frame]) -> None:
    engine = FakeEstimator()
    together = engine.estimate(frames)
    for index, frame in enumerate(frames):
        alone = engine.estimate([frame])
        np.testing.assert_array_equal(together.points[index], alone.points[0])
    assert together.sizes_wh.tolist() == [[8, 6], [8, 6], [5, 9], [8, 6]]


def test_in_video_mode_the_order_of_frames_matters(frames: list[Frame]) -> None:
    engine = FakeEstimator()

    def last_of(order: list[int]) -> np.ndarray:
        state = engine.new_state()
        return [engine.estimate([frames[index]], [state]) for index in order][-1].points

    assert not np.array_equal(last_of([0, 1, 3]), last_of([1, 0, 3]))
    assert not np.array_equal(last_of([0, 1, 3]), last_of([0, 3]))
    np.testing.assert_array_equal(last_of([0, 1, 3]), last_of([0, 1, 3]))


def test_a_state_written_and_read_again_goes_on_as_if_uncut(frames: list[Frame]) -> None:
    engine = FakeEstimator()
    uncut, first = engine.new_state(), engine.new_state()
    engine.estimate([frames[0]], [uncut])
    engine.estimate([frames[0]], [first])
    second = FakeEstimator().load_state(first.to_bytes())
    np.testing.assert_array_equal(
        engine.estimate([frames[1]], [uncut]).points, engine.estimate([frames[1]], [second]).points
    )


def test_a_dark_frame_shows_nobody() -> None:
    result = FakeEstimator().estimate([np.full((4, 4, 3), 7, np.uint8)])
    assert np.isnan(result.points).all()
    assert (result.scores == 0).all()


def test_no_frames_give_no_keypoints() -> None:
    assert FakeEstimator().estimate([]).points.shape == (0, 543, 3)


def test_it_is_opened_by_name_and_refuses_a_gpu() -> None:
    assert isinstance(open_estimator("fake", threads=2), FakeEstimator)
    with pytest.raises(DeviceError, match="engine 'fake' runs on the cpu only, not on 'cuda:0'"):
        open_estimator("fake", device="cuda:0")
    with pytest.raises(ConfigError, match="unknown engine 'fakes'; known: holistic, hands, face"):
        open_estimator("fakes")
