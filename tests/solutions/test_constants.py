import hashlib
import json
import subprocess
import sys

import pytest

import posemill as mp
from posemill.solutions import drawing_styles, drawing_utils, holistic
from posemill.solutions.drawing_utils import DrawingSpec

# Of the names and sorted pairs of all connections, which are the original's.
CONNECTIONS = "5671c8356bf873a9a51204a152bbbb5e4b2cb6e56722310a30562844f17a7b72"
STYLES = [
    "get_default_face_mesh_contours_style", "get_default_face_mesh_iris_connections_style",
    "get_default_face_mesh_tesselation_style", "get_default_hand_connections_style",
    "get_default_hand_landmarks_style", "get_default_pose_landmarks_style",
]  # fmt: skip


def test_connections_are_the_originals():
    pairs = {
        name: sorted(map(list, value))
        for name, value in sorted(vars(holistic).items())
        if isinstance(value, frozenset)
    }
    assert hashlib.sha256(json.dumps(pairs).encode()).hexdigest() == CONNECTIONS


def plain(style):
    """A style as the facts have it: `[[key, [color, thickness, radius]], ...]`, sorted."""
    if isinstance(style, DrawingSpec):
        return [list(style.color), style.thickness, style.circle_radius]
    keys = ([list(key) if isinstance(key, tuple) else int(key), plain(spec)]
            for key, spec in style.items())  # fmt: skip
    return sorted(keys)


def test_names_styles_and_colours_are_the_originals(shared):
    facts = json.loads((shared / "spec" / "solutions_constants.json").read_text())
    for name in ("PoseLandmark", "HandLandmark"):
        points = {point.name: point.value for point in getattr(holistic, name)}
        assert points == facts["enums"][name]
    for name in STYLES:
        expected = facts["styles"][name]
        found = plain(getattr(drawing_styles, name)())
        assert found == (expected if "tesselation" in name else sorted(expected)), name
    for name, value in facts["drawing_constants"].items():
        expected = tuple(value) if isinstance(value, list) else value
        assert getattr(drawing_utils, name) == expected, name


def test_every_line_of_the_contours_has_a_style_and_the_other_one_has_the_nose():
    usual = drawing_styles.get_default_face_mesh_contours_style()
    other = drawing_styles.get_default_face_mesh_contours_style(1)
    assert set(usual) == holistic.FACEMESH_CONTOURS
    assert set(other) == holistic.FACEMESH_CONTOURS | holistic.FACEMESH_NOSE
    assert usual[33, 7].color == (48, 48, 255)
    assert other[33, 7].color == (192, 48, 255)
    with pytest.raises(ValueError, match="i: expected 0 or 1, got 2"):
        drawing_styles.get_default_face_mesh_contours_style(2)


def test_a_solution_that_is_not_here_is_refused_by_name_and_scripts_can_ask():
    said = r"mp\.solutions\.objectron is not in posemill, which has holistic, hands, .* keep this"
    with pytest.raises(AttributeError, match=said):
        mp.solutions.objectron  # noqa: B018
    for spelling in ("from posemill.solutions import objectron",
                     "from posemill.solutions.objectron import Objectron"):  # fmt: skip
        with pytest.raises(ImportError, match=said):
            exec(spelling)
    with pytest.raises(AttributeError, match=r"mp\.solutions\.hair_segmentation is not in posem"):
        mp.solutions.hair_segmentation  # noqa: B018
    with pytest.raises(AttributeError, match=r"'posemill\.solutions' has no attribute 'poses'"):
        mp.solutions.poses  # noqa: B018
    with pytest.raises(AttributeError, match=r"has mediapipe's mp\.solutions, not mp\.tasks; keep"):
        mp.tasks  # noqa: B018
    assert not hasattr(mp, "tasks")
    for name in ("objectron", "hair_segmentation", "something"):
        assert not hasattr(mp.solutions, name)
    for name in ("holistic", "hands", "face_mesh", "pose", "face_detection",
                 "selfie_segmentation", "drawing_utils", "drawing_styles"):  # fmt: skip
        assert hasattr(mp.solutions, name)
        assert name in dir(mp.solutions)


def test_every_solution_has_its_own_names():
    assert mp.solutions.hands.HandLandmark is holistic.HandLandmark
    assert mp.solutions.pose.PoseLandmark is holistic.PoseLandmark
    assert mp.solutions.hands.HAND_CONNECTIONS == holistic.HAND_CONNECTIONS
    face_mesh = mp.solutions.face_mesh
    assert face_mesh.FACEMESH_TESSELATION == holistic.FACEMESH_TESSELATION
    assert face_mesh.FACEMESH_NUM_LANDMARKS == 468
    assert face_mesh.FACEMESH_NUM_LANDMARKS_WITH_IRISES == 478
    names = [point.name for point in mp.solutions.face_detection.FaceKeyPoint]
    assert names[:4] == ["RIGHT_EYE", "LEFT_EYE", "NOSE_TIP", "MOUTH_CENTER"]
    assert names[4:] == ["RIGHT_EAR_TRAGION", "LEFT_EAR_TRAGION"]


def test_the_longer_names_lead_to_the_same_modules():
    from posemill.python.solutions.drawing_utils import draw_landmarks
    from posemill.python.solutions.holistic import Holistic

    from posemill.framework.formats import landmark_pb2

    assert Holistic is mp.Holistic is mp.solutions.holistic.Holistic
    assert draw_landmarks is mp.python.solutions.drawing_utils.draw_landmarks
    assert mp.framework.formats.landmark_pb2 is landmark_pb2


def test_solutions_are_imported_when_they_are_asked_for():
    code = ("import sys, posemill; assert 'posemill.solutions' not in sys.modules; "
            "posemill.solutions; assert 'cv2' not in sys.modules; "
            "posemill.solutions.drawing_utils; assert 'cv2' in sys.modules")  # fmt: skip
    subprocess.run([sys.executable, "-c", code], check=True)
