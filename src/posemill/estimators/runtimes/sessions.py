"""Networks in ONNX and TFLite files behind one face, whatever runs them.

ONNX Runtime runs ONNX files on any device, LiteRT runs TFLite files on a CPU, OpenVINO both on a
CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt

from posemill.errors import ConfigError, PosemillError, WeightsError
from posemill.estimators import EngineOption
from posemill.estimators.runtimes import PACKAGES

MAX_VALUES = 1 << 26  # of an output, for each picture
TFLITE = ".tflite"

# runtime -> "module:class" of a `Session`
_SESSIONS = {
    "onnxruntime": "posemill.estimators.runtimes.onnx_network:OnnxSession",
    "openvino": "posemill.estimators.runtimes.openvino_network:OpenVinoSession",
    "litert": "posemill.estimators.runtimes.litert_network:LiteRTSession",
}
SESSION_OPTION = EngineOption(
    "runtime",
    str,
    "auto",
    "What runs the networks; auto: ONNX Runtime, or OpenVINO where only that is installed.",
    choices=("auto", "onnxruntime", "openvino"),
)


class NetworkRunError(PosemillError):
    """A network cannot be run on what it was given; the callers say which network."""


class TensorInfo(NamedTuple):
    """An input or output of a network; None in its shape is a size that the file leaves open."""

    name: str
    shape: tuple[int | None, ...]
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name} ({sizes}) {self.dtype}"


class Session(Protocol):
    """A network that takes one array, loaded."""

    inputs: list[TensorInfo]
    outputs: list[TensorInfo]

    def run(self, pictures: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Return the outputs, in their order.

        Raises:
            NetworkRunError: The runtime refuses.
        """


def open_session(
    model: bytes | str,
    name: str,
    *,
    runtime: str = "onnxruntime",
    device: str,
    threads: int,
    fixed: Mapping[str, int] = MappingProxyType({}),
) -> Session:
    """Return a network on that runtime and device, and no other.

    Args:
        model: The content of an ONNX file of ours, or the path of a file of the user's.
        name: For messages.
        runtime: As `choose_session_runtime` gives it.
        device: `cpu`, `cuda:N` or `tensorrt:N`.
        threads: Inside one call.
        fixed: Sizes of dimensions that the model leaves open, by their names.
    """
    module, _, attribute = _SESSIONS[runtime].partition(":")
    factory = getattr(import_module(module), attribute)
    return cast(Session, factory(model, name, device=device, threads=threads, fixed=fixed))


def choose_session_runtime(runtime: str, device: str, path: str = "") -> str:
    """Return what runs a network: what was asked for, or for `auto` what is installed.

    Args:
        runtime: `auto`, `onnxruntime` or `openvino`.
        device: `cpu`, `cuda:N` or `tensorrt:N`.
        path: Of the user's file: LiteRT runs those of TFLite. Empty for a network of ours.
    """
    is_tflite = path.lower().endswith(TFLITE)
    if runtime == "auto":
        if is_tflite:
            return "litert"
        has_onnxruntime, has_openvino = (
            find_spec(PACKAGES[name]) is not None for name in ("onnxruntime", "openvino")
        )
        return (
            "openvino"
            if has_openvino and not has_onnxruntime and device == "cpu"
            else ("onnxruntime")
        )
    if is_tflite and runtime == "onnxruntime":
        raise ConfigError(
            "ONNX Runtime does not read {path}; leave runtime out, or choose "
            "{--engine-option:runtime=openvino}",
            path=path,
        )
    return runtime


def too_large(name: str, output: str, num_values: int) -> WeightsError:
    """Return the error for a stranger's file whose outputs would fill the memory."""
    return WeightsError(
        "{name}: its output {output} has {num_values:,} numbers, allowed are {max_values:,}; "
        "keypoints and maps are smaller: is this the right file?",
        name=name,
        output=output,
        num_values=num_values,
        max_values=MAX_VALUES,
    )
