"""How fast and in how much memory `posemill prepare` makes the model's input.

    python benchmarks/prepare.py --frames 1000000 --layout 143 --folder /somewhere/large

Makes a run (once), prepares it in a process of its own, whose peak memory is measured, and writes
the same arrays with numpy (savez, flushed to the disk like ours) in another. The target: at most
1.5 GB of memory, at least a third of numpy's speed.

A virtual machine may have to ask its host for memory it has not used for a while, which makes the
first write to it several times slower. So before each arm a third process touches as much memory
as the arms need, and leaves.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from posemill.records import PoseClip
from posemill.skeletons import get_skeleton
from posemill.stores.manifest import MANIFEST_NAME, Manifest
from posemill.stores.writer import RunWriter

CLIP_FRAMES = 112  # the median of PHOENIX-2014-T


def make_run(folder: Path, num_frames: int, skeleton_name: str) -> None:
    """Write a run of smooth random walks, a fifth of the hands missing."""
    skeleton = get_skeleton(skeleton_name)
    rng = np.random.default_rng(0)
    with RunWriter(folder, Manifest(skeleton_name, kind="benchmark")) as writer:
        for number in range(max(num_frames // CLIP_FRAMES, 1)):
            steps = rng.normal(0, 0.005, (CLIP_FRAMES, skeleton.num_points, 3))
            points = (0.5 + steps.cumsum(axis=0)).astype(np.float32)
            for part in skeleton.parts:
                if "hand" in part.name:
                    points[rng.random(CLIP_FRAMES) < 0.2, part.start : part.stop] = np.nan
            scores = np.where(np.isnan(points[..., 0]), 0, 0.9).astype(np.float32)
            name = f"2011/clip_{number:06d}"
            paths = tuple(f"{name}/images{i + 1:04d}.png" for i in range(CLIP_FRAMES))
            sizes = np.full((CLIP_FRAMES, 2), (210, 260), np.int32)
            writer.add(PoseClip(points, scores, sizes, skeleton_name, name, "train",
                                image_paths=paths, label="A B C", fps=25.0))  # fmt: skip


def run_prepare(run: Path, out: Path) -> None:
    """Prepare, and print seconds and peak memory."""
    from posemill.clips.inputs import ClipInput
    from posemill.jobs.convert.prepare import prepare

    started, cpu = time.perf_counter(), time.process_time()
    (made,) = prepare(ClipInput(run), out)
    _report(started, cpu, made.path.stat().st_size)


def run_read(run: Path) -> None:
    """Only read what is prepared of the run, to tell its share of the time."""
    from posemill.clips.inputs import ClipInput

    started, cpu = time.perf_counter(), time.process_time()
    source = ClipInput(run)
    for _ in source.blocks(source.plan_splits(), layout="holistic-143"):
        pass
    _report(started, cpu, 0)


def run_numpy(source: Path, out: Path) -> None:
    """Write the arrays of a prepared file with numpy.savez, from memory, and flush."""
    with np.load(source) as data:
        arrays = {name: data[name] for name in data.files}
    started, cpu = time.perf_counter(), time.process_time()
    with out.open("wb") as handle:
        np.savez(handle, **arrays)  # type: ignore[arg-type]
        handle.flush()
        os.fsync(handle.fileno())
    _report(started, cpu, out.stat().st_size)


def touch_memory(num_bytes: int) -> None:
    """Write to every page of so much memory."""
    started, cpu = time.perf_counter(), time.process_time()
    np.empty(num_bytes, np.uint8)[::4096] = 1
    _report(started, cpu, num_bytes)


def _report(started: float, cpu: float, num_bytes: int) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": time.perf_counter() - started,
                      "cpu_seconds": time.process_time() - cpu, "peak_mb": peak,
                      "num_bytes": num_bytes}))  # fmt: skip


def measure(*arguments: object) -> dict[str, float]:
    """Return what this script says when run with these arguments in a process of its own."""
    command = [sys.executable, __file__, *map(str, arguments)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    measured: dict[str, float] = json.loads(result.stdout)
    return measured


def main() -> None:
    """Measure, alternating the arms, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=20_000)
    parser.add_argument("--layout", default="543", help="the layout of the run: 543 or 143")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/posemill_prepare"))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    run = options.folder / f"run_{options.layout}_{options.frames}"
    if not (run / MANIFEST_NAME).is_file():
        make_run(run, options.frames, f"holistic-{options.layout}")
    out, plain = options.folder / "out", options.folder / "plain.npz"
    ours, numpys, reads = [], [], []
    needed = options.frames * 8000  # numpy's arm: the arrays once in memory, once in the file
    for _ in range(options.repeat):
        measure("touch", needed)
        ours.append(measure("prepare", run, out))
        measure("touch", needed)
        numpys.append(measure("numpy", out / "train_keypoints.npz", plain))
        reads.append(measure("read", run))

    def median(values: list[dict[str, float]], key: str) -> float:
        return round(float(np.median([each[key] for each in values])), 3)

    seconds, numpy_seconds = median(ours, "seconds"), median(numpys, "seconds")
    print(json.dumps({
        "frames": options.frames, "layout": options.layout,
        "megabytes": round(ours[0]["num_bytes"] / 1e6),
        "prepare_seconds": seconds, "prepare_cpu_seconds": median(ours, "cpu_seconds"),
        "prepare_peak_mb": max(each["peak_mb"] for each in ours),
        "of_which_reading_the_run_seconds": median(reads, "seconds"),
        "numpy_seconds": numpy_seconds, "numpy_cpu_seconds": median(numpys, "cpu_seconds"),
        "speed_relative_to_numpy": round(numpy_seconds / seconds, 3),
        "of_each_round": [round(theirs["seconds"] / each["seconds"], 3)
                          for each, theirs in zip(ours, numpys, strict=True)],
    }, indent=2))  # fmt: skip
    if not options.keep:
        shutil.rmtree(options.folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["prepare"]:
        run_prepare(Path(sys.argv[2]), Path(sys.argv[3]))
    elif sys.argv[1:2] == ["numpy"]:
        run_numpy(Path(sys.argv[2]), Path(sys.argv[3]))
    elif sys.argv[1:2] == ["touch"]:
        touch_memory(int(sys.argv[2]))
    elif sys.argv[1:2] == ["read"]:
        run_read(Path(sys.argv[2]))
    else:
        main()
