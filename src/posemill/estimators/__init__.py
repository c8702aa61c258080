"""Engines: a batch of frames in, keypoints out. A new one is a module and a row in `ESTIMATORS`.

`image` mode: every frame stands alone (`states=None`). `video` mode: each frame of the batch is
the next one of its own clip, whose `ClipState` goes in and is changed in place; several clips go
through in lock-step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, cast

import numpy as np

from posemill import plugins
from posemill.errors import ConfigError
from posemill.estimators.declaration import EngineInfo, EngineOption
from posemill.records import Frame, Keypoints

__all__ = [
    "ESTIMATORS",
    "ClipState",
    "EngineInfo",
    "EngineOption",
    "Estimator",
    "checked_frames",
    "engine_info",
    "engine_infos",
    "known_engines",
    "open_estimator",
]


class ClipState(Protocol):
    """What an engine remembers between the frames of one clip.

    One that can be neither copied nor written, and says so in `EngineInfo.saves_states`, raises
    in `copy` and gives no bytes.
    """

    def copy(self) -> ClipState:
        """Return a state that later frames of this one do not change. Cheap: made every frame."""

    def to_bytes(self) -> bytes:
        """Return the state as plain bytes (no pickle), to be continued in another process."""


class Estimator(Protocol):
    """An engine. Not shared between threads: each worker opens its own."""

    info: ClassVar[EngineInfo]

    def new_state(self) -> ClipState:
        """Return the state before a clip's first frame."""

    def load_state(self, data: bytes) -> ClipState:
        """Return the state that `ClipState.to_bytes` wrote."""

    def estimate(
        self, frames: Sequence[Frame], states: Sequence[ClipState] | None = None
    ) -> Keypoints:
        """Return the keypoints of a batch of RGB frames of any sizes, in their order.

        Their skeleton is the first of `info.skeletons`.
        """

    def identity(self) -> dict[str, str]:
        """Return what decides the result: engine, options, model hashes, versions."""

    def close(self) -> None:
        """Free what the engine holds."""


# name -> "module:class"; the class takes keyword options `device`, `threads` and its own. Other
# packages add theirs by entry points of the group `posemill.engines`.
ESTIMATORS = {
    "holistic": "posemill.estimators.holistic:HolisticEstimator",
    "hands": "posemill.estimators.hands:HandsEstimator",
    "face": "posemill.estimators.face:FaceEstimator",
    "pose": "posemill.estimators.pose:PoseEstimator",
    "openpose": "posemill.estimators.openpose:OpenPoseEstimator",
    "wholebody": "posemill.estimators.wholebody:WholeBodyEstimator",
    "movenet": "posemill.estimators.movenet:MoveNetEstimator",
    "mediapipe": "posemill.estimators.stock_mediapipe:StockHolisticEstimator",
    "mediapipe-hands": "posemill.estimators.stock_mediapipe:StockHandsEstimator",
    "mediapipe-face": "posemill.estimators.stock_mediapipe:StockFaceEstimator",
    "mediapipe-pose": "posemill.estimators.stock_mediapipe:StockPoseEstimator",
    "fake": "posemill.estimators.fake:FakeEstimator",
}


def open_estimator(
    name: str, *, device: str = "cpu", threads: int = 1, **options: Any
) -> Estimator:
    """Return a new engine of that name.

    Args:
        name: One of `known_engines`.
        device: `cpu` or `cuda:N`.
        threads: Threads the engine may use inside one call.
        options: The engine's own; unknown ones are an error.
    """
    info = engine_info(name)
    info.check_device(name, device)
    info.check_options(name, options)
    return cast(Estimator, _find(name)(device=device, threads=threads, **options))


def checked_frames(frames: Sequence[Frame]) -> list[Frame]:
    """Return the frames of a batch, each in one piece of memory; raise if one is no picture."""
    for frame in frames:
        if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8 or not frame.size:
            raise ValueError(
                f"frame: expected (height, width, 3) uint8 RGB, got {frame.shape} {frame.dtype}"
            )
    return [np.ascontiguousarray(frame) for frame in frames]


def engine_info(name: str, options: Mapping[str, Any] | None = None) -> EngineInfo:
    """Return what the engine of that name says about itself; only a file of the options is read.

    Args:
        name: One of `known_engines`.
        options: Its own, some of which change what it gives.
    """
    return cast(EngineInfo, _find(name).info).with_options(options or {})


def engine_infos() -> dict[str, EngineInfo]:
    """Return what every engine but that for tests says about itself, by name.

    Those of packages that cannot be imported are left out, which is said on stderr.
    """
    loaded = plugins.load_all("engine", ESTIMATORS)
    return {name: engine_info(name) for name, _ in loaded if name != "fake"}


def known_engines() -> list[str]:
    """Return the names of `ESTIMATORS` and of other packages' engines; not that for tests."""
    return [name for name in plugins.names_of("engine", ESTIMATORS) if name != "fake"]


def _find(name: str) -> Any:
    if name not in plugins.names_of("engine", ESTIMATORS):
        raise plugins.unknown("engine", name, known_engines())
    found = plugins.load("engine", ESTIMATORS, name)
    if not isinstance(getattr(found, "info", None), EngineInfo):
        raise ConfigError(
            "engine {name!r} does not say what it gives: its class has no EngineInfo as 'info'",
            name=name,
        )
    return found
