"""Old scripts with one changed import."""

from __future__ import annotations

from collections.abc import Callable
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


def test_a_refined_face_has_ten_points_more(
    need_model: Callable[[str], Path], photo: np.ndarray
) -> None:
    need_model("face_landmark_with_attention")
    with posemill.Holistic(static_image_mode=True, refine_face_landmarks=True) as holistic:
        points = holistic.process(photo).face_landmarks.to_numpy()
    assert points.shape == (478, 3)
    for iris, corners in ((468, (33, 133)), (473, (362, 263))):
        left, right = points[list(corners), 0]
        assert left < points[iris, 0] < right


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
        ({"model_complexity": 3}, "model_complexity: expected 0 to 2, got 3"),
        ({"min_detection_confidence": 7}, "expected 0 to 1, got 7"),
        ({"min_detection_confidence": "a"}, "min_detection_confidence: expected 0 to 1, got 'a'"),
        ({"min_tracking_confidence": None}, "min_tracking_confidence: expected 0 to 1, got None"),
        ({"min_tracking_confidence": float("nan")}, "expected 0 to 1, got nan"),
        ({"threads": "two"}, "threads: expected at least 1, got 'two'"),
    ],
)
def test_what_is_not_supported_is_said(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        posemill.Holistic(**options)


STOCK_ORDER = (
    "static_image_mode", "model_complexity", "smooth_landmarks", "enable_segmentation",
    "smooth_segmentation", "refine_face_landmarks", "min_detection_confidence",
    "min_tracking_confidence",
)  # fmt: skip


@pytest.mark.parametrize("smooth_segmentation", [True, False])
def test_all_eight_arguments_can_be_given_by_position_in_the_order_of_the_original(
    model_files: dict[str, Path], photo: np.ndarray, smooth_segmentation: bool
) -> None:
    values = (True, 1, False, False, smooth_segmentation, False, 0.6, 0.7)
    named = dict(zip(STOCK_ORDER, values, strict=True))
    with posemill.Holistic(*values) as one, posemill.Holistic(**named) as other:
        assert one.process(photo).pose_landmarks == other.process(photo).pose_landmarks
        assert one._engine.options["min_detection_confidence"] == 0.6
        assert one._engine.options["min_tracking_confidence"] == 0.7
        assert one._engine.options["smooth_landmarks"] is False


def test_values_by_position_that_are_not_supported_are_said_as_by_name() -> None:
    with pytest.raises(ConfigError, match="model_complexity: expected 0 to 2, got 7"):
        posemill.Holistic(False, 7, True, False, True, True, 0.5, 0.5)


def test_a_closed_one_stays_closed_after_a_reset(
    model_files: dict[str, Path], photo: np.ndarray
) -> None:
    holistic = posemill.Holistic()
    holistic.close()
    holistic.reset()
    with pytest.raises(ValueError, match="this Holistic was closed; make a new one"):
        holistic.process(photo)
    holistic.close()  # twice does no harm


def test_what_is_no_picture_is_refused_with_words(model_files: dict[str, Path]) -> None:
    with posemill.Holistic() as holistic:
        with pytest.raises(ValueError, match=r"expected a picture .* cv2\.imread returns None"):
            holistic.process(None)
        with pytest.raises(ValueError, match=r"expected a numpy array .*, got str; read the"):
            holistic.process("photo.jpg")


def test_fields_are_set_as_in_the_original(model_files: dict[str, Path], photo: np.ndarray) -> None:
    with posemill.Holistic(static_image_mode=True) as holistic:
        results = holistic.process(photo)
    for part in (results.pose_landmarks, results.pose_world_landmarks):
        assert all(point.HasField("visibility") for point in part.landmark)
        assert not any(point.HasField("presence") for point in part.landmark)
    for point in results.face_landmarks.landmark:
        assert not point.HasField("visibility")
        assert point.visibility == point.presence == 0.0


def test_results_of_one_picture_do_not_change_with_the_next(
    model_files: dict[str, Path], photo: np.ndarray
) -> None:
    with posemill.Holistic() as holistic:
        first = holistic.process(photo)
        kept = first.pose_landmarks.to_numpy()
        for shift in (8, 16):
            holistic.process(np.roll(photo, shift, axis=1))
    read = [(point.x, point.y, point.z) for point in first.pose_landmarks.landmark]
    np.testing.assert_array_equal(np.array(read, np.float32), kept)
