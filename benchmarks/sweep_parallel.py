"""Two trainings of a sweep side by side against one after the other, in wall-clock time.

    python benchmarks/sweep_parallel.py [--pairs 3] [--epochs 6]

One after the other, each training may use all cores; side by side, each has its own half. The two
arms alternate; the ratio of the medians is printed, with the load of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from posemill.machine.limits import count_cores
from posemill.training.launch.sweep import read_sweep
from posemill.training.launch.sweep_runner import run_sweep

CONFIG = """
data = "{folder}/data"
labels = "{folder}/data/labels.csv"
model = "tcn_bilstm"
model_options = {{ width = 192 }}
epochs = {epochs}
batch_size = 32
eval_every = {epochs}
save_every = {epochs}
figures = false
tensorboard = false
cache_folder = "{folder}/cache"
"""


def write_data(folder: Path) -> None:
    """Write 512 made-up clips of 60 frames in 8 classes."""
    rng = np.random.default_rng(0)
    (folder / "data").mkdir()
    points = rng.random((512 * 60, 143, 3), np.float32)
    ids = np.repeat([f"clip{index:03d}" for index in range(512)], 60)
    np.savez(folder / "data" / "train_keypoints.npz", keypoints=points, video_ids=ids)
    rows = "".join(f"clip{index:03d},{index % 8}\n" for index in range(512))
    (folder / "data" / "labels.csv").write_text("video_id,label\n" + rows)


def measure(folder: Path, num_jobs: int) -> float:
    """Return the seconds of the whole sweep with so many jobs side by side."""
    sweep = read_sweep(folder / "sweep.toml")
    start = time.perf_counter()
    failures = run_sweep(sweep, num_jobs=num_jobs)
    seconds = time.perf_counter() - start
    if failures:
        raise SystemExit(f"a training failed: {failures}")
    shutil.rmtree(sweep.out)
    return seconds


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=6)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder)
        (folder / "base.toml").write_text(CONFIG.format(folder=folder, epochs=chosen.epochs))
        (folder / "sweep.toml").write_text(
            f'config = "base.toml"\nout = "{folder}/out"\n[grid]\nseed = [1, 2]\n'
        )
        measure(folder, 1)  # fills the cache of the data for both arms
        times: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(chosen.pairs):
            for num_jobs, seconds in times.items():
                seconds.append(measure(folder, num_jobs))
    one, two = (statistics.median(times[num_jobs]) for num_jobs in (1, 2))
    print(
        json.dumps(
            {
                "one_after_the_other_seconds": times[1],
                "side_by_side_seconds": times[2],
                "ratio": round(two / one, 3),
                "target": 0.6,
                "cores": count_cores(),
                "load_average": os.getloadavg()[0],
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
