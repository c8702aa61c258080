"""From raw pictures and video to pose keypoints, to model-ready data, to a trained model."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from posemill.errors import PosemillError
    from posemill.records import Clip, PoseClip
    from posemill.skeletons import SKELETON_NAMES, Skeleton, get_skeleton

# Public name -> module that has it. Imported at first use: `import posemill` stays light.
_PUBLIC = {
    "Clip": "posemill.records",
    "PoseClip": "posemill.records",
    "PosemillError": "posemill.errors",
    "SKELETON_NAMES": "posemill.skeletons",
    "Skeleton": "posemill.skeletons",
    "get_skeleton": "posemill.skeletons",
}

__all__ = [
    "SKELETON_NAMES",
    "Clip",
    "PoseClip",
    "PosemillError",
    "Skeleton",
    "__version__",
    "get_skeleton",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'posemill' has no attribute {name!r}")
    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
