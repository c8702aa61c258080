"""Networks with their crops, and what engines that run several of them have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import cv2
import numpy as np

from posemill.errors import ConfigError
from posemill.estimators import EngineInfo, EngineOption, checked_frames
from posemill.estimators.identity import build_identity
from posemill.estimators.landmarks.attention import AttentionNetwork
from posemill.estimators.landmarks.crops import Cropper
from posemill.estimators.landmarks.rects import Rect
from posemill.estimators.landmarks.sampling import SampleGrid
from posemill.estimators.runtimes import (
    PACKAGES,
    RUNTIMES,
    Network,
    choose_runtime,
    describe_runtime,
    open_network,
    tell_that_litert_is_missing,
)
from posemill.records import FloatArray, Frame
from posemill.weights.catalogue import get_pinned
from posemill.weights.networks import CONVERTER_VERSION, NETWORKS

FrameOnItsWay = TypeVar("FrameOnItsWay")
REFINED_FACE = "face_attention"  # in pieces
RUNTIME_OPTION = EngineOption(
    "runtime",
    str,
    "auto",
    "What runs the networks; auto: LiteRT on a CPU.",
    choices=("auto", *RUNTIMES),
)
# What all engines of landmarks say of themselves.
LANDMARK_NEEDS: dict[str, Any] = {
    "devices": ("cpu", "cuda", "tensorrt"),
    "needs": tuple(PACKAGES.values()),
    "brought_by": "ai-edge-litert",
}
WORLD_OPTION = EngineOption(
    "world", bool, False, "Give body and hands in metres, too, as PoseClip.world."
)
# Frames that go through the stages together.
_MAX_BATCH = {"cpu": 8, "gpu": 32}
_LARGEST_CROP = 256


class Part(NamedTuple):
    """A hand or a face.

    `points` are in shares of the picture, `score` says how sure it is one, 0..1. `world` are the
    points in metres, upright; None where they are not wanted.
    """

    points: FloatArray
    score: float
    world: FloatArray | None = None


class CropNetwork:
    """A network with its crops: looks at rectangles of pictures.

    Cutting and running are two steps: a network pushes the pictures out of the processor's caches,
    so all crops of a stage are cut before its networks run.
    """

    def __init__(self, network: Network, cropper: Cropper) -> None:
        self._network, self._cropper = network, cropper
        self._pixels = np.zeros((0, self._network.size, self._network.size, 3), np.uint8)
        self._num_places = 0

    def cut(self, places: Sequence[tuple[Frame, Rect | None]]) -> None:
        """Cut the places (None: the whole picture) that `run` will show to the network."""
        self._num_places = len(places)
        if len(places) > len(self._pixels):
            self._pixels = np.zeros((len(places), *self._pixels.shape[1:]), np.uint8)
        for row, (frame, rect) in enumerate(places):
            self._cropper.cut(frame, rect, self._pixels[row])

    def run(self) -> list[list[FloatArray]]:
        """Return the network's outputs for each place that was cut, each with a batch axis of 1."""
        rows = range(self._num_places)
        if not self._network.runs_batches:
            return [self._network.run(self._pixels[row : row + 1]) for row in rows]
        if not rows:
            return []
        outputs = self._network.run(self._pixels[: len(rows)])
        return [[output[row : row + 1] for output in outputs] for row in rows]

    def close(self) -> None:
        """Free the network."""
        del self._network

    def look(self, places: Sequence[tuple[Frame, Rect | None]]) -> list[list[FloatArray]]:
        """Return what `run` gives after `cut`."""
        self.cut(places)
        return self.run()


class LandmarkEngine(ABC, Generic[FrameOnItsWay]):
    """What the engines of MediaPipe's legacy graphs have in common: options, networks, identity.

    Args:
        device: `cpu`, `cuda:N` or `tensorrt:N`.
        threads: Threads inside one network call. OpenCV's are set to the same number.
        options: The engine's own, see `info.options`.
    """

    name: ClassVar[str]
    info: EngineInfo

    def __init__(self, *, device: str = "cpu", threads: int = 1, **options: Any) -> None:
        self.options = self.info.all_options(self.name, options)
        if not isinstance(threads, (int, np.integer)) or threads < 1:
            raise ConfigError("{--threads}: expected at least 1, got {threads!r}", threads=threads)
        self.info = self.info.with_options(self.options)
        self.device, self.threads = device, threads
        self.runtime = choose_runtime(self.options["runtime"], device)
        self._max_batch = _MAX_BATCH["cpu" if device == "cpu" else "gpu"]
        cv2.setNumThreads(threads)
        self._grid = SampleGrid(_LARGEST_CROP)
        self._models: list[str] = []
        self._networks: list[CropNetwork] = []

    @abstractmethod
    def _begin(self, pixels: Frame, state: Any) -> FrameOnItsWay:
        """Return a frame before anything was found in it; its state is None if it stands alone."""

    @abstractmethod
    def _find_in(self, batch: list[FrameOnItsWay]) -> None:
        """Find what is in some frames, and go on in their states."""

    def _look_at(
        self, frames: Sequence[Frame], states: Sequence[Any] | None
    ) -> list[FrameOnItsWay]:
        """Return frames with all that is found in them.

        Args:
            frames: `(height, width, 3)` RGB uint8 each.
            states: One per frame, each of another clip, changed in place; None: frames stand alone.
        """
        if states is not None and len(states) != len(frames):
            raise ValueError(f"states: expected {len(frames)}, one per frame, got {len(states)}")
        batch = [
            self._begin(frame, states[index] if states else None)
            for index, frame in enumerate(checked_frames(frames))
        ]
        for start in range(0, len(batch), self._max_batch):
            self._find_in(batch[start : start + self._max_batch])
        return batch

    def _open(
        self, name: str, *, repeats_border: bool = True, stretches: bool = False
    ) -> CropNetwork:
        """Return a network of `posemill.weights.networks.NETWORKS` with its crops."""
        network = AttentionNetwork(self._load) if name == REFINED_FACE else self._load(name)
        if self.options["runtime"] == "auto" and self.device == "cpu" and self.runtime != "litert":
            tell_that_litert_is_missing()
        cropper = Cropper(
            network.size, self._grid, repeats_border=repeats_border, stretches=stretches
        )
        self._networks.append(CropNetwork(network, cropper))
        return self._networks[-1]

    def _load(self, name: str) -> Network:
        self._models.append(NETWORKS[name].model)
        return open_network(name, runtime=self.runtime, device=self.device, threads=self.threads)

    def identity(self) -> dict[str, str]:
        """Return what decides the result: options, versions, hashes of the model files."""
        return build_identity(
            self.name,
            {**self.options, "opencv": cv2.__version__},
            device=self.device,
            runtime=describe_runtime(self.runtime),
            hashes={name: get_pinned(name, "model").sha256 for name in self._models},
            converter=CONVERTER_VERSION if self.runtime == "onnxruntime" else None,
        )

    def close(self) -> None:
        """Free the networks."""
        for network in self._networks:
            network.close()
        self._networks.clear()


def confidence_options(of_detection: str, of_tracking: str) -> tuple[EngineOption, EngineOption]:
    """Return the two thresholds that every engine of landmarks has.

    Args:
        of_detection: Whose score the first one is compared with.
        of_tracking: Whose score the second one is compared with.
    """
    return (
        EngineOption("min_detection_confidence", float, 0.5, of_detection, least=0, most=1),
        EngineOption("min_tracking_confidence", float, 0.5, of_tracking, least=0, most=1),
    )
