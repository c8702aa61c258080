import numpy as np
import pytest

from posemill.estimators.landmarks.rects import Rect, box_of_landmarks, f32, without_border

SIZE = (f32(200), f32(100))


def rect(*values):
    return Rect(*map(f32, values))


def test_a_box_left_of_the_picture_reaches_its_edge():
    box = box_of_landmarks(np.array([[-0.4, 0.2], [-0.2, 0.4]], np.float32), f32(0))
    assert [float(v) for v in box[:4]] == pytest.approx([-0.2, 0.3, 0.4, 0.2])


def test_points_of_a_crop_lose_the_border_of_a_rect_that_is_not_square():
    points = np.array([[0.5, 0.5, 1], [0.25, 0.75, 2]], np.float32)
    assert without_border(points, rect(0.5, 0.5, 0.2, 0.4, 0), SIZE) is points
    flat = without_border(points, rect(0.5, 0.5, 0.2, 0.2, 0), SIZE)  # 40 x 20 px
    np.testing.assert_allclose(flat, [[0.5, 0.5, 1], [0.25, 1, 2]], atol=1e-6)
    tall = without_border(points, rect(0.5, 0.5, 0.1, 0.4, 0), SIZE)  # 20 x 40 px
    np.testing.assert_allclose(tall, [[0.5, 0.5, 2], [0, 0.75, 4]], atol=1e-6)
    np.testing.assert_allclose(
        without_border(points[:, :2], rect(0.5, 0.5, 0.1, 0.4, 0), SIZE), tall[:, :2]
    )
