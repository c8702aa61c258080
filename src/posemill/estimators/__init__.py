"""Engines: a batch of frames in, keypoints out. A new one is a module and a row in `ESTIMATORS`.

`image` mode: every frame stands alone (`states=None`). `video` mode: each frame of the batch is
the next one of its own clip, whose `ClipState` goes in and is changed in place; several clips go
through in lock-step.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from posemill.errors import ConfigError
from posemill.records import Frame, Keypoints


class ClipState(Protocol):
    """What an engine remembers between the frames of one clip."""

    def copy(self) -> ClipState:
        """Return a state that later frames of this one do not change. Cheap: made every frame."""

    def to_bytes(self) -> bytes:
        """Return the state as plain bytes (no pickle), to be continued in another process."""


class Estimator(Protocol):
    """An engine. Not shared between threads: each worker opens its own."""

    skeleton_name: str

    def new_state(self) -> ClipState:
        """Return the state before a clip's first frame."""

    def load_state(self, data: bytes) -> ClipState:
        """Return the state that `ClipState.to_bytes` wrote."""

    def estimate(
        self, frames: Sequence[Frame], states: Sequence[ClipState] | None = None
    ) -> Keypoints:
        """Return the keypoints of a batch of RGB frames of any sizes, in their order."""

    def identity(self) -> dict[str, str]:
        """Return what decides the result: engine, options, model hashes, versions."""

    def close(self) -> None:
        """Free what the engine holds."""


# name -> "module:class"; the class takes keyword options `device`, `threads` and its own.
ESTIMATORS = {
    "holistic": "posemill.estimators.holistic:HolisticEstimator",
    "fake": "posemill.estimators.fake:FakeEstimator",
}


def open_estimator(
    name: str, *, device: str = "cpu", threads: int = 1, **options: Any
) -> Estimator:
    """Return a new engine of that name.

    Args:
        name: A key of `ESTIMATORS`.
        device: `cpu` or `cuda:N`.
        threads: Threads the engine may use inside one call.
        options: The engine's own; unknown ones are an error.
    """
    if name not in ESTIMATORS:
        raise ConfigError(f"unknown engine {name!r}; known: {', '.join(ESTIMATORS)}")
    module, _, attribute = ESTIMATORS[name].partition(":")
    factory = getattr(import_module(module), attribute)
    return cast(Estimator, factory(device=device, threads=threads, **options))
