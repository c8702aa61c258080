"""An engine without a network, for tests of everything around engines.

Its points are a function of the pixels (and, in video mode, of all frames before), so a lost,
doubled or reordered frame shows.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from posemill.errors import ConfigError
from posemill.estimators import ClipState
from posemill.records import Frame, Keypoints
from posemill.skeletons import get_skeleton


@dataclass
class FakeState:
    """How many frames came before, and a running mean of their brightness."""

    num_frames: int = 0
    running_mean: float = 0.0

    def to_bytes(self) -> bytes:
        """Return the two numbers, packed."""
        return struct.pack("<qd", self.num_frames, self.running_mean)


class FakeEstimator:
    """Points made from each frame's mean colour; a frame darker than 8 of 255 shows nobody."""

    skeleton_name = "holistic-543"

    def __init__(
        self, *, device: str = "cpu", threads: int = 1, seconds_per_frame: float = 0.0
    ) -> None:
        if device != "cpu":
            raise ConfigError(f"engine 'fake' runs on the cpu only, not on {device!r}")
        self.threads = threads
        self.seconds_per_frame = seconds_per_frame
        self._ramp = np.linspace(
            0, 1, get_skeleton(self.skeleton_name).num_points, dtype=np.float32
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

    def identity(self) -> dict[str, str]:
        """Return the engine's name and version."""
        return {"engine": "fake", "version": "1"}

    def close(self) -> None:
        """Nothing is held."""
