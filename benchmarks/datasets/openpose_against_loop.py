"""`posemill extract --engine openpose` against the loop it replaces, same weights, same pictures.

    python -m benchmarks.datasets.openpose_against_loop [--data FOLDER] [--runtimes openvino]

1. The usual script: a process pool over picture files; every call builds the detector for its
   picture, runs mobilenet_thin (OpenCV) at height 368, and decodes as the scripts do that go with
   OpenPose's weights: maps brought to the picture's size, each smoothed by scipy, candidates and
   limbs in Python loops. Writes a txt per picture.
2. `posemill extract` and `export --to txt`, start of the workers, ledger and shards included.
3. The same on ONNX Runtime and on OpenVINO (`--engine-option runtime=NAME`; OpenVINO is what the
   engine takes by itself where it is installed).

Prints pictures per second of wall time as a ratio (wanted: at least 4), and CPU time likewise; and
how much of the loop's time is the network itself, which is the same in both.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

import cv2

import posemill
from benchmarks.datasets.extract_against_common import measure, run
from benchmarks.shared.measuring import (
    Measured,
    in_turns,
    make_parser,
    over_rounds,
    ratio,
    report,
    run_alone,
)
from benchmarks.shared.stock_environment import stock_python
from posemill.decoders import open_video
from posemill.machine.limits import count_cores
from posemill.weights.pull import ensure_media, ensure_model

LOOP = Path(__file__).with_name("openpose_loop.py")
_SIZE_WH = (640, 480)
RUNTIMES = ("opencv", "onnxruntime", "openvino")


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, help="a folder of pictures; default: a published clip")
    parser.add_argument("--pictures", type=int, default=48)
    parser.add_argument("--workers", type=int, default=count_cores())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runtimes", nargs="+", choices=RUNTIMES, default=RUNTIMES)
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="posemill-loop-"))
    try:
        pictures = scratch / "pictures"
        pictures.mkdir()
        if options.data is None:
            take_frames(pictures, options.pictures)
        else:
            for path in sorted(options.data.iterdir())[: options.pictures]:
                shutil.copy(path, pictures / path.name)
        report(compare(scratch, pictures, options), as_json=options.json)
    finally:
        shutil.rmtree(scratch)


def take_frames(folder: Path, number: int) -> None:
    """Write frames of a person who jumps, in the size of a usual photograph."""
    with open_video(ensure_media("jumper")) as video:
        for index, frame in zip(range(number), video, strict=False):
            small = cv2.resize(frame, _SIZE_WH, interpolation=cv2.INTER_AREA)
            assert cv2.imwrite(str(folder / f"{index:04d}.jpg"), small[..., ::-1])


def compare(scratch: Path, pictures: Path, options: argparse.Namespace) -> dict[str, Measured]:
    """Return the ratios of each round, by wall time and by CPU time."""
    graph, workers = str(ensure_model("mobilenet_thin")), str(options.workers)
    number = len(list(pictures.iterdir()))

    theirs = str(stock_python())  # it has scipy

    def run_loop() -> int:
        run([theirs, str(LOOP), graph, workers, str(pictures), str(scratch / "theirs")])
        return number

    def run_posemill(runtime: str) -> int:
        for name in ("run", "ours"):
            shutil.rmtree(scratch / name, ignore_errors=True)
        command = [sys.executable, "-m", "posemill"]
        run([*command, "extract", str(pictures), "--engine", "openpose", "--workers", workers,
             "--engine-option", f"runtime={runtime}", "--out", str(scratch / "run")])  # fmt: skip
        run([*command, "export", str(scratch / "run"), "--to", "txt",
             "--out", str(scratch / "ours")])  # fmt: skip
        assert len(list((scratch / "ours").rglob("*.txt"))) == number
        return number

    # As pip does when it installs: else each process would compile our modules anew.
    run([sys.executable, "-m", "compileall", "-q", str(Path(posemill.__file__).parent)])
    arms = {"loop": partial(measure, run_loop)}
    for runtime in options.runtimes:
        arms[runtime] = partial(measure, partial(run_posemill, runtime))
    measured = in_turns(arms, options.rounds, clock=None, warm_up=0)
    speeds = {name: [speed for speed, _ in values] for name, values in measured.items()}
    cpu = {name: [seconds for _, seconds in values] for name, values in measured.items()}
    loop = over_rounds(speeds["loop"]).value
    alone = run_alone([theirs, LOOP, graph, "0", pictures, scratch / "theirs"])
    figures: dict[str, Measured] = {}
    for name in options.runtimes:
        suffix = "" if name == "opencv" else f"_{name}"
        ours = over_rounds(speeds[name]).value
        figures[f"wall{suffix}"] = ratio(speeds[name], speeds["loop"]).noted(
            f"{ours:.2f} and {loop:.2f} pictures/s"
        )
        figures[f"cpu{suffix}"] = ratio(cpu["loop"], cpu[name])
    figures["network_share"] = Measured(json.loads(alone.stdout)["network_share"])
    return figures


if __name__ == "__main__":
    main()
