"""The engine against stock MediaPipe 0.10.21: CPU time on the same frames, in turns.

    python -m benchmarks.keypoints.against_stock [--frames FOLDER] [--rounds 7] [--json]

One process each, one thread each (stock runs its hand and face chains on threads of its own, so
CPU time of the whole process is counted). Prints the ratio for image mode (a stock object used
again and again, as scripts do) and video mode, wanted at least 1.15 and 1.25; the share of our time
spent inside the networks (wanted 0.90), and the peak memory of a process in video mode (wanted at
most 250 MB). The share is that of frames one by one, and of eight side by side: eight pictures in
one call, eight parts of the clip in lock-step. Without --frames, the demo's clip and the
astronaut's picture in turns. Stock lives in a side environment below `.bench/`, made at first use.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.shared.measuring import Measured, in_turns, make_parser, over_rounds, ratio, report
from benchmarks.shared.stock_environment import stock_python
from posemill.decoders import open_video
from posemill.decoders.pictures import read_picture
from posemill.weights.pull import ensure_media, pull_models

# A worker answers each line of input (a mode) with the CPU seconds of one pass over the frames.
STOCK_WORKER = """
import os, sys, time
os.environ["GLOG_minloglevel"] = "3"
import numpy as np
import mediapipe as mp
frames = np.load(sys.argv[1])
frames = [frames[name] for name in frames.files]
objects = {mode: mp.solutions.holistic.Holistic(static_image_mode=mode == "image")
           for mode in ("image", "video")}
for line in sys.stdin:
    holistic = objects[line.strip()]
    if line.strip() == "video":
        holistic.reset()
        holistic.process(frames[0])
    start = time.process_time()
    for frame in frames:
        holistic.process(frame)
    print(time.process_time() - start, flush=True)
"""
OUR_WORKER = """
import resource, sys, time
import numpy as np
from posemill.estimators.holistic import HolisticEstimator
from posemill.estimators.runtimes.litert_network import LiteRTNetwork
from posemill.estimators.runtimes.onnx_network import OnnxNetwork
frames = np.load(sys.argv[1])
frames = [frames[name] for name in frames.files]
engine = HolisticEstimator(device="cpu", threads=1, runtime=sys.argv[2])
kind = LiteRTNetwork if engine.runtime == "litert" else OnnxNetwork
inside, run = 0.0, kind.run
def timed(network, pixels):
    global inside
    start = time.process_time()
    outputs = run(network, pixels)
    inside += time.process_time() - start
    return outputs
for line in sys.stdin:
    mode, _, what = line.strip().partition(" ")
    if mode == "memory":
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, flush=True)
        continue
    kind.run = timed if what else run
    lanes = np.array_split(np.arange(len(frames)), int(what or 1))
    states = [engine.new_state() for _ in lanes] if mode == "video" else None
    engine.estimate([frames[lane[0]] for lane in lanes], states)
    inside, start = 0.0, time.process_time()
    for turn in range(min(map(len, lanes))):
        engine.estimate([frames[lane[turn]] for lane in lanes], states)
    total = time.process_time() - start
    print(inside / total if what else total, flush=True)
"""


class Worker:
    """A process that answers lines with numbers."""

    def __init__(self, python: Path, script: str, *arguments: str | Path) -> None:
        self._process = subprocess.Popen(
            [python, "-c", script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def ask(self, line: str) -> float:
        """Return the worker's answer to a line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit("a worker died; run its script by hand to see why")
        return float(answer)

    def end(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def read_frames(folder: Path | None, most: int) -> list[np.ndarray]:
    """Return RGB frames: a folder's pictures by name, or the demo's material."""
    if folder is not None:
        return [read_picture(path) for path in sorted(folder.iterdir())[:most]]
    with open_video(ensure_media("carphone")) as video:
        clip = [frame for _, frame in zip(range(most // 2), video, strict=False)]
    photo = read_picture(ensure_media("astronaut"))
    return clip + [np.roll(photo, 2 * step, axis=1) for step in range(most - len(clip))]


def compare(frames: list[np.ndarray], file: Path, options: argparse.Namespace
) -> dict[str, Measured]:  # fmt: skip
    """Return the ratio and the shares of each mode, and the memory."""
    fresh = Worker(Path(sys.executable), OUR_WORKER, file, options.runtime)
    fresh.ask("video")
    frames_mb = sum(frame.nbytes for frame in frames) / 1e6
    note = f"{frames_mb:.0f} MB of it frames"
    found = {"peak_mb": Measured(fresh.ask("memory"), note=note)}
    fresh.end()
    stock = Worker(stock_python(), STOCK_WORKER, file)
    ours = Worker(Path(sys.executable), OUR_WORKER, file, options.runtime)
    for mode in ("image", "video"):
        arms = {"stock": partial(stock.ask, mode), "ours": partial(ours.ask, mode)}
        taken = in_turns(arms, options.rounds, clock=None)
        stock_ms, our_ms = (
            1000 * over_rounds(values).value / len(frames) for values in taken.values()
        )
        note = f"{stock_ms:.1f} and {our_ms:.1f} ms a frame"
        found[f"{mode}_ratio"] = ratio(taken["stock"], taken["ours"]).noted(note)
        for lanes in (1, 8):
            shares = over_rounds(ours.ask(f"{mode} {lanes}") for _ in range(3))
            found[f"{mode}_share_by_{lanes}"] = shares
    stock.end()
    ours.end()
    return found


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--frames", type=Path)
    parser.add_argument("--most", type=int, default=60, help="frames at the most")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--runtime", default="auto", help="ours: litert, onnxruntime or auto")
    options = parser.parse_args()
    pull_models()
    frames = read_frames(options.frames, options.most)
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "frames.npz"
        np.savez(file, *frames)
        found = compare(frames, file, options)
    report(found, as_json=options.json)


if __name__ == "__main__":
    main()
