"""Instructions of a frame outside of the networks: crops, arithmetic, smoothing.

    python -m benchmarks.keypoints.outside_networks [--frames 6] [--json]

The networks' share of the time (`against_stock`) moves with the machine; this does not. The
networks' answers are recorded first and played back under callgrind, where running them would take
an hour. In millions; half of the frames are the demo's clip, half the astronaut's picture.
"""

from __future__ import annotations

import json
import pickle
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from benchmarks.keypoints.against_stock import read_frames
from benchmarks.shared.instructions import Counter, count_here
from benchmarks.shared.measuring import Measured, make_parser, report
from posemill.estimators.holistic import HolisticEstimator
from posemill.estimators.runtimes import RUNTIMES

MODES = ("image", "video")
ANSWERS: dict[str, list[list[np.ndarray]]] = {}
SIZES: dict[str, int] = {}


class RecordingNetwork:
    """LiteRT, whose answers are kept in `ANSWERS`."""

    runs_batches = False

    def __init__(self, name: str, *, device: str, threads: int) -> None:
        from posemill.estimators.runtimes.litert_network import LiteRTNetwork

        self.name, self._network = name, LiteRTNetwork(name, device=device, threads=threads)
        self.size = SIZES[name] = self._network.size

    def run(self, pixels: np.ndarray) -> list[np.ndarray]:
        """Return what the network says, and remember it."""
        answer = [np.array(each) for each in self._network.run(pixels)]
        ANSWERS.setdefault(self.name, []).append(answer)
        return answer


class PlayingNetwork:
    """The next of the answers of `ANSWERS`, whatever it is asked."""

    runs_batches = False

    def __init__(self, name: str, *, device: str, threads: int) -> None:
        self.name, self.size = name, SIZES[name]

    def run(self, pixels: np.ndarray) -> list[np.ndarray]:
        """Return the next answer."""
        return ANSWERS[self.name].pop(0)


def run_pass(engine: HolisticEstimator, frames: list[np.ndarray], mode: str) -> None:
    """Estimate every frame, one by one."""
    state = engine.new_state()
    for frame in frames:
        engine.estimate([frame], [state] if mode == "video" else None)


def open_engine(kind: type[Any]) -> HolisticEstimator:
    """Return the engine on networks of this kind."""
    cv2.setNumThreads(1)
    RUNTIMES["litert"] = f"{kind.__module__}:{kind.__qualname__}"
    return HolisticEstimator(device="cpu", threads=1, runtime="litert")


def record(frames: list[np.ndarray], file: Path) -> None:
    """Write the frames and the answers of the networks to them, by mode."""
    engine = open_engine(RecordingNetwork)
    recorded = {}
    for mode in MODES:
        ANSWERS.clear()
        run_pass(engine, frames, mode)
        recorded[mode] = dict(ANSWERS)
    file.write_bytes(pickle.dumps((frames, recorded, SIZES)))


def count(file: Path, folder: Path) -> None:
    """Print the instructions of each mode; under callgrind."""
    counter = Counter(folder)
    frames, recorded, sizes = pickle.loads(file.read_bytes())
    SIZES.update(sizes)
    engine = open_engine(PlayingNetwork)
    counts = {}
    for mode in MODES:
        for _ in range(2):  # the first one warms up
            ANSWERS.update({name: list(answers) for name, answers in recorded[mode].items()})
            counts[mode] = counter.count(partial(run_pass, engine, frames, mode))
            assert not any(ANSWERS.values()), "not all answers were asked for"
    print(json.dumps(counts))


def main() -> None:
    """Record, count in a new process, print."""
    if sys.argv[1:2] == ["count"]:
        # Not as __main__: the engine must find the classes of this very module.
        from benchmarks.keypoints import outside_networks

        outside_networks.count(Path(sys.argv[2]), Path(sys.argv[3]))
        return
    parser = make_parser(__doc__)
    parser.add_argument("--frames", type=int, default=6)
    options = parser.parse_args()
    from benchmarks.keypoints import outside_networks

    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "answers.pickle"
        outside_networks.record(read_frames(None, options.frames), file)
        counts = count_here(outside_networks.__name__, "count", str(file))
    found = {mode: Measured(counts[mode] / options.frames / 1e6) for mode in MODES}
    report(found, as_json=options.json)


if __name__ == "__main__":
    main()
