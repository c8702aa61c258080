"""Old scripts with one changed import."""

from __future__ import annotations

import numpy as np

import posemill


def test_static_pictures_are_independent_after_a_reset(model_files, photo):
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


STOCK_ORDER = (
    "static_image_mode", "model_complexity", "smooth_landmarks", "enable_segmentation",
    "smooth_segmentation", "refine_face_landmarks", "min_detection_confidence",
    "min_tracking_confidence",
)  # fmt: skip


def test_all_eight_arguments_can_be_given_by_position_in_the_order_of_the_original(
    model_files, photo
):
    values = (True, 1, False, False, True, False, 0.6, 0.7)
    named = dict(zip(STOCK_ORDER, values, strict=True))
    with posemill.Holistic(*values) as one, posemill.Holistic(**named) as other:
        assert one.process(photo).pose_landmarks == other.process(photo).pose_landmarks
        assert one._engine.options["min_detection_confidence"] == 0.6
        assert one._engine.options["min_tracking_confidence"] == 0.7
        assert one._engine.options["smooth_landmarks"] is False


def test_results_of_one_picture_do_not_change_with_the_next(model_files, photo):
    with posemill.Holistic() as holistic:
        first = holistic.process(photo)
        kept = first.pose_landmarks.to_numpy()
        for shift in (8, 16):
            holistic.process(np.roll(photo, shift, axis=1))
    read = [(point.x, point.y, point.z) for point in first.pose_landmarks.landmark]
    np.testing.assert_array_equal(np.array(read, np.float32), kept)
