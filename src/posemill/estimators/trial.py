"""The process in which `posemill doctor` tries a library: it may end with an illegal instruction.

    python -m posemill.estimators.trial LIBRARY [NETWORK]

prints the seconds of what it computed. Without the name of a network that is in the cache, a
runtime is only loaded.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module

import numpy as np

from posemill.machine.processes import die_with_parent

_NUM_RUNS = 3
_MODULES = {
    "litert": "ai_edge_litert.interpreter",
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
}


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
    from posemill.estimators.runtimes import open_network

    network = open_network(name, runtime=runtime, device="cpu", threads=1)
    picture = np.zeros((1, network.size, network.size, 3), np.uint8)
    network.run(picture)
    started = time.perf_counter()
    for _ in range(_NUM_RUNS):
        network.run(picture)
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
