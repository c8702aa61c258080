"""MediaPipe's own Holistic, where the installed package still has it: to check ours by."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast

import numpy as np

from posemill.errors import MissingExtraError, WeightsError
from posemill.estimators import ClipState, EngineInfo
from posemill.estimators.holistic.engine import HolisticEstimator
from posemill.records import FloatArray, Frame, Keypoints
from posemill.skeletons import get_skeleton

_LAST = "0.10.21"
_MODULE = "mediapipe.python.solutions.holistic"
_REMEDY = (
    "run: pip install 'posemill[mediapipe]' (Python 3.12 or older, numpy below 2: best in an "
    "environment of its own), or use --engine holistic, which gives the same points"
)


class StockState:
    """One clip in MediaPipe's graph, which nobody can look into: see `EngineInfo.saves_states`."""

    def __init__(self, solution: Any, free: list[Any]) -> None:
        self._solution = solution
        # Used again by a later clip: each new one takes 200 MB that are not given back.
        self._give_back = weakref.finalize(self, free.append, solution)
        self._give_back.atexit = False

    def process(self, frame: Frame) -> Any:
        """Return what MediaPipe finds in the clip's next frame."""
        try:
            return self._solution.process(frame)
        except (RuntimeError, ValueError):
            self._give_back.detach()  # a graph that failed cannot be used again
            raise

    def copy(self) -> StockState:
        """Not possible."""
        raise TypeError("a graph of mediapipe cannot be copied")

    def to_bytes(self) -> bytes:
        """Nothing: a clip that is interrupted is looked at again from its start."""
        return b""


class StockHolisticEstimator:
    """`mp.solutions.holistic.Holistic`, behind the same face as our own engine.

    Frames in image mode stand alone: the graph is reset before each, so that hands and face do not
    remember the one before. In video mode each clip has an object of its own.

    Args:
        device: `cpu`.
        threads: Not used: MediaPipe takes as many as there are cores.
        options: Those of `HolisticEstimator`, but for the runtime.
    """

    info = EngineInfo(
        f"the same points by MediaPipe itself, where {_LAST} or older is installed",
        HolisticEstimator.info.skeletons,
        options=tuple(each for each in HolisticEstimator.info.options if each.name != "runtime"),
        saves_states=False,
    )

    def __init__(
        self,
        *,
        device: str = "cpu",
        threads: int = 1,
        min_detection_confidence: float = 0.5,
        min_tracking_confidence: float = 0.5,
        smooth_landmarks: bool = True,
        model_complexity: int = 1,
        refine_face_landmarks: bool = False,
    ) -> None:
        self._options = {
            "min_detection_confidence": min_detection_confidence,
            "min_tracking_confidence": min_tracking_confidence,
            "smooth_landmarks": smooth_landmarks,
            "model_complexity": model_complexity,
            "refine_face_landmarks": refine_face_landmarks,
        }
        self.info.check_device("mediapipe", device)
        self.info.check_options("mediapipe", self._options)
        self.info = self.info.with_options(self._options)
        self._holistic_class, self.version = _load()
        self._alone: Any = None
        self._free: list[Any] = []  # objects of clips that are over
        if model_complexity != 1:  # mediapipe fetches those networks: now, not in the workers
            self._free.append(self._open(static=False))

    def _open(self, *, static: bool) -> Any:
        try:
            with contextlib.redirect_stdout(sys.stderr):  # says there what it downloads
                return self._holistic_class(static_image_mode=static, **self._options)
        except OSError as error:
            raise WeightsError(
                f"mediapipe could not fetch its network for model_complexity="
                f"{self._options['model_complexity']} ({error}); it needs a network connection "
                "the first time and a package folder it may write to"
            ) from error

    def new_state(self) -> StockState:
        """Return the state before a clip's first frame: a graph that has seen nothing."""
        if not self._free:
            return StockState(self._open(static=False), self._free)
        solution = self._free.pop()
        solution.reset()
        return StockState(solution, self._free)

    def load_state(self, data: bytes) -> StockState:
        """Return a fresh state, from which the clip is looked at again."""
        return self.new_state()

    def estimate(
        self, frames: Sequence[Frame], states: Sequence[ClipState] | None = None
    ) -> Keypoints:
        """Return the 543 (refined: 553) landmarks of each frame, one after the other."""
        skeleton = get_skeleton(self.info.skeleton_names[0])
        points = np.full((len(frames), skeleton.num_points, 3), np.nan, np.float32)
        scores = np.zeros((len(frames), skeleton.num_points), np.float32)
        for row, frame in enumerate(frames):
            found = cast(StockState, states[row]).process(frame) if states else self._find(frame)
            for part in skeleton.parts:
                landmarks = getattr(found, f"{part.name}_landmarks")
                if landmarks is not None:
                    values = _values_of(landmarks)
                    points[row, part.start : part.stop] = values[:, :3]
                    is_body = part.name == "pose"  # only the body has a visibility
                    scores[row, part.start : part.stop] = values[:, 3] if is_body else 1
        sizes_wh = np.array([frame.shape[1::-1] for frame in frames], np.int32).reshape(-1, 2)
        return Keypoints(points, scores, sizes_wh)

    def _find(self, frame: Frame) -> Any:
        """Return what MediaPipe finds in a frame that stands alone."""
        solution, self._alone = self._alone or self._open(static=True), None
        solution.reset()
        found = solution.process(frame)
        self._alone = solution  # not where it failed
        return found

    def identity(self) -> dict[str, str]:
        """Return what decides the result: options, and the version, which brings its models."""
        options = {name: str(value) for name, value in self._options.items()}
        return {"engine": "mediapipe", "mediapipe": self.version, **options}

    def close(self) -> None:
        """Free the graphs."""
        self._free.clear()
        self._alone = None


def _values_of(landmarks: Any) -> FloatArray:
    """Return `(points, 4)`: x, y, z and visibility."""
    rows = [(each.x, each.y, each.z, each.visibility) for each in landmarks.landmark]
    return np.array(rows, np.float32)


def _load() -> tuple[Any, str]:
    """Return the class and the version of what is installed.

    Raises:
        MissingExtraError: There is no mediapipe, or none that has it or can be imported.
    """
    try:
        installed = version("mediapipe")
    except PackageNotFoundError as error:
        raise MissingExtraError(
            f"engine 'mediapipe' needs mediapipe {_LAST} or older, which is not installed; "
            f"{_REMEDY}"
        ) from error
    try:
        return import_module(_MODULE).Holistic, installed
    except ImportError as error:
        if error.name is not None and f"{_MODULE}.".startswith(f"{error.name}."):
            raise MissingExtraError(
                f"engine 'mediapipe' needs the legacy Holistic, which mediapipe {installed} no "
                f"longer has: {_LAST} was the last one; {_REMEDY}"
            ) from error
        raise MissingExtraError(
            f"engine 'mediapipe': mediapipe {installed} is installed, but cannot be imported "
            f"({error}; numpy is {np.__version__}); {_REMEDY}"
        ) from error
