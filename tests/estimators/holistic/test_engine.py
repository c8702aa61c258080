from contextlib import closing
from importlib import metadata

import cv2
import numpy as np
import pytest

from posemill.errors import ConfigError, DeviceError
from posemill.estimators import open_estimator
from posemill.estimators.holistic import HolisticEstimator

BLACK = np.zeros((120, 160, 3), np.uint8)


@pytest.fixture(scope="module")
def engine(model_files):
    with closing(HolisticEstimator()) as estimator:
        yield estimator


@pytest.fixture(scope="module")
def frames(photo):
    """Six frames of a slow zoom and pan over the photograph, the fourth black."""
    made = []
    for step in range(6):
        part = photo[2 * step : 400 + 3 * step, 10 + 4 * step : 380 + 6 * step]
        made.append(cv2.resize(part, (320, 300)))
    made[3] = np.zeros_like(made[3])
    return made


def as_bytes(keypoints, row):
    return keypoints.points[row].tobytes() + keypoints.scores[row].tobytes()


@pytest.fixture(scope="module")
def tracked(engine, frames):
    state = engine.new_state()
    return [as_bytes(engine.estimate([frame], [state]), 0) for frame in frames]


def test_tracking_smooths_and_forgets_after_an_empty_frame(engine, frames, tracked):
    first, second, fifth = (as_bytes(engine.estimate([frames[row]]), 0) for row in (0, 1, 4))
    assert tracked[0] == first
    assert tracked[1] != second
    assert np.isnan(np.frombuffer(tracked[3], np.float32)[: 543 * 3]).all()
    points = np.frombuffer(tracked[4], np.float32)[: 33 * 3]
    np.testing.assert_array_equal(points, np.frombuffer(fifth, np.float32)[: 33 * 3])


def test_states_and_frames_must_pair_up(engine):
    with pytest.raises(ValueError, match="expected 2, one per frame, got 1"):
        engine.estimate([BLACK, BLACK], [engine.new_state()])


def test_what_decides_the_result_is_in_the_identity(engine):
    identity = engine.identity()
    assert identity["engine"] == "holistic"
    assert identity["runtime"] == f"litert {metadata.version('ai-edge-litert')}"
    assert "converter" not in identity
    assert identity["sha256 hand_recrop"].startswith("67d996ce")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"min_detection_confidence": 1.5}, ConfigError, "detection_confidence: expected 0 to 1"),
        ({"min_tracking_confidence": -1}, ConfigError, "min_tracking_confidence: expected 0 to 1"),
        ({"parts": "hands,face"}, ConfigError, "'hands,face'; known: pose,hands,face"),
        ({"threads": 0}, ConfigError, "threads: expected at least 1, got 0"),
        ({"runtime": "tensorflow"}, ConfigError, "unknown runtime 'tensorflow'; known: auto, l"),
        ({"device": "gpu"}, DeviceError, "unknown device 'gpu'; expected cpu, cuda:N"),
        ({"runtime": "litert", "device": "cuda:0"}, DeviceError, "runs on the cpu only"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_said(options, error, message):
    with pytest.raises(error, match=message):
        open_estimator("holistic", **options)


@pytest.mark.parametrize("parts", ["pose", "pose,hands", "pose,face"])
def test_parts_that_are_off_are_missing_and_the_others_have_the_same_digits(
    engine, frames, tracked, parts
):
    some = HolisticEstimator(parts=parts)
    state = some.new_state()
    networks = {"pose": 0, "pose,hands": 2, "pose,face": 2}
    assert len(some._networks) == len(engine._networks) - 4 + networks[parts]
    for frame, whole in zip(frames, tracked, strict=True):
        expected = np.frombuffer(whole, np.float32)[: 543 * 3].reshape(543, 3).copy()
        found = some.estimate([frame], [state]).points[0]
        if "face" not in parts:
            expected[33:501] = np.nan
        if "hands" not in parts:
            expected[501:] = np.nan
        np.testing.assert_array_equal(found, expected)
    assert some.identity()["parts"] == parts
