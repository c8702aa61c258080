"""The legacy solutions against stock MediaPipe 0.10.21: CPU time on the same frames, in turns.

    python -m benchmarks.keypoints.solutions_against_stock [--frames FOLDER] [--rounds 5] [--json]

The same script runs on both sides with another import; one process each, one thread of ours, CPU
time of the whole process. Prints stock's time over ours for each solution in image and video mode,
wanted at least 1.2, and how much of ours the networks take: LiteRT's kernels are stock's, so no
code around them makes that less. Without --frames, the demo's clip and the astronaut's picture in
turns. Stock lives in a side environment below `.bench/`, made at first use.
"""

from __future__ import annotations

import json
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.keypoints.against_stock import Worker, read_frames
from benchmarks.shared.measuring import Measured, in_turns, make_parser, over_rounds, ratio, report
from benchmarks.shared.stock_environment import stock_python

# module, class, modes, options
SOLUTIONS = {
    "hands": ("hands", "Hands", ("image", "video"), {}),
    "face_mesh": ("face_mesh", "FaceMesh", ("image", "video"), {}),
    "face_mesh_refined": ("face_mesh", "FaceMesh", ("image", "video"), {"refine_landmarks": True}),
    "pose": ("pose", "Pose", ("image", "video"), {}),
    "pose_mask": ("pose", "Pose", ("image", "video"),
                  {"enable_segmentation": True, "smooth_segmentation": False}),
    "face_detection": ("face_detection", "FaceDetection", ("image",), {}),
    "face_detection_far": ("face_detection", "FaceDetection", ("image",), {"model_selection": 1}),
    "selfie": ("selfie_segmentation", "SelfieSegmentation", ("image",), {}),
}  # fmt: skip
# A worker answers each line of input with the CPU seconds of one pass over the frames, or of the
# networks in it.
WORKER = """
import importlib, json, os, sys, time
os.environ["GLOG_minloglevel"] = "3"
import numpy as np
mp = importlib.import_module(sys.argv[1])
frames = np.load(sys.argv[2])
frames = [frames[name] for name in frames.files]
module, kind, mode, options = json.loads(sys.argv[3])
if module in ("hands", "face_mesh", "pose"):
    options["static_image_mode"] = mode == "image"
in_networks = 0.0
if "networks" in sys.argv:
    from ai_edge_litert.interpreter import Interpreter
    invoke = Interpreter.invoke
    def timed_invoke(self):
        global in_networks
        start = time.process_time()
        invoke(self)
        in_networks += time.process_time() - start
    Interpreter.invoke = timed_invoke
solution = getattr(getattr(mp.solutions, module), kind)(**options)
solution.process(frames[0])
for line in sys.stdin:
    solution.reset()
    in_networks = 0.0
    start = time.process_time()
    for frame in frames:
        solution.process(frame)
    taken = time.process_time() - start
    print(in_networks if "networks" in sys.argv else taken, flush=True)
"""


def compare(file: Path, name: str, mode: str, *, num_frames: int, rounds: int) -> Measured:
    """Return stock's CPU time over ours for one solution in one mode."""
    module, kind, _, options = SOLUTIONS[name]
    job = json.dumps([module, kind, mode, options])
    stock = Worker(stock_python(), WORKER, "mediapipe", file, job)
    ours = Worker(Path(sys.executable), WORKER, "posemill", file, job)
    networks = Worker(Path(sys.executable), WORKER, "posemill", file, job, "networks")
    workers = {"stock": stock, "ours": ours, "networks": networks}
    arms = {name: partial(worker.ask, "go") for name, worker in workers.items()}
    taken = in_turns(arms, rounds, clock=None)
    for worker in workers.values():
        worker.end()
    stock_ms, our_ms, network_ms = (
        1000 * over_rounds(values).value / num_frames for values in taken.values()
    )
    return ratio(taken["stock"], taken["ours"]).noted(
        f"{stock_ms:.1f} and {our_ms:.1f} ms a frame, {network_ms:.1f} of ours in networks"
    )


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--frames", type=Path, help="a folder of pictures")
    parser.add_argument("--most", type=int, default=48, help="how many frames")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=SOLUTIONS, help="one solution")
    options = parser.parse_args()
    frames = read_frames(options.frames, options.most)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "frames.npz"
        np.savez(file, *frames)
        for name in [options.only] if options.only else SOLUTIONS:
            for mode in SOLUTIONS[name][2]:
                found[f"{name} {mode}"] = compare(
                    file, name, mode, num_frames=len(frames), rounds=options.rounds
                )
    report(found, as_json=options.json)


if __name__ == "__main__":
    main()
