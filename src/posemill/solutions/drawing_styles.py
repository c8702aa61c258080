"""`mp.solutions.drawing_styles`: the original's colours of parts, for `draw_landmarks`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from posemill.solutions import face_mesh_connections as face
from posemill.solutions import hands_connections as hands
from posemill.solutions.drawing_utils import Color, Connection, DrawingSpec
from posemill.solutions.pose import PoseLandmark

_RED, _GREEN, _BLUE = (48, 48, 255), (48, 255, 48), (192, 101, 21)
_YELLOW, _GRAY, _PURPLE = (0, 204, 255), (128, 128, 128), (128, 64, 128)
_PEACH, _WHITE = (180, 229, 255), (224, 224, 224)
_CYAN, _MAGENTA, _ORANGE = (192, 255, 48), (192, 48, 255), (0, 138, 255)
_TEAL = (231, 217, 0)
_FINGERS = (
    (_PEACH, hands.HAND_THUMB_CONNECTIONS),
    (_PURPLE, hands.HAND_INDEX_FINGER_CONNECTIONS),
    (_YELLOW, hands.HAND_MIDDLE_FINGER_CONNECTIONS),
    (_GREEN, hands.HAND_RING_FINGER_CONNECTIONS),
    (_BLUE, hands.HAND_PINKY_FINGER_CONNECTIONS),
)


def get_default_hand_landmarks_style() -> Mapping[int, DrawingSpec]:
    """Return how the points of a hand are drawn: fingers in colours, the palm in red."""
    palm = sorted({point for pair in hands.HAND_PALM_CONNECTIONS for point in pair})
    colors = dict.fromkeys(palm, _RED)
    for color, lines in _FINGERS:
        colors |= {end: color for _, end in lines}
    return {point: DrawingSpec(color, -1, 5) for point, color in colors.items()}


def get_default_hand_connections_style() -> Mapping[Connection, DrawingSpec]:
    """Return how the lines of a hand are drawn: fingers in colours, the palm in grey."""
    palm = {pair: DrawingSpec(_GRAY, thickness=3) for pair in hands.HAND_PALM_CONNECTIONS}
    fingers = {pair: DrawingSpec(color) for color, lines in _FINGERS for pair in lines}
    return {**palm, **fingers}


def get_default_face_mesh_contours_style(i: int = 0) -> Mapping[Connection, DrawingSpec]:
    """Return how `FACEMESH_CONTOURS` are drawn.

    Args:
        i: 0: the eyes in two colours; 1: every part in its own, the nose too.
    """
    if i not in (0, 1):
        raise ValueError(f"i: expected 0 or 1, got {i!r}")
    lips, right_eye, left_eye = (_WHITE, _RED, _GREEN) if i == 0 else (_BLUE, _MAGENTA, _CYAN)
    nose: Iterable[Connection] = face.FACEMESH_NOSE if i else ()
    return _colored(
        (lips, face.FACEMESH_LIPS),
        (left_eye, face.FACEMESH_LEFT_EYE),
        (_GREEN, face.FACEMESH_LEFT_EYEBROW),
        (right_eye, face.FACEMESH_RIGHT_EYE),
        (_RED, face.FACEMESH_RIGHT_EYEBROW),
        (_WHITE, face.FACEMESH_FACE_OVAL),
        (_YELLOW, nose),
    )


def get_default_face_mesh_tesselation_style() -> DrawingSpec:
    """Return how `FACEMESH_TESSELATION` is drawn."""
    return DrawingSpec(_GRAY, thickness=1)


def get_default_face_mesh_iris_connections_style() -> Mapping[Connection, DrawingSpec]:
    """Return how `FACEMESH_IRISES` are drawn."""
    return _colored((_GREEN, face.FACEMESH_LEFT_IRIS), (_RED, face.FACEMESH_RIGHT_IRIS))


def get_default_pose_landmarks_style() -> Mapping[int, DrawingSpec]:
    """Return how the points of a body are drawn: left and right in two colours."""
    return {point: DrawingSpec(_side_color(point.name)) for point in PoseLandmark}


def _side_color(name: str) -> Color:
    if "LEFT" in name:
        return _ORANGE
    return _TEAL if "RIGHT" in name else _WHITE


def _colored(*parts: tuple[Color, Iterable[Connection]]) -> dict[Connection, DrawingSpec]:
    return {pair: DrawingSpec(color) for color, lines in parts for pair in lines}
