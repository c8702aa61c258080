"""The six networks on LiteRT, ONNX Runtime and OpenVINO: CPU time of one call, in turns.

    pip install openvino==2026.4.1 && python benchmarks/runtimes.py [--rounds 40] [--json]

ONNX Runtime runs our converted graphs; LiteRT and OpenVINO the published TFLite files, all without
the segmentation and in float32. One thread each. The last rows add the calls up as a frame in image
mode and in video mode makes them, with both hands and a face.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from openvino_network import OpenVinoNetwork

from posemill.estimators.runtime import open_network
from posemill.weights.networks import NETWORKS, NetworkSpec

CALLS = {"image": {"pose_detection": 1}, "video": {}}
for calls in CALLS.values():
    calls |= {"pose_landmark_full": 1, "hand_recrop": 2, "hand_landmark_full": 2}
    calls |= {"face_detection_short_range": 1, "face_landmark": 1}


def measure(spec: NetworkSpec, rounds: int) -> dict[str, float]:
    """Return the median milliseconds of CPU time of each runtime."""
    networks = {
        runtime: open_network(spec.model, runtime=runtime, device="cpu", threads=1)
        for runtime in ("litert", "onnxruntime")
    }
    size = networks["onnxruntime"].size
    pixels = np.random.default_rng(0).integers(0, 256, (1, size, size, 3), np.uint8)
    with_openvino, values = OpenVinoNetwork(spec.model), pixels.astype(np.float32) / 255
    calls: dict[str, Callable[[], Any]] = {
        "litert": lambda: networks["litert"].run(pixels),
        "onnxruntime": lambda: networks["onnxruntime"].run(pixels),
        "openvino": lambda: with_openvino.infer(values),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 3):
        for name, call in calls.items():
            start = time.process_time()
            call()
            times[name].append(time.process_time() - start)
    return {name: 1000 * statistics.median(values[3:]) for name, values in times.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = {name: measure(spec, options.rounds) for name, spec in NETWORKS.items()}
    for mode, calls in CALLS.items():
        rows[f"a frame, {mode}"] = {
            runtime: sum(count * rows[name][runtime] for name, count in calls.items())
            for runtime in rows["hand_recrop"]
        }
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    for name, row in rows.items():
        print(f"{name:28s}" + "".join(f"  {key} {value:6.2f} ms" for key, value in row.items()))


if __name__ == "__main__":
    main()
