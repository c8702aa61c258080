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
    from posemill.clips.smoothing import smooth
    from posemill.commands.data import export, import_run, merge, prepare
    from posemill.commands.extract import extract, landmarks
    from posemill.commands.frames import bench_decode, bench_engine, frames
    from posemill.commands.look import compare, view
    from posemill.commands.pictures import plot, report, show, visualize
    from posemill.commands.runs import advise, status
    from posemill.commands.train import predict
    from posemill.config import ExtractConfig, FramesConfig
    from posemill.errors import PosemillError
    from posemill.inspection.drawing.frame_picture import draw
    from posemill.npz.mapped import open_npz
    from posemill.records import Clip, PoseClip
    from posemill.runs.reader import Run, open_run
    from posemill.skeletons import SKELETON_NAMES, Skeleton, get_skeleton
    from posemill.solutions.holistic import Holistic
    from posemill.training.config.train_config import TrainConfig
    from posemill.training.data.dataset_cache import cache_dataset
    from posemill.training.data.torch_data import KeypointDataset
    from posemill.training.front import evaluate, fit, load_model, train, tune
    from posemill.training.models.frames import temporal_shift
    from posemill.training.multigrid.schedule import Multigrid
    from posemill.training.video.transform import ClipAugment, ClipTransform
    from posemill.training.video.video_clips import VideoClips

# Public name -> module that has it. Imported at first use: `import posemill` stays light.
_PUBLIC = {
    "Clip": "posemill.records",
    "ClipAugment": "posemill.training.video.transform",
    "ClipTransform": "posemill.training.video.transform",
    "Holistic": "posemill.solutions.holistic",
    "ExtractConfig": "posemill.config",
    "FramesConfig": "posemill.config",
    "KeypointDataset": "posemill.training.data.torch_data",
    "Multigrid": "posemill.training.multigrid.schedule",
    "PoseClip": "posemill.records",
    "PosemillError": "posemill.errors",
    "Run": "posemill.runs.reader",
    "SKELETON_NAMES": "posemill.skeletons",
    "Skeleton": "posemill.skeletons",
    "TrainConfig": "posemill.training.config.train_config",
    "VideoClips": "posemill.training.video.video_clips",
    "advise": "posemill.commands.runs",
    "bench_decode": "posemill.commands.frames",
    "bench_engine": "posemill.commands.frames",
    "cache_dataset": "posemill.training.data.dataset_cache",
    "compare": "posemill.commands.look",
    "draw": "posemill.inspection.drawing.frame_picture",
    "evaluate": "posemill.training.front",
    "export": "posemill.commands.data",
    "extract": "posemill.commands.extract",
    "fit": "posemill.training.front",
    "frames": "posemill.commands.frames",
    "get_skeleton": "posemill.skeletons",
    "import_run": "posemill.commands.data",
    "landmarks": "posemill.commands.extract",
    "load_model": "posemill.training.front",
    "merge": "posemill.commands.data",
    "open_npz": "posemill.npz.mapped",
    "open_run": "posemill.runs.reader",
    "plot": "posemill.commands.pictures",
    "predict": "posemill.commands.train",
    "prepare": "posemill.commands.data",
    "report": "posemill.commands.pictures",
    "show": "posemill.commands.pictures",
    "smooth": "posemill.clips.smoothing",
    "status": "posemill.commands.runs",
    "temporal_shift": "posemill.training.models.frames",
    "train": "posemill.training.front",
    "tune": "posemill.training.front",
    "view": "posemill.commands.look",
    "visualize": "posemill.commands.pictures",
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
    "bench_engine",
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
    "smooth",
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
        value = import_module("posemill.commands.spelling").for_python(value)
    globals()[name] = value
    return value


def _hint(name: str) -> str:
    """Return what to say of names that scripts for the newer MediaPipe use."""
    if name not in ("Image", "ImageFormat", "tasks"):
        return ""
    return ": posemill has mediapipe's mp.solutions, not mp.tasks; keep this script on mediapipe"


def __dir__() -> list[str]:
    return sorted(__all__)
