"""From raw pictures and video to pose keypoints, to model-ready data, to a trained model."""

from __future__ import annotations

from importlib import import_module
from types import FunctionType

__version__ = "0.1.0"

TYPE_CHECKING = False  # `typing` takes 10 ms, in which Ctrl-C would give a traceback
if TYPE_CHECKING:
    from posemill import framework as framework
    from posemill import python as python
    from posemill import solutions as solutions
    from posemill.clips.smoothing import smooth as smooth
    from posemill.commands.data import export as export
    from posemill.commands.data import import_run as import_run
    from posemill.commands.data import merge as merge
    from posemill.commands.data import prepare as prepare
    from posemill.commands.extract import extract as extract
    from posemill.commands.frames import bench_decode as bench_decode
    from posemill.commands.frames import bench_engine as bench_engine
    from posemill.commands.frames import frames as frames
    from posemill.commands.landmarks import landmarks as landmarks
    from posemill.commands.look import compare as compare
    from posemill.commands.look import view as view
    from posemill.commands.pictures import plot as plot
    from posemill.commands.pictures import report as report
    from posemill.commands.pictures import show as show
    from posemill.commands.pictures import visualize as visualize
    from posemill.commands.runs import advise as advise
    from posemill.commands.runs import status as status
    from posemill.commands.train import predict as predict
    from posemill.config import ExtractConfig as ExtractConfig
    from posemill.config import FramesConfig as FramesConfig
    from posemill.errors import PosemillError as PosemillError
    from posemill.inspection.drawing.frame_picture import draw as draw
    from posemill.npz.mapped import open_npz as open_npz
    from posemill.records import Clip as Clip
    from posemill.records import PoseClip as PoseClip
    from posemill.runs.reader import Run as Run
    from posemill.runs.reader import open_run as open_run
    from posemill.skeletons import SKELETON_NAMES as SKELETON_NAMES
    from posemill.skeletons import Skeleton as Skeleton
    from posemill.skeletons import get_skeleton as get_skeleton
    from posemill.solutions.holistic import Holistic as Holistic
    from posemill.training.config.train_config import TrainConfig as TrainConfig
    from posemill.training.data.dataset_cache import cache_dataset as cache_dataset
    from posemill.training.data.torch_data import KeypointDataset as KeypointDataset
    from posemill.training.front import evaluate as evaluate
    from posemill.training.front import train as train
    from posemill.training.front import tune as tune
    from posemill.training.launch.fit import fit as fit
    from posemill.training.models.frames import temporal_shift as temporal_shift
    from posemill.training.multigrid.schedule import Multigrid as Multigrid
    from posemill.training.runs.inference import load_model as load_model
    from posemill.training.video.transform import ClipAugment as ClipAugment
    from posemill.training.video.transform import ClipTransform as ClipTransform
    from posemill.training.video.video_clips import VideoClips as VideoClips


# Module -> public names in it. Imported at first use: `import posemill` stays light.
_MODULES = {
    "posemill.clips.smoothing": ("smooth",),
    "posemill.commands.data": ("export", "import_run", "merge", "prepare"),
    "posemill.commands.extract": ("extract",),
    "posemill.commands.frames": ("bench_decode", "bench_engine", "frames"),
    "posemill.commands.landmarks": ("landmarks",),
    "posemill.commands.look": ("compare", "view"),
    "posemill.commands.pictures": ("plot", "report", "show", "visualize"),
    "posemill.commands.runs": ("advise", "status"),
    "posemill.commands.train": ("predict",),
    "posemill.config": ("ExtractConfig", "FramesConfig"),
    "posemill.errors": ("PosemillError",),
    "posemill.inspection.drawing.frame_picture": ("draw",),
    "posemill.npz.mapped": ("open_npz",),
    "posemill.records": ("Clip", "PoseClip"),
    "posemill.runs.reader": ("Run", "open_run"),
    "posemill.skeletons": ("SKELETON_NAMES", "Skeleton", "get_skeleton"),
    "posemill.solutions.holistic": ("Holistic",),
    "posemill.training.data.dataset_cache": ("cache_dataset",),
    "posemill.training.config.train_config": ("TrainConfig",),
    "posemill.training.data.torch_data": ("KeypointDataset",),
    "posemill.training.front": ("evaluate", "train", "tune"),
    "posemill.training.launch.fit": ("fit",),
    "posemill.training.models.frames": ("temporal_shift",),
    "posemill.training.multigrid.schedule": ("Multigrid",),
    "posemill.training.runs.inference": ("load_model",),
    "posemill.training.video.transform": ("ClipAugment", "ClipTransform"),
    "posemill.training.video.video_clips": ("VideoClips",),
}
_PUBLIC = {name: module for module, names in _MODULES.items() for name in names}

# Folders that stand for those of mediapipe: `import posemill as mp`, `mp.solutions.holistic`.
_PACKAGES = ("framework", "python", "solutions")

__all__ = ["__version__", "solutions", *_PUBLIC]


def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        return import_module(f"posemill.{name}")
    if name not in _PUBLIC:
        reason = f"module 'posemill' has no attribute {name!r}"
        if name in ("Image", "ImageFormat", "tasks"):  # of scripts for the newer MediaPipe
            reason += ": posemill has mediapipe's mp.solutions, not mp.tasks; keep this script on "
            reason += "mediapipe"
        raise AttributeError(reason)
    with import_module("posemill.errors").naming_the_extra():
        value = getattr(import_module(_PUBLIC[name]), name)
    if isinstance(value, FunctionType):
        value = import_module("posemill.commands.declaring").checked(value)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
