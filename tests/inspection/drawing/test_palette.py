"""Which colour a part has, and which points of the body are drawn thin."""

from __future__ import annotations

import pytest

from posemill.inspection.drawing.palette import repeated_points
from posemill.skeletons import get_skeleton


@pytest.mark.parametrize("skeleton_name", ["holistic-543", "holistic-143"])
def test_body_points_that_the_face_and_the_hands_have_too_are_drawn_thin(
    skeleton_name: str,
) -> None:
    skeleton = get_skeleton(skeleton_name)
    found = repeated_points(skeleton_name)
    names = {part: {skeleton.point_names[index] for index in points}
             for part, points in found.items()}  # fmt: skip
    assert list(found) == ["face", "left_hand", "right_hand"]
    assert names["left_hand"] == {"left_pinky", "left_index", "left_thumb"}
    assert names["right_hand"] == {"right_pinky", "right_index", "right_thumb"}
    assert names["face"] == {
        "nose", "left_eye_inner", "left_eye", "left_eye_outer", "right_eye_inner", "right_eye",
        "right_eye_outer", "left_ear", "right_ear", "mouth_left", "mouth_right",
    }  # fmt: skip
    pose = skeleton.part("pose")
    for points in found.values():
        assert all(pose.start <= index < pose.stop for index in points), "of the body alone"


def test_a_skeleton_without_hands_and_face_repeats_nothing() -> None:
    assert repeated_points("openpose-18") == {}
