"""Old scripts with one changed import."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import posemill
from posemill.errors import ConfigError


def test_an_old_script_runs(model_files: dict[str, Path], photo: np.ndarray) -> None:
    with posemill.Holistic(static_image_mode=True, model_complexity=1) as holistic:
        results = holistic.process(photo)
        empty = holistic.process(np.zeros_like(photo))
    assert len(results.pose_landmarks.landmark) == 33
    nose = results.pose_landmarks.landmark[0]
    assert 0.4 < nose.x < 0.47
    assert nose.visibility > 0.99
    assert len(results.face_landmarks.landmark) == 468
    assert not results.face_landmarks.landmark[0].HasField("visibility")
    assert results.pose_world_landmarks.landmark[0].y < 0  # metres, above the hips
    assert results.face_landmarks.to_numpy().shape == (468, 3)
    assert empty.pose_landmarks is None
    assert empty.face_landmarks is None
    with pytest.raises(ValueError, match="this Holistic was closed"):
        holistic.process(photo)


def test_static_pictures_are_independent_after_a_reset(
    model_files: dict[str, Path], photo: np.ndarray
) -> None:
    shifted = np.roll(photo, 4, axis=1)
    with posemill.Holistic(static_image_mode=True) as holistic:
        alone = holistic.process(shifted).face_landmarks.to_numpy()
        holistic.reset()
        holistic.process(photo)
        remembering = holistic.process(shifted).face_landmarks.to_numpy()
        holistic.reset()
        again = holistic.process(shifted).face_landmarks.to_numpy()
    np.testing.assert_array_equal(alone, again)
    assert (alone != remembering).any()  # as in the original, hands and face look back


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model_complexity": 2}, "model_complexity=2 is not supported.*use model_complexity=1"),
        ({"enable_segmentation": True}, "enable_segmentation=True is not supported"),
        ({"refine_face_landmarks": True}, r"refine_face_landmarks=True \(478 points\)"),
        ({"min_detection_confidence": 7}, "expected 0 to 1, got 7"),
    ],
)
def test_what_is_not_supported_is_said(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        posemill.Holistic(**options)
