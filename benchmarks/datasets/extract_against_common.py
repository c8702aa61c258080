"""`posemill extract` against the ways it is commonly done, on the same videos, in one run.

    python -m benchmarks.datasets.extract_against_common [--videos FOLDER] [--rounds 3] [--json]

1. The usual script: a process pool over image files; every call builds a stock MediaPipe Holistic
   for its picture. On the frames of the videos, taken out beforehand (not measured).
2. pose-format's `videos_to_poses` with stock MediaPipe and the same number of workers.
3. `posemill extract`, decoding, writing and ledger included, start of the workers included.

Prints frames per second of wall time, CPU seconds per frame, and the ratios (wanted: at least 4x
and 1.2x). Stock MediaPipe 0.10.21 lives in a side environment below `.bench/`, made at first use.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import cv2

from benchmarks.shared.measuring import Measured, in_turns, make_parser, over_rounds, ratio, report
from benchmarks.shared.stock_environment import stock_python
from posemill.decoders import open_video
from posemill.machine.limits import count_cores
from posemill.weights.pull import ensure_media

COMMON_SCRIPT = """
import sys
from multiprocessing import Pool
import cv2
import mediapipe as mp

def keypoints_of(path):
    picture = cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB)
    with mp.solutions.holistic.Holistic(static_image_mode=True) as holistic:
        results = holistic.process(picture)
    return [
        [] if part is None else [(p.x, p.y, p.z) for p in part.landmark]
        for part in (results.pose_landmarks, results.face_landmarks,
                     results.left_hand_landmarks, results.right_hand_landmarks)
    ]

if __name__ == "__main__":
    paths = sys.stdin.read().split("\\n")
    with Pool(int(sys.argv[1])) as pool:
        print(len(pool.map(keypoints_of, paths)))
"""


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__)
    parser.add_argument("--videos", type=Path, help="a folder of .mp4; default: a published clip")
    parser.add_argument("--copies", type=int, default=16, help="of the published clip")
    parser.add_argument("--workers", type=int, default=count_cores())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pictures", type=int, default=60, help="for the usual script")
    options = parser.parse_args()
    stock = stock_python()
    scratch = Path(tempfile.mkdtemp(prefix="posemill-common-"))
    try:
        videos = scratch / "videos"
        videos.mkdir()
        if options.videos is None:
            for number in range(options.copies):
                shutil.copy(ensure_media("carphone"), videos / f"{number}.mp4")
        else:
            for path in sorted(options.videos.glob("*.mp4")):
                shutil.copy(path, videos / path.name)
        report(compare(scratch, videos, stock, options), as_json=options.json)
    finally:
        shutil.rmtree(scratch)


def compare(
    scratch: Path, videos: Path, stock: Path, options: argparse.Namespace
) -> dict[str, Measured]:
    """Return the ratios of each round, by wall time and by CPU time."""
    pictures, num_frames = take_frames(videos, scratch / "frames", options.pictures)
    workers = str(options.workers)
    script = scratch / "common.py"
    script.write_text(COMMON_SCRIPT)

    def run_common() -> int:
        run([str(stock), str(script), workers], "\n".join(pictures))
        return len(pictures)

    def run_pose_format() -> int:
        for pose in videos.glob("*.pose"):
            pose.unlink()
        program = stock.parent / "videos_to_poses"
        run([str(program), "--format", "mediapipe", "--directory", str(videos),
             "--num-workers", workers])  # fmt: skip
        assert len(list(videos.glob("*.pose"))) == len(list(videos.glob("*.mp4")))
        return num_frames

    def run_posemill() -> int:
        shutil.rmtree(scratch / "run", ignore_errors=True)
        run([sys.executable, "-m", "posemill", "extract", str(videos), "--layout", "videos",
             "--out", str(scratch / "run"), "--workers", workers])  # fmt: skip
        return num_frames

    programs = {"common": run_common, "pose_format": run_pose_format, "posemill": run_posemill}
    arms = {name: partial(measure, program) for name, program in programs.items()}
    measured = in_turns(arms, options.rounds, clock=None, warm_up=0)
    speeds = {name: [speed for speed, _ in values] for name, values in measured.items()}
    cpu = {name: [seconds for _, seconds in values] for name, values in measured.items()}
    found = {}
    for name in ("common", "pose_format"):
        theirs, ours = (over_rounds(speeds[each]).value for each in (name, "posemill"))
        note = f"{ours:.1f} and {theirs:.1f} frames/s"
        found[f"{name}_wall"] = ratio(speeds["posemill"], speeds[name]).noted(note)
        found[f"{name}_cpu"] = ratio(cpu[name], cpu["posemill"])
    return found


def take_frames(videos: Path, folder: Path, most: int) -> tuple[list[str], int]:
    """Write all frames as pictures; return some, evenly chosen, and how many there are."""
    paths, total = [], 0
    for video in sorted(videos.glob("*.mp4")):
        (folder / video.stem).mkdir(parents=True)
        with open_video(video) as reader:
            for index, frame in enumerate(reader):
                path = folder / video.stem / f"{index:05d}.png"
                assert cv2.imwrite(str(path), frame[..., ::-1])
                paths.append(str(path))
                total += 1
    return paths[:: max(1, len(paths) // most)][:most], total


def run(command: list[str], stdin: str = "") -> None:
    """Run a program to its end, quietly; its words are shown if it fails."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "GLOG_minloglevel": "3"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if "posemill" not in command:
        environment.pop("PYTHONPATH", None)
    result = subprocess.run(command, input=stdin, capture_output=True, text=True, env=environment)
    if result.returncode:
        raise SystemExit(f"{command} failed:\n{result.stdout}\n{result.stderr}")


def measure(program: Callable[[], int]) -> tuple[float, float]:
    """Return frames per second of wall time, and CPU seconds per frame, of all its processes."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    num_frames = program()
    wall = time.monotonic() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return num_frames / wall, cpu / num_frames


if __name__ == "__main__":
    main()
