"""Time and memory of `posemill view` and `posemill report` on a run made up for it.

    python benchmarks/looking.py --frames 1000000

Each command runs in a process of its own; CPU seconds and the peak of its memory are printed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from posemill.records import PoseClip
from posemill.skeletons import get_skeleton
from posemill.stores.manifest import Manifest
from posemill.stores.writer import RunWriter

FRAMES_PER_CLIP = 100


def write_run(folder: Path, num_frames: int, skeleton_name: str) -> None:
    """Write a run of points that walk at random, with gaps."""
    rng = np.random.default_rng(0)
    skeleton = get_skeleton(skeleton_name)
    sizes = np.full((FRAMES_PER_CLIP, 2), (320, 240), np.int32)
    with RunWriter(folder, Manifest(skeleton_name, kind="benchmark")) as writer:
        for number in range(-(-num_frames // FRAMES_PER_CLIP)):
            start = rng.uniform(0.2, 0.8, (1, skeleton.num_points, 3))
            steps = rng.normal(0, 0.002, (FRAMES_PER_CLIP, skeleton.num_points, 3))
            points = (start + np.cumsum(steps, 0)).astype(np.float32)
            for part in skeleton.parts[1:]:
                gap = slice(*sorted(rng.integers(0, FRAMES_PER_CLIP, 2)))
                points[gap, part.start : part.stop] = np.nan
            scores = np.isfinite(points[..., 0]).astype(np.float32)
            split = ("train", "dev", "test")[number % 3]
            clip_id = f"clip{number:07d}"
            writer.add(PoseClip(points, scores, sizes, skeleton_name, clip_id, split))


def run_alone(*arguments: str) -> tuple[float, float]:
    """Return CPU seconds and peak memory in MB of `posemill` with these arguments."""
    command = [sys.executable, "-m", "posemill", *arguments]
    out = os.open(os.devnull, os.O_WRONLY)
    process = os.posix_spawn(
        sys.executable, command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, out, 1),
                                                           (os.POSIX_SPAWN_DUP2, out, 2)]
    )  # fmt: skip
    _, status, usage = os.wait4(process, 0)
    os.close(out)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with status {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Make the run, measure the commands, print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--skeleton", default="holistic-143")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        run, report = Path(name) / "run", Path(name) / "report.html"
        started = time.perf_counter()
        write_run(run, options.frames, options.skeleton)
        print(f"made {options.frames:,} frames in {time.perf_counter() - started:.0f} s")
        for arguments in (("view", str(run)), ("report", str(run), "--out", str(report))):
            seconds, megabytes = run_alone(*arguments)
            rate = options.frames / seconds
            print(
                f"{arguments[0]:7} {seconds:7.1f} CPU s {rate:10,.0f} frames/s {megabytes:6.0f} MB"
            )
        print(f"report.html: {report.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
