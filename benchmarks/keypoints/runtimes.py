"""The six networks on LiteRT, ONNX Runtime and OpenVINO: CPU time of one call, in turns.

    python -m benchmarks.keypoints.runtimes [--rounds 40] [--json]

ONNX Runtime runs our converted graphs; LiteRT and OpenVINO the published TFLite files, all without
the segmentation and in float32. One thread each. The calls are added up as a frame in image mode
and in video mode makes them, with both hands and a face: milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.shared.measuring import Measured, in_turns, make_parser, over_rounds, report, say
from posemill.estimators.runtimes import RUNTIMES, open_network
from posemill.weights.networks import NETWORKS, NetworkSpec

CALLS = {"image": {"pose_detection": 1}, "video": {}}
for calls in CALLS.values():
    calls |= {"pose_landmark_full": 1, "hand_recrop": 2, "hand_landmark_full": 2}
    calls |= {"face_detection_short_range": 1, "face_landmark": 1}


def measure(spec: NetworkSpec, rounds: int) -> dict[str, float]:
    """Return the median milliseconds of CPU time of each runtime."""
    networks = {
        runtime: open_network(spec.model, runtime=runtime, device="cpu", threads=1)
        for runtime in RUNTIMES
    }
    size = networks["onnxruntime"].size
    pixels = np.random.default_rng(0).integers(0, 256, (1, size, size, 3), np.uint8)
    calls: dict[str, Callable[[], Any]] = {
        name: partial(network.run, pixels) for name, network in networks.items()
    }
    taken = in_turns(calls, rounds, warm_up=3)
    return {name: 1000 * over_rounds(values).value for name, values in taken.items()}


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    names = dict.fromkeys(name for calls in CALLS.values() for name in calls)
    rows = {name: measure(NETWORKS[name], options.rounds) for name in names}
    for name, row in rows.items():
        say(f"{name:28s}" + "".join(f"  {key} {value:6.2f} ms" for key, value in row.items()))
    found = {}
    for mode, calls in CALLS.items():
        for runtime in rows["hand_recrop"]:
            total = sum(count * rows[name][runtime] for name, count in calls.items())
            found[f"{mode}_{runtime}_ms"] = Measured(total)
    report(found, as_json=options.json)


if __name__ == "__main__":
    main()
