"""Libraries tried in a process of their own: one may end with an illegal instruction.

    python -m posemill.estimators.trial LIBRARY [NETWORK]

is that process; it prints the seconds of what it computed. Without the name of a network that is
in the cache, a runtime is only loaded.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.estimators.runtimes import PACKAGES, open_network
from posemill.machine.processes import die_with_parent, python_command
from posemill.machine.trials import Outcome, kept_outcomes, run_child

LIBRARIES = {"opencv": "cv2", "pyav": "av", "pyarrow": "pyarrow", **PACKAGES}
MAPS_NETWORK = "mobilenet_thin"
_LIMIT_SECONDS = 60.0
_NUM_RUNS = 3
_MODULES = {
    "pyav": "av",
    "pyarrow": "pyarrow",
    "litert": "ai_edge_litert.interpreter",
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
}


def try_library(library: str, network: str = "") -> Outcome | None:
    """Return what came of trying one of `LIBRARIES` on this machine; None if it is not installed.

    Args:
        library: Its name.
        network: One that is in the cache, for a runtime to run; empty: it is only loaded.
    """
    spec = find_spec(LIBRARIES[library])
    if spec is None or spec.origin is None:
        return None

    def make() -> list[Outcome]:
        command = python_command(__name__, *filter(None, (library, network)))
        outcome, text = run_child(command, timeout_seconds=_LIMIT_SECONDS)
        if outcome.works and text:
            outcome = replace(outcome, seconds={network or "a picture": float(text)})
        return [outcome]

    # Another version is another file, and what pip overwrites changes its folder.
    file = Path(spec.origin)
    facts = [spec.origin, file.stat().st_mtime_ns, file.parent.stat().st_mtime_ns, network]
    return kept_outcomes(library, facts, make)[0]


def run_opencv() -> float:
    """Return the seconds of what engines ask of OpenCV, on a picture."""
    import cv2

    picture = np.arange(480 * 640 * 3, dtype=np.uint8).reshape(480, 640, 3)
    matrix = np.array([[0.4, 0.1, 3.0], [-0.1, 0.4, 5.0]])
    values = np.arange(256, dtype=np.float32)
    started = time.perf_counter()
    small = cv2.warpAffine(picture, matrix, (256, 256), flags=cv2.INTER_LINEAR)
    small = cv2.GaussianBlur(cv2.resize(small, (224, 224), interpolation=cv2.INTER_AREA), (5, 5), 1)
    cv2.LUT(cv2.cvtColor(small, cv2.COLOR_BGR2RGB), values)
    _, encoded = cv2.imencode(".jpg", small)
    cv2.imdecode(encoded, cv2.IMREAD_COLOR)
    return time.perf_counter() - started


def run_network(runtime: str, name: str) -> float:
    """Return the seconds that a network takes on a runtime for an empty picture."""
    run: Callable[[npt.NDArray[Any]], Any]
    if name == MAPS_NETWORK:
        from posemill.estimators.openpose.networks import open_maps_network

        run = open_maps_network(name, device="cpu", threads=1, pixels="auto", runtime=runtime).run
        picture: npt.NDArray[Any] = np.zeros((1, 3, 64, 64), np.float32)
    else:
        network = open_network(name, runtime=runtime, device="cpu", threads=1)
        run, picture = network.run, np.zeros((1, network.size, network.size, 3), np.uint8)
    run(picture)
    started = time.perf_counter()
    for _ in range(_NUM_RUNS):
        run(picture)
    return (time.perf_counter() - started) / _NUM_RUNS


def main(library: str, network: str = "") -> None:
    """Compute with a library and print the seconds."""
    die_with_parent()
    if library in _MODULES and not network:
        import_module(_MODULES[library])
        return
    seconds = run_network(library, network) if library in _MODULES else run_opencv()
    sys.stdout.write(f"{seconds}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
