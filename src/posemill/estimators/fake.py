"""An engine without a network, for tests of everything around engines.

Its points are a function of the pixels (and, in video mode, of all frames before), so a lost,
doubled or reordered frame shows.
"""

from __future__ import annotations

import ctypes
import dataclasses
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from posemill.errors import ConfigError
from posemill.estimators import ClipState, EngineInfo, EngineOption
from posemill.estimators.identity import build_identity
from posemill.records import Frame, Keypoints
from posemill.skeletons import get_skeleton

_leaked: list[Any] = []


def _segfault() -> None:
    ctypes.string_at(0)


def _hang() -> None:
    while True:
        time.sleep(60)


def _leak() -> None:
    _leaked.append(np.ones(64 << 17))  # 64 MB, touched


def _explode() -> None:
    while True:
        _leak()
        time.sleep(0.05)


def _fail() -> None:
    raise ArithmeticError("the fake engine was told to fail")


_MISHAPS = {
    "segfault": _segfault,
    "hang": _hang,
    "leak": _leak,
    "explode": _explode,
    "error": _fail,
    "stick": _fail,
}


@dataclass
class FakeState:
    """How many frames came before, and a running mean of their brightness."""

    num_frames: int = 0
    running_mean: float = 0.0

    def copy(self) -> FakeState:
        """Return another with the same two numbers."""
        return dataclasses.replace(self)

    def to_bytes(self) -> bytes:
        """Return the two numbers, packed."""
        return struct.pack("<qd", self.num_frames, self.running_mean)


class FakeEstimator:
    """Points made from each frame's mean colour; a frame darker than 8 of 255 shows nobody.

    Args:
        device: `cpu`.
        threads: Not used.
        seconds_per_frame: Sleeps as long for each frame.
        mishaps: What happens at a frame of exactly one colour: `{"ff0000": "segfault"}`. One of
            `segfault`, `hang`, `leak` (64 MB that are never freed), `explode` (as much memory as
            there is, bit by bit), `error` (an exception) and `stick` (an exception at this frame
            and at all that follow, as after an error of CUDA).
    """

    info = EngineInfo(
        "made-up points of each frame's mean colour, to try the rest",
        ("holistic-543", "holistic-143", "openpose-18", "coco-133"),
        options=(
            EngineOption("seconds_per_frame", float, 0.0, "Sleeps as long for each.", least=0),
            EngineOption("mishaps", dict, None, "What goes wrong at frames of one colour."),
        ),
    )

    def __init__(
        self,
        *,
        device: str = "cpu",
        threads: int = 1,
        seconds_per_frame: float = 0.0,
        mishaps: Mapping[str, str] | None = None,
    ) -> None:
        self.info.check_device("fake", device)
        self._mishaps = dict(mishaps or {})
        if unknown := set(self._mishaps.values()) - set(_MISHAPS):
            raise ConfigError(
                "engine 'fake': unknown mishaps {unknown}; known: {mishaps}",
                unknown=unknown,
                mishaps=set(_MISHAPS),
            )
        self.threads = threads
        self._is_stuck = False
        self.seconds_per_frame = seconds_per_frame
        self._ramp = np.linspace(
            0, 1, get_skeleton(self.info.skeleton_names[0]).num_points, dtype=np.float32
        )

    def new_state(self) -> FakeState:
        """Return the state before a clip's first frame."""
        return FakeState()

    def load_state(self, data: bytes) -> FakeState:
        """Return the state `FakeState.to_bytes` wrote."""
        return FakeState(*struct.unpack("<qd", data))

    def estimate(
        self, frames: Sequence[Frame], states: Sequence[ClipState] | None = None
    ) -> Keypoints:
        """Return the made-up keypoints of a batch of frames."""
        points = np.full((len(frames), len(self._ramp), 3), np.nan, np.float32)
        scores = np.zeros((len(frames), len(self._ramp)), np.float32)
        sizes_wh = np.array([frame.shape[1::-1] for frame in frames], np.int32).reshape(-1, 2)
        for index, frame in enumerate(frames):
            if self._mishaps:
                self._meet_mishap(frame)
            colour = frame.reshape(-1, 3).mean(0) / 255
            offset = 0.0
            if states is not None:
                state = cast(FakeState, states[index])
                state.running_mean = 0.9 * state.running_mean + 0.1 * float(colour.mean())
                state.num_frames += 1
                offset = state.running_mean + 1e-3 * state.num_frames
            if colour.mean() * 255 >= 8:
                points[index] = self._ramp[:, None] * colour + offset
                scores[index] = 1
            if self.seconds_per_frame:
                time.sleep(self.seconds_per_frame)
        return Keypoints(points, scores, sizes_wh)

    def _meet_mishap(self, frame: Frame) -> None:
        if self._is_stuck:
            _fail()
        first = frame[0, 0]
        mishap = self._mishaps.get(bytes(first).hex())
        if mishap is not None and (frame == first).all():
            self._is_stuck = mishap == "stick"
            _MISHAPS[mishap]()

    def identity(self) -> dict[str, str]:
        """Return the engine's name and version."""
        return build_identity("fake", {"version": 1})

    def close(self) -> None:
        """Nothing is held."""
