"""Networks that give OpenPose's 57 maps: the published mobilenet, or a file of the user's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import cv2
import numpy as np

from posemill.errors import ConfigError, WeightsError
from posemill.estimators.openpose.decoding import NUM_MAPS
from posemill.estimators.runtimes import describe_runtime
from posemill.estimators.runtimes.sessions import (
    NetworkRunError,
    Session,
    choose_session_runtime,
    open_session,
)
from posemill.estimators.trial import MAPS_NETWORK, try_library
from posemill.files import sha256_of
from posemill.records import FloatArray
from posemill.weights.catalogue import get_pinned
from posemill.weights.frozen_graph import export_frozen_graph
from posemill.weights.networks import cached_model
from posemill.weights.pull import ensure_model

DEFAULT = MAPS_NETWORK
CONVERTER_VERSION = 1
_AFFINITIES = 38
# What a network expects of a pixel's bytes: the factor, and what is added then.
PIXELS = {"raw": (1.0, 0.0), "centred": (1 / 256, -0.5)}


class MapsNetwork(Protocol):
    """One network, loaded.

    `pixels` is a key of `PIXELS`; `name` and `sha256` say which file it is, `runtime` what runs it,
    `converter` the version of ours that made it, if one did; `size_hw` is the one size of pictures
    that it takes, None if it takes any.
    """

    size_hw: tuple[int, int] | None
    pixels: str
    name: str
    sha256: str
    runtime: str
    converter: int | None

    def run(self, pictures: FloatArray) -> FloatArray:
        """Return `(batch, 57, height / 8, width / 8)` for `(batch, 3, height, width)` in BGR."""


def open_maps_network(
    network: str, *, device: str, threads: int, pixels: str, runtime: str = "auto"
) -> MapsNetwork:
    """Return the network of that name or in that file.

    Args:
        network: `mobilenet_thin`, an .onnx file, or the .pth file of the body network as it is
            published for PyTorch.
        device: `cpu`, `cuda:N` or `tensorrt:N`.
        threads: Inside one call.
        pixels: A key of `PIXELS`, or `auto`: what the network is known to expect; of an .onnx file
            that is not known, and `raw` is taken.
        runtime: `onnxruntime`, `openvino`, `opencv` (`mobilenet_thin` only), or `auto`: for
            `mobilenet_thin` on a CPU what `quickest_runtime` says.
    """
    if runtime == "opencv" and (network != DEFAULT or device != "cpu"):
        raise ConfigError(
            "runtime opencv runs {default} on a CPU only; leave runtime out", default=DEFAULT
        )
    chosen = None if pixels == "auto" else pixels
    if network == DEFAULT:
        if device == "cpu" and runtime == "auto":
            runtime = quickest_runtime()
        if runtime == "opencv":
            return _OpenCvNetwork(chosen or "raw")
        used = choose_session_runtime(runtime, device)
        session = open_session(_converted(), DEFAULT, runtime=used, device=device, threads=threads)
        sha256 = get_pinned(DEFAULT, "model").sha256
        return _SessionMaps(session, DEFAULT, sha256=sha256, pixels=chosen or "raw", runtime=used)
    path = Path(network)
    if not path.is_file():
        raise ConfigError(
            "network: there is no file {network}; expected {default}, or the path of an .onnx or "
            ".pth file",
            network=network,
            default=DEFAULT,
        )
    if path.suffix == ".onnx":
        used = choose_session_runtime(runtime, device)
        session = open_session(str(path), str(path), runtime=used, device=device, threads=threads)
        return _SessionMaps(
            session, str(path), sha256=sha256_of(path), pixels=chosen or "raw", runtime=used
        )
    if path.suffix == ".pth":
        from posemill.estimators.openpose.body_network import TorchMaps

        return TorchMaps(path, device=device, threads=threads, pixels=chosen or "centred")
    raise ConfigError("network: expected an .onnx or a .pth file, got {network}", network=network)


def quickest_runtime() -> str:
    """Return what runs `mobilenet_thin` in the least time on a CPU, of what runs on this machine.

    The order was the same on all processors that were measured (docs/engine.md). What is installed
    is tried in a process of its own, once on a machine.
    """
    ensure_model(DEFAULT)  # one that cannot be fetched is no failure of a runtime
    for name in ("openvino", "onnxruntime"):
        outcome = try_library(name, DEFAULT)
        if outcome is not None and outcome.works:
            return name
    return "opencv"


class _OpenCvNetwork:
    """The published graph on OpenCV's dnn, which is in the base install. One picture at a time."""

    size_hw: tuple[int, int] | None = None
    converter: int | None = None

    def __init__(self, pixels: str) -> None:
        path = ensure_model(DEFAULT)
        try:
            self._net = cv2.dnn.readNetFromTensorflow(str(path))
        except cv2.error as error:
            raise WeightsError(
                "OpenCV {version} cannot read {path} ({error}); install opencv-python-headless "
                "4.13, or name an .onnx file: {--engine-option:network=FILE}",
                version=cv2.__version__,
                path=path,
                error=error.err,
            ) from error
        self.pixels = pixels
        self.name, self.sha256 = DEFAULT, get_pinned(DEFAULT, "model").sha256
        self.runtime = f"opencv {cv2.__version__}"

    def run(self, pictures: FloatArray) -> FloatArray:
        """Return the maps; see `MapsNetwork`."""
        maps = []
        for picture in pictures:
            self._net.setInput(picture[None])
            maps.append(self._net.forward()[0].copy())
        return np.stack(maps)


class _SessionMaps:
    """Any ONNX file with 57 maps, in one output or in two, channels first or last."""

    def __init__(
        self, session: Session, name: str, *, sha256: str, pixels: str, runtime: str
    ) -> None:
        self._session = session
        inputs = session.inputs
        if len(inputs) != 1 or len(inputs[0].shape) != 4:
            raise ConfigError(
                "network {name}: expected one picture as input, got {shapes}",
                name=name,
                shapes=", ".join(map(str, inputs)),
            )
        self._input, self._name = inputs[0], name
        self._is_last = inputs[0].shape[3] == 3 and inputs[0].shape[1] != 3
        self.pixels = pixels
        self.name, self.sha256 = Path(name).name, sha256
        self.runtime = describe_runtime(runtime)
        self.converter = CONVERTER_VERSION if name == DEFAULT else None
        sides = inputs[0].shape[1:3] if self._is_last else inputs[0].shape[2:]
        height, width = (side or 0 for side in sides)
        if bool(height) != bool(width):
            raise ConfigError(
                "network {name}: its picture is {input}; export it with height and width both "
                "open, or both fixed",
                name=name,
                input=inputs[0],
            )
        self.size_hw = (height, width) if height else None
        self._try(np.zeros((1, 3, height or 64, width or 64), np.float32))

    def _try(self, pictures: FloatArray) -> None:
        """Raise now if the network takes no such pictures, or has other maps."""
        try:
            self.run(pictures)
        except NetworkRunError as error:
            raise ConfigError(
                "network {name}: it does not run on one picture of float32, its input is "
                "{input}; export it with float32 pictures and an open batch ({error})",
                name=self._name,
                input=self._input,
                error=error,
            ) from error

    def run(self, pictures: FloatArray) -> FloatArray:
        """Return the maps; see `MapsNetwork`."""
        batch = pictures.transpose(0, 2, 3, 1) if self._is_last else pictures
        return join_maps(self._session.run(np.ascontiguousarray(batch)), self._name)


def join_maps(outputs: Sequence[Any], name: str) -> FloatArray:
    """Return heat maps and affinities in our order, however a network gives them."""
    maps = []
    for output in outputs:
        if output.ndim == 4:
            is_last = output.shape[3] in (NUM_MAPS, NUM_MAPS - _AFFINITIES, _AFFINITIES)
            is_first = output.shape[1] in (NUM_MAPS, NUM_MAPS - _AFFINITIES, _AFFINITIES)
            maps.append(output.transpose(0, 3, 1, 2) if is_last and not is_first else output)
    for each in maps[::-1]:  # of several stages the last counts
        if each.shape[1] == NUM_MAPS:
            return np.ascontiguousarray(each, np.float32)
    heat = [each for each in maps if each.shape[1] == NUM_MAPS - _AFFINITIES]
    affinities = [each for each in maps if each.shape[1] == _AFFINITIES]
    if not heat or not affinities:
        shapes = ", ".join(str(tuple(output.shape)) for output in outputs)
        raise ConfigError(
            "network {name}: expected 57 maps, or 19 heat maps and 38 affinity maps, got {shapes}",
            name=name,
            shapes=shapes,
        )
    return np.ascontiguousarray(np.concatenate([heat[-1], affinities[-1]], axis=1), np.float32)


def _converted() -> bytes:
    """Return the published graph as ONNX, from the cache or converted now."""
    version = f"{get_pinned(DEFAULT, 'model').sha256[:16]}-v{CONVERTER_VERSION}"
    return cached_model(f"{DEFAULT}-{version}", lambda: export_frozen_graph(ensure_model(DEFAULT)))
