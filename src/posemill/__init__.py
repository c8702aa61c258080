"""From raw pictures and video to pose keypoints, to model-ready data, to a trained model."""

from __future__ import annotations

from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from posemill import framework as framework
    from posemill import python as python
    from posemill import solutions
    from posemill.api.converting import export, import_run, merge, prepare
    from posemill.api.decoding import bench_decode, frames
    from posemill.api.extracting import extract
    from posemill.api.landmarking import landmarks
    from posemill.api.looking import compare, plot, report, show, visualize
    from posemill.api.predicting import predict
    from posemill.api.run_status import advise, status
    from posemill.api.viewing import view
    from posemill.archives import open_npz
    from posemill.config import ExtractConfig, FramesConfig
    from posemill.errors import PosemillError
    from posemill.inspection.drawing.frame_picture import draw
    from posemill.records import Clip, PoseClip
    from posemill.skeletons import SKELETON_NAMES, Skeleton, get_skeleton
    from posemill.solutions.holistic import Holistic
    from posemill.stores.reader import Run, open_run
    from posemill.training.caching.dataset_cache import cache_dataset
    from posemill.training.config.train_config import TrainConfig
    from posemill.training.data.torch_data import KeypointDataset
    from posemill.training.front import evaluate, fit, load_model, train, tune
    from posemill.training.models.video.shift import temporal_shift
    from posemill.training.multigrid.schedule import Multigrid
    from posemill.training.video.augment import ClipAugment
    from posemill.training.video.transform import ClipTransform
    from posemill.training.video.video_clips import VideoClips

# Public name -> module that has it. Imported at first use: `import posemill` stays light.
_PUBLIC = {
    "Clip": "posemill.records",
    "ClipAugment": "posemill.training.video.augment",
    "ClipTransform": "posemill.training.video.transform",
    "Holistic": "posemill.solutions.holistic",
    "ExtractConfig": "posemill.config",
    "FramesConfig": "posemill.config",
    "KeypointDataset": "posemill.training.data.torch_data",
    "Multigrid": "posemill.training.multigrid.schedule",
    "PoseClip": "posemill.records",
    "PosemillError": "posemill.errors",
    "Run": "posemill.stores.reader",
    "SKELETON_NAMES": "posemill.skeletons",
    "Skeleton": "posemill.skeletons",
    "TrainConfig": "posemill.training.config.train_config",
    "VideoClips": "posemill.training.video.video_clips",
    "advise": "posemill.api.run_status",
    "bench_decode": "posemill.api.decoding",
    "cache_dataset": "posemill.training.caching.dataset_cache",
    "compare": "posemill.api.looking",
    "draw": "posemill.inspection.drawing.frame_picture",
    "evaluate": "posemill.training.front",
    "export": "posemill.api.converting",
    "extract": "posemill.api.extracting",
    "fit": "posemill.training.front",
    "frames": "posemill.api.decoding",
    "get_skeleton": "posemill.skeletons",
    "import_run": "posemill.api.converting",
    "landmarks": "posemill.api.landmarking",
    "load_model": "posemill.training.front",
    "merge": "posemill.api.converting",
    "open_npz": "posemill.archives",
    "open_run": "posemill.stores.reader",
    "plot": "posemill.api.looking",
    "predict": "posemill.api.predicting",
    "prepare": "posemill.api.converting",
    "report": "posemill.api.looking",
    "show": "posemill.api.looking",
    "status": "posemill.api.run_status",
    "temporal_shift": "posemill.training.models.video.shift",
    "train": "posemill.training.front",
    "tune": "posemill.training.front",
    "view": "posemill.api.viewing",
    "visualize": "posemill.api.looking",
}

# Folders that stand for those of mediapipe: `import posemill as mp`, `mp.solutions.holistic`.
_PACKAGES = ("framework", "python", "solutions")

__all__ = [
    "SKELETON_NAMES",
    "Clip",
    "ClipAugment",
    "ClipTransform",
    "ExtractConfig",
    "FramesConfig",
    "Holistic",
    "KeypointDataset",
    "Multigrid",
    "PoseClip",
    "PosemillError",
    "Run",
    "Skeleton",
    "TrainConfig",
    "VideoClips",
    "__version__",
    "advise",
    "bench_decode",
    "cache_dataset",
    "compare",
    "draw",
    "evaluate",
    "export",
    "extract",
    "fit",
    "frames",
    "get_skeleton",
    "import_run",
    "landmarks",
    "load_model",
    "merge",
    "open_npz",
    "open_run",
    "plot",
    "predict",
    "prepare",
    "report",
    "show",
    "solutions",
    "status",
    "temporal_shift",
    "train",
    "tune",
    "view",
    "visualize",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"posemill.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'posemill' has no attribute {name!r}{_hint(name)}")
    value = getattr(import_module(_PUBLIC[name]), name)
    if isinstance(value, FunctionType):
        value = import_module("posemill.api.spelling").for_python(value)
    globals()[name] = value
    return value


def _hint(name: str) -> str:
    """Return what to say of names that scripts for the newer MediaPipe use."""
    if name not in ("Image", "ImageFormat", "tasks"):
        return ""
    return ": posemill has mediapipe's mp.solutions, not mp.tasks; keep this script on mediapipe"


def __dir__() -> list[str]:
    return sorted(__all__)
