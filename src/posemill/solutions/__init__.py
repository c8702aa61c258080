"""`mp.solutions` as old scripts know it, after `import posemill as mp`: Holistic and its drawing.

Modules are imported when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = [
    "drawing_styles",
    "drawing_utils",
    "face_mesh_connections",
    "hands_connections",
    "holistic",
    "pose_connections",
]

_PARTS = {
    "pose": "its body is results.pose_landmarks, and PoseLandmark and POSE_CONNECTIONS are in "
    "mp.solutions.holistic too",
    "hands": "its hands are results.left_hand_landmarks and results.right_hand_landmarks, and "
    "HandLandmark and HAND_CONNECTIONS are in mp.solutions.holistic too",
    "face_mesh": "its face is results.face_landmarks, and FACEMESH_… are in mp.solutions.holistic "
    "too",
}
_OTHERS = ("face_detection", "selfie_segmentation", "objectron")


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    if name in _PARTS or name in _OTHERS:
        raise not_here(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def not_here(name: str, used_by: str = "") -> ImportError:
    """Return the error that says what to use instead of a solution.

    It is no AttributeError: `from posemill.solutions import pose` would hide its words.

    Args:
        name: Of the solution.
        used_by: What was called and is of no use without it.
    """
    instead = f" yet. Use mp.solutions.holistic: {_PARTS[name]}; or" if name in _PARTS else ";"
    what = f"{used_by} draws what mp.solutions.{name} finds, which" if used_by else ""
    return ImportError(
        f"{what or f'mp.solutions.{name}'} is not in posemill{instead} keep this script on "
        f"mediapipe (0.10.21 or older has it)"
    )


def __dir__() -> list[str]:
    return list(__all__)
