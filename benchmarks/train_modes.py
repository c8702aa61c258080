"""Samples a second of the modes of one training, and whether `auto` picks well.

    python benchmarks/train_modes.py [--rounds 3] [--steps 60] [--quick] [--json out.json]

The same transformer (d = 256, 4 layers, clips of 64 frames) is trained by `posemill.train` in each
mode, the modes taking turns; wall-clock samples a second of the training itself (start-up of the
processes is not counted, and said). Needs a quiet machine: the load is printed.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

# Before torch is loaded, as the command line does: waiting threads sleep instead of spinning.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np

import posemill
from posemill.machine.limits import count_cores

MODES = ("single", "multi_thread", "multi_process", "auto")
MODEL = {"width": 256, "num_layers": 4, "num_heads": 4, "stride": 1, "dropout": 0.0}


def write_clips(folder: Path, count: int) -> None:
    """Write clips of 64 frames and 143 points with ten labels."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(count, 64, 143, 3)).astype(np.float32)
    labels = rng.integers(0, 10, count)
    points += labels[:, None, None, None] * 0.1
    ids = np.repeat([f"c{index:05d}" for index in range(count)], 64)
    np.savez(folder / "train_keypoints.npz", keypoints=points.reshape(-1, 143, 3), video_ids=ids)
    rows = [("video_id", "label"), *((f"c{i:05d}", f"k{k}") for i, k in enumerate(labels))]
    with (folder / "labels.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows(rows)


def run_mode(folder: Path, mode: str, number: int, steps: int) -> dict[str, Any]:
    """Train once and return the summary, with the whole time from call to return."""
    started = time.perf_counter()
    result = posemill.train(
        {
            "data": str(folder / "train_keypoints.npz"),
            "labels": str(folder / "labels.csv"),
            "model": "transformer",
            "model_options": MODEL,
            "normalize": "none",
            "batch_size": 32,
            "epochs": 1000,
            "max_steps": steps,
            "eval_every": 1000,
            "save_every": 1000,
            "log_every": 5,
            "mode": mode,
            "precision": "fp32",
            "preset": "high-performance",
            "cache_folder": str(folder / "cache"),
            "tensorboard": False,
            "figures": False,
            "progress": False,
            "out": str(folder / f"{mode}{number}"),
        }
    )
    return {**result.summary, "whole_seconds": time.perf_counter() - started}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--quick", action="store_true", help="1 round of 6 steps: does it run?")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rounds, steps = (1, 6) if options.quick else (options.rounds, options.steps)
    found: dict[str, list[dict[str, Any]]] = {mode: [] for mode in MODES}
    print(f"{count_cores()} cores, load {os.getloadavg()[0]:.2f}")
    with tempfile.TemporaryDirectory() as scratch:
        write_clips(Path(scratch), 256)
        for number in range(rounds):
            for mode in MODES[number % len(MODES) :] + MODES[: number % len(MODES)]:
                found[mode].append(run_mode(Path(scratch), mode, number, steps))
    speeds = {
        mode: statistics.median(entry["samples_per_second"] for entry in entries)
        for mode, entries in found.items()
    }
    for mode, entries in found.items():
        last = entries[-1]
        each = ", ".join(f"{entry['samples_per_second']:.1f}" for entry in entries)
        whole = statistics.median(entry["whole_seconds"] for entry in entries)
        print(f"{mode:<14} {speeds[mode]:7.1f} samples/s ({each}), {last['processes']} x "
              f"{last['threads']} threads, whole call {whole:.1f} s")  # fmt: skip
    chosen = [entry["mode"] for entry in found["auto"]]
    print(f"auto chose {', '.join(chosen)}: {found['auto'][-1]['mode_reason']}")
    ratio = speeds["multi_process"] / speeds["single"]
    best = max(speeds[mode] for mode in MODES[:3])
    print(f"multi_process against single: {ratio:.2f} x (goal 1.6 on two cores)")
    print(f"auto against the best mode: {speeds['auto'] / best:.2f} (goal 0.90)")
    print(f"load at the end {os.getloadavg()[0]:.2f}")
    if options.json:
        options.json.write_text(json.dumps({"speeds": speeds, "chosen": chosen}, indent=1))


if __name__ == "__main__":
    main()
