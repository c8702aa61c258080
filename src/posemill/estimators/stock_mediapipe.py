"""MediaPipe's own solutions, where the installed package still has them: to check ours by."""

from __future__ import annotations

import contextlib
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar, cast

import numpy as np

from posemill.errors import MissingExtraError, WeightsError
from posemill.estimators import ClipState, EngineInfo
from posemill.estimators.face import FaceEstimator, keypoints_of_faces
from posemill.estimators.hands import HandsEstimator, keypoints_of_hands
from posemill.estimators.holistic.engine import HolisticEstimator
from posemill.estimators.identity import build_identity
from posemill.estimators.landmarks.crop_network import Part
from posemill.estimators.landmarks.hand import Hand
from posemill.estimators.pose import PoseEstimator
from posemill.messages import Message
from posemill.records import FloatArray, Frame, Keypoints
from posemill.skeletons import get_skeleton

_LAST = "0.10.21"
_MODULES = "mediapipe.python.solutions"


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


class StockEstimator(ABC):
    """A class of `mp.solutions`, behind the same face as our own engine.

    Frames in image mode stand alone: the graph is reset before each, so that nothing is remembered
    of the one before. In video mode each clip has an object of its own.

    Args:
        device: `cpu`.
        threads: Unused: it takes as many as there are cores.
        options: The keywords of the class but `static_image_mode`, see `info.options`.
    """

    name: ClassVar[str]
    solution: ClassVar[tuple[str, str]]  # module and class
    our_name: ClassVar[str]
    info: EngineInfo

    def __init__(self, *, device: str = "cpu", threads: int = 1, **options: Any) -> None:
        self.info.check_device(self.name, device)
        self._options = self.info.all_options(self.name, options)
        self.info = self.info.with_options(self._options)
        self._class, self.version = self._load()
        self._alone: Any = None
        self._free: list[Any] = []  # objects of clips that are over
        if self._options.get("model_complexity", 1) != 1:
            # mediapipe fetches those networks: now, not in the workers
            self._free.append(self._open(static=False))

    @abstractmethod
    def _keypoints(self, frames: Sequence[Frame], results: Sequence[Any]) -> Keypoints:
        """Return what MediaPipe found in some frames."""

    def _open(self, *, static: bool) -> Any:
        try:
            with contextlib.redirect_stdout(sys.stderr):  # says there what it downloads
                return self._class(static_image_mode=static, **self._options)
        except OSError as error:
            raise WeightsError(
                "mediapipe could not fetch its network for model_complexity={complexity} "
                "({error}); it needs a network connection the first time and a package folder it "
                "may write to",
                complexity=self._options.get("model_complexity"),
                error=error,
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
        """Return the landmarks of each frame, one after the other."""
        results = [
            cast(StockState, states[row]).process(frame) if states else self._find(frame)
            for row, frame in enumerate(frames)
        ]
        return self._keypoints(frames, results)

    def _find(self, frame: Frame) -> Any:
        """Return what MediaPipe finds in a frame that stands alone."""
        solution, self._alone = self._alone or self._open(static=True), None
        solution.reset()
        found = solution.process(frame)
        self._alone = solution  # not where it failed
        return found

    def identity(self) -> dict[str, str]:
        """Return what decides the result: options, and the version, which brings its models."""
        return build_identity(self.name, self._options, runtime=f"mediapipe {self.version}")

    def close(self) -> None:
        """Free the graphs."""
        self._free.clear()
        self._alone = None

    def _load(self) -> tuple[Any, str]:
        """Return the class and the version of what is installed.

        Raises:
            MissingExtraError: There is no mediapipe, or none that has it or can be imported.
        """
        module, class_name = f"{_MODULES}.{self.solution[0]}", self.solution[1]
        remedy = Message(
            "run: pip install 'posemill[mediapipe]' (Python 3.12 or older, numpy below 2: best in "
            "an environment of its own), or use {--engine:{our_name}}, which gives the same points",
            our_name=self.our_name,
        )
        try:
            installed = version("mediapipe")
        except PackageNotFoundError as error:
            raise MissingExtraError(
                "engine {name!r} needs mediapipe {last} or older, which is not installed; {remedy}",
                name=self.name,
                last=_LAST,
                remedy=remedy,
            ) from error
        try:
            return getattr(import_module(module), class_name), installed
        except ImportError as error:
            if error.name is not None and f"{module}.".startswith(f"{error.name}."):
                raise MissingExtraError(
                    "engine {name!r} needs the legacy {class_name}, which mediapipe {installed} "
                    "no longer has: {last} was the last one; {remedy}",
                    name=self.name,
                    class_name=class_name,
                    installed=installed,
                    last=_LAST,
                    remedy=remedy,
                ) from error
            raise MissingExtraError(
                "engine {name!r}: mediapipe {installed} is installed, but cannot be imported "
                "({error}; numpy is {version}); {remedy}",
                name=self.name,
                installed=installed,
                error=error,
                version=np.__version__,
                remedy=remedy,
            ) from error


# Options of ours that the original has not.
_OURS_ONLY = ("runtime", "parts", "hand_crop", "world", "people", "people_from", "search_every")


def _info_like(ours: Any) -> EngineInfo:
    """Return what stock gives and takes: what ours does, but for the runtime and the devices."""
    return EngineInfo(
        f"the same points as {ours.name} by MediaPipe itself, where {_LAST} or older is installed",
        ours.info.skeletons,
        people=ours.info.people,
        options=tuple(option for option in ours.info.options if option.name not in _OURS_ONLY),
        saves_states=False,
        needs=("mediapipe",),
        brought_by="posemill[mediapipe]",
    )


class StockHolisticEstimator(StockEstimator):
    """`mp.solutions.holistic.Holistic`."""

    name, our_name = "mediapipe", "holistic"
    solution = ("holistic", "Holistic")
    info = _info_like(HolisticEstimator)

    def _keypoints(self, frames: Sequence[Frame], results: Sequence[Any]) -> Keypoints:
        return _one_person(frames, results, self.info.skeleton_names[0])


class StockPoseEstimator(StockHolisticEstimator):
    """`mp.solutions.pose.Pose`."""

    name, our_name = "mediapipe-pose", "pose"
    solution = ("pose", "Pose")
    info = _info_like(PoseEstimator)


class StockHandsEstimator(StockEstimator):
    """`mp.solutions.hands.Hands`."""

    name, our_name = "mediapipe-hands", "hands"
    solution = ("hands", "Hands")
    info = _info_like(HandsEstimator)

    def _keypoints(self, frames: Sequence[Frame], results: Sequence[Any]) -> Keypoints:
        found = []
        for result in results:
            hands = []
            for landmarks, sides in zip(
                result.multi_hand_landmarks or (), result.multi_handedness or (), strict=True
            ):
                side, points = sides.classification[0], _values_of(landmarks)[:, :3]
                hands.append(Hand(points, 1.0, points, side.index, side.score))
            found.append(hands)
        return keypoints_of_hands(frames, found)


class StockFaceEstimator(StockEstimator):
    """`mp.solutions.face_mesh.FaceMesh`."""

    name, our_name = "mediapipe-face", "face"
    solution = ("face_mesh", "FaceMesh")
    info = _info_like(FaceEstimator)

    def _keypoints(self, frames: Sequence[Frame], results: Sequence[Any]) -> Keypoints:
        found = [
            [Part(_values_of(face)[:, :3], 1.0) for face in result.multi_face_landmarks or ()]
            for result in results
        ]
        return keypoints_of_faces(frames, found, self.info.skeleton_names[0])


def _one_person(frames: Sequence[Frame], results: Sequence[Any], skeleton_name: str) -> Keypoints:
    """Return the parts of one person in each frame."""
    skeleton = get_skeleton(skeleton_name)
    points = np.full((len(frames), skeleton.num_points, 3), np.nan, np.float32)
    scores = np.zeros((len(frames), skeleton.num_points), np.float32)
    for row, result in enumerate(results):
        for part in skeleton.parts:
            landmarks = getattr(result, f"{part.name}_landmarks")
            if landmarks is not None:
                values = _values_of(landmarks)
                points[row, part.start : part.stop] = values[:, :3]
                is_body = part.name == "pose"  # only the body has a visibility
                scores[row, part.start : part.stop] = values[:, 3] if is_body else 1
    sizes_wh = np.array([frame.shape[1::-1] for frame in frames], np.int32).reshape(-1, 2)
    return Keypoints(points, scores, sizes_wh)


def _values_of(landmarks: Any) -> FloatArray:
    """Return `(points, 4)`: x, y, z and visibility."""
    rows = [(each.x, each.y, each.z, each.visibility) for each in landmarks.landmark]
    return np.array(rows, np.float32)
