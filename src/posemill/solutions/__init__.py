"""`mp.solutions` as old scripts know it, after `import posemill as mp`.

Modules are imported when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = [
    "drawing_styles",
    "drawing_utils",
    "face_detection",
    "face_mesh",
    "face_mesh_connections",
    "hands",
    "hands_connections",
    "holistic",
    "pose",
    "pose_connections",
    "selfie_segmentation",
]

_NOT_HERE = ("objectron", "hair", "hair_segmentation")


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    if name in _NOT_HERE:
        raise AttributeError(why_not_here(name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def why_not_here(name: str) -> str:
    """Return the sentence that says what to do about a solution that posemill has not."""
    return (
        f"mp.solutions.{name} is not in posemill, which has {', '.join(_SOLUTIONS)}; keep this "
        f"script on mediapipe (0.10.21 or older)"
    )


_SOLUTIONS = ("holistic", "hands", "face_mesh", "pose", "face_detection", "selfie_segmentation")


def __dir__() -> list[str]:
    return list(__all__)
