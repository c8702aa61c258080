"""What runs the networks: LiteRT on a CPU, ONNX Runtime on a GPU; OpenVINO where it is asked for.

The choice was made by measurement (docs/engine.md): on a CPU both take the same time, LiteRT less
memory, and only its kernels give stock's digits.
"""

from __future__ import annotations

import functools
import platform
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from posemill.errors import ConfigError
from posemill.messages import Message, render


class Network(Protocol):
    """One network, loaded. Pictures as bytes in, arrays out.

    `size` is the side of its input in pixels. `runs_batches` is False where crops go one by one.
    """

    size: int
    runs_batches: bool

    def run(self, pixels: npt.NDArray[Any]) -> list[npt.NDArray[np.float32]]:
        """Return the outputs for `(batch, size, size, 3)` RGB crops, maps with channels first.

        A piece from the middle of a model takes numbers `(batch, size, size, channels)`.
        """


# name -> "module:class"; the class takes the network's name, `device` and `threads`.
RUNTIMES = {
    "litert": "posemill.estimators.runtimes.litert_network:LiteRTNetwork",
    "onnxruntime": "posemill.estimators.runtimes.onnx_network:OnnxNetwork",
    "openvino": "posemill.estimators.runtimes.openvino_network:OpenVinoNetwork",
}

PACKAGES = {"litert": "ai_edge_litert", "onnxruntime": "onnxruntime", "openvino": "openvino"}


def choose_runtime(runtime: str, device: str) -> str:
    """Return the runtime of `RUNTIMES` that was asked for; for `auto`, the device's own.

    LiteRT is not made for every system; where it is not installed and ONNX Runtime is, or where
    there is none, ONNX Runtime takes its place.
    """
    if runtime in RUNTIMES:
        return runtime
    if runtime != "auto":
        raise ConfigError(
            "unknown runtime {runtime!r}; known: auto, {runtimes}",
            runtime=runtime,
            runtimes=", ".join(RUNTIMES),
        )
    if device != "cpu":
        return "onnxruntime"
    has_litert, has_onnxruntime = (find_spec(PACKAGES[name]) for name in ("litert", "onnxruntime"))
    return "litert" if has_litert or (has_litert_here() and not has_onnxruntime) else "onnxruntime"


def has_litert_here() -> bool:
    """Return whether LiteRT is made for this system: for Macs with Intel processors it is not."""
    return (sys.platform, platform.machine()) != ("darwin", "x86_64")


@functools.cache
def tell_that_litert_is_missing() -> None:
    """Say, once in a process, that the networks run on something else."""
    if sys.stderr is not None:  # as in a process that was started without one
        said = render(
            Message(
                "posemill: ai-edge-litert is not installed, the networks run on ONNX Runtime; "
                "posemill doctor says what that means"
            )
        )
        sys.stderr.write(f"{said}\n")
        sys.stderr.flush()


def open_network(name: str, *, runtime: str, device: str, threads: int) -> Network:
    """Return a network of `posemill.weights.networks.NETWORKS` on a runtime of `RUNTIMES`."""
    module, _, attribute = RUNTIMES[runtime].partition(":")
    factory = getattr(import_module(module), attribute)
    return cast(Network, factory(name, device=device, threads=threads))


def describe_runtime(runtime: str) -> str:
    """Return a runtime of `PACKAGES` and its installed version, for identities."""
    version = str(import_module(PACKAGES[runtime]).__version__).partition("-")[0]
    return f"{runtime} {version}"
