"""Pictures are drawn as the original draws them, byte for byte."""

import hashlib
from functools import partial

import numpy as np
import pytest
from made_up_people import make_detection

from posemill.framework.formats.detection_pb2 import Detection
from posemill.framework.formats.landmark_pb2 import NormalizedLandmarkList
from posemill.solutions import drawing_styles as styles
from posemill.solutions import drawing_utils as drawing
from posemill.solutions import holistic
from posemill.solutions.drawing_utils import DrawingSpec, draw_landmarks

# Of the pixels that mediapipe 0.10.21 draws of `spread`.
MADE_UP = "5efedb2679621d94a12f00598080bfec2ea5ec8ae001dd2c6aba25f2cc16a195"


def list_of(rows):
    found = NormalizedLandmarkList()
    for row in rows:
        found.landmark.add(**dict(zip(("x", "y", "z", "visibility"), row, strict=False)))
    return found


def spread(number, *, seed, hidden=False):
    """Made-up points all over the picture, some beyond its edges, some not visible."""
    points = np.random.default_rng(seed).uniform(-0.05, 1.05, (number, 3)).round(3)
    rows = [[*point, *([0.4 if index % 5 == 0 else 0.9] if hidden else [])]
            for index, point in enumerate(points.tolist())]  # fmt: skip
    return list_of(rows)


def test_made_up_landmarks_give_the_picture_that_stock_gave_of_them():
    image = np.full((240, 320, 3), 40, np.uint8)
    face, pose, hand = spread(468, seed=1), spread(33, seed=2, hidden=True), spread(21, seed=3)
    draw_landmarks(image, face, holistic.FACEMESH_TESSELATION, None,
                   styles.get_default_face_mesh_tesselation_style())  # fmt: skip
    draw_landmarks(image, pose, holistic.POSE_CONNECTIONS,
                   styles.get_default_pose_landmarks_style())  # fmt: skip
    draw_landmarks(image, hand, holistic.HAND_CONNECTIONS,
                   styles.get_default_hand_landmarks_style(),
                   styles.get_default_hand_connections_style())  # fmt: skip
    draw_landmarks(image, face, holistic.FACEMESH_CONTOURS,
                   DrawingSpec((80, 110, 10), 1, 1), DrawingSpec((80, 256, 121), 1, 1))  # fmt: skip
    draw_landmarks(image, pose, holistic.POSE_CONNECTIONS)
    draw_landmarks(image, hand, holistic.HAND_CONNECTIONS,
                   DrawingSpec((121, 22, 76), 2, 4), DrawingSpec((121, 44, 250)))  # fmt: skip
    assert hashlib.sha256(image).hexdigest() == MADE_UP


def test_points_can_be_left_out_and_nothing_draws_nothing():
    one, other = np.zeros((64, 64, 3), np.uint8), np.zeros((64, 64, 3), np.uint8)
    draw_landmarks(one, spread(21, seed=5), holistic.HAND_CONNECTIONS, is_drawing_landmarks=False)
    draw_landmarks(other, spread(21, seed=5), holistic.HAND_CONNECTIONS, None)
    np.testing.assert_array_equal(one, other)
    assert set(np.unique(one)) == {0, 224}
    draw_landmarks(one, None, holistic.POSE_CONNECTIONS)
    np.testing.assert_array_equal(one, other)


def test_a_point_has_a_pixel_inside_of_the_picture_only():
    for place, pixel in {
        (0.5, 0.25): (50, 12), (0.0, 1.0): (0, 49), (1.0, 0.0): (99, 0), (0.999, 0.999): (99, 49),
        (1.0000000001, 0.5): (99, 25), (-0.01, 0.5): None, (0.5, 1.01): None,
        (float("nan"), 0.5): None,
    }.items():  # fmt: skip
        assert drawing._normalized_to_pixel_coordinates(*place, 100, 50) == pixel


# Of the pixels that mediapipe 0.10.21 draws, one upon the other.
DETECTIONS = ("c6d34db1a55b552f85f588339a7b14c81ed7386fafa1a7e4988dbc171a0c9275",
              "2e36e5faaa781c93746ad3197ce4035391fd529054a6024a1b21e0697ea068dc")  # fmt: skip
AXES = ("ee1380119e9cbe3a1c477a4c1b840762bd947840fc6dbf0e6c504c1eb7bca3bf",
        "6db5998fbff113aaf0677b2f95979a4e0b60d200a23f54d46e1ac100f10c771e")  # fmt: skip


def test_detections_and_axes_are_drawn_as_the_original_draws_them():
    image = np.full((120, 200, 3), 40, np.uint8)
    rotation = np.array([[0.36, 0.48, -0.8], [-0.8, 0.6, 0], [0.48, 0.64, 0.6]])
    nearer = {"axis_length": 0.2, "axis_drawing_spec": DrawingSpec(thickness=4)}
    for draw, options, expected in (
        (drawing.draw_detection, (make_detection(),), DETECTIONS[0]),
        (drawing.draw_detection, (make_detection(), DrawingSpec((1, 2, 3), 1, 4),
                                  DrawingSpec((9, 8, 7), 3)), DETECTIONS[1]),
        (partial(drawing.draw_axis, focal_length=(1.2, 1.1), principal_point=(0.1, -0.1)),
         (rotation, np.array([0.1, -0.05, -0.9])), AXES[0]),
        (partial(drawing.draw_axis, **nearer), (rotation, np.array([0.0, 0.0, -0.5])), AXES[1]),
    ):  # fmt: skip
        draw(image, *options)
        assert hashlib.sha256(image).hexdigest() == expected


@pytest.mark.parametrize(
    ("draw", "shape", "what", "message"),
    [
        (draw_landmarks, (8, 8, 4), [spread(21, seed=1)], r"expected three .* shape \(8, 8, 4"),
        (draw_landmarks, (8, 8), [spread(21, seed=1)], r"expected three .* got shape \(8, 8\)"),
        (draw_landmarks, (8, 8, 3), [spread(21, seed=1), [(27, 29)]],
         "expected points 0 to 20, got a line from 27 to 29"),
        (drawing.draw_detection, (8, 8, 3), [make_detection(0.95)], r"the picture \(0 to 1\), got"),
        (drawing.draw_detection, (8, 8, 3), [Detection()], "RELATIVE_BOUNDING_BOX, got 0"),
        (drawing.draw_axis, (8, 8), [np.eye(3), np.zeros(3)], r"three .* got shape \(8, 8\)"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_said(draw, shape, what, message):
    with pytest.raises(ValueError, match=message):
        draw(np.zeros(shape, np.uint8), *what)


def test_landmarks_are_plotted_in_space(monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    monkeypatch.setattr(pyplot, "show", lambda: None)
    body = list_of([[0.1, 0.2, 0.3, 0.9], [0.4, 0.5, 0.6, 0.9], [0.7, 0.8, 0.9, 0.1]])
    drawing.plot_landmarks(body, [(0, 1), (1, 2)], elevation=20, azimuth=30)
    (axes,) = pyplot.gcf().axes
    assert (axes.elev, axes.azim) == (20, 30)
    assert len(axes.collections) == 2  # the third is hidden
    (line,) = axes.lines
    np.testing.assert_allclose(line.get_data_3d(), [[-0.3, -0.6], [0.1, 0.4], [-0.2, -0.5]])
    pyplot.close("all")
    drawing.plot_landmarks(None)
    assert not pyplot.get_fignums()
    with pytest.raises(ValueError, match="expected points 0 to 2, got a line from 0 to 3"):
        drawing.plot_landmarks(body, [(0, 3)])
    pyplot.close("all")
