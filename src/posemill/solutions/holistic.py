"""`mp.solutions.holistic`: the class, and the names of its points and lines."""

from __future__ import annotations

from enum import IntEnum

from posemill.estimators.holistic.legacy import Holistic
from posemill.skeletons.layouts import HAND_NAMES, POSE_NAMES
from posemill.solutions.face_mesh_connections import (
    FACEMESH_CONTOURS,
    FACEMESH_FACE_OVAL,
    FACEMESH_IRISES,
    FACEMESH_LEFT_EYE,
    FACEMESH_LEFT_EYEBROW,
    FACEMESH_LEFT_IRIS,
    FACEMESH_LIPS,
    FACEMESH_NOSE,
    FACEMESH_RIGHT_EYE,
    FACEMESH_RIGHT_EYEBROW,
    FACEMESH_RIGHT_IRIS,
    FACEMESH_TESSELATION,
)
from posemill.solutions.hands_connections import HAND_CONNECTIONS
from posemill.solutions.pose_connections import POSE_CONNECTIONS

__all__ = [
    "FACEMESH_CONTOURS",
    "FACEMESH_FACE_OVAL",
    "FACEMESH_IRISES",
    "FACEMESH_LEFT_EYE",
    "FACEMESH_LEFT_EYEBROW",
    "FACEMESH_LEFT_IRIS",
    "FACEMESH_LIPS",
    "FACEMESH_NOSE",
    "FACEMESH_RIGHT_EYE",
    "FACEMESH_RIGHT_EYEBROW",
    "FACEMESH_RIGHT_IRIS",
    "FACEMESH_TESSELATION",
    "FACE_CONNECTIONS",
    "HAND_CONNECTIONS",
    "POSE_CONNECTIONS",
    "UPPER_BODY_POSE_CONNECTIONS",
    "HandLandmark",
    "Holistic",
    "PoseLandmark",
]


def _name(point: str) -> str:
    """Return the original's name of a point of ours: its fingers are called fingers."""
    finger = point.partition("_")[0]
    return point.replace(finger, f"{finger}_finger", 1) if finger in _FINGERS else point


_FINGERS = ("index", "middle", "ring")

# The type checker would have all names written out here once more.
PoseLandmark = IntEnum(  # type: ignore[misc]
    "PoseLandmark", [name.upper() for name in POSE_NAMES], start=0
)
HandLandmark = IntEnum(  # type: ignore[misc]
    "HandLandmark", [_name(name).upper() for name in HAND_NAMES], start=0
)
# Names of versions before 0.8.8 and 0.8.4.
FACE_CONNECTIONS = FACEMESH_CONTOURS
UPPER_BODY_POSE_CONNECTIONS = frozenset(pair for pair in POSE_CONNECTIONS if max(pair) < 25)
