"""Samples a second of the modes of one training, and whether `auto` picks well.

    python -m benchmarks.training.train_modes [--rounds 3] [--steps 60] [--json]

The same transformer (d = 256, 4 layers, clips of 64 frames) is trained by `posemill.train` in each
mode, the modes taking turns; wall-clock samples a second of the training itself (start-up of the
processes is not counted, and said). Needs a quiet machine.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

# Before torch is loaded, as the command line does: waiting threads sleep instead of spinning.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import posemill
from benchmarks.shared.made_up import write_clips
from benchmarks.shared.measuring import in_turns, make_parser, over_rounds, ratio, report, say

MODES = ("single", "multi_thread", "multi_process", "auto")
MODEL = {"width": 256, "num_layers": 4, "num_heads": 4, "stride": 1, "dropout": 0.0}


def run_mode(folder: Path, mode: str, numbers: Iterator[int], steps: int) -> dict[str, Any]:
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
            "out": str(folder / f"{mode}{next(numbers)}"),
        }
    )
    return {**result.summary, "whole_seconds": time.perf_counter() - started}


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    numbers = count()
    with tempfile.TemporaryDirectory() as scratch:
        write_clips(Path(scratch), [64] * 256, 10)
        arms = {
            mode: partial(run_mode, Path(scratch), mode, numbers, options.steps) for mode in MODES
        }
        summaries = in_turns(arms, options.rounds, clock=None, warm_up=0)
    speeds = {mode: [entry["samples_per_second"] for entry in entries]
              for mode, entries in summaries.items()}  # fmt: skip
    for mode, entries in summaries.items():
        whole = over_rounds(entry["whole_seconds"] for entry in entries).value
        say(f"{mode:<14} {over_rounds(speeds[mode]).value:7.1f} samples/s, "
            f"{entries[-1]['processes']} x {entries[-1]['threads']} threads, "
            f"whole call {whole:.1f} s")  # fmt: skip
    middles = {mode: over_rounds(values).value for mode, values in speeds.items()}
    best = max(MODES[:3], key=lambda mode: middles[mode])
    last = summaries["auto"][-1]
    found = {
        "processes_of_one": ratio(speeds["multi_process"], speeds["single"]).noted(
            f"{middles['multi_process']:.1f} and {middles['single']:.1f} samples/s"
        ),
        "auto_of_best": ratio(speeds["auto"], speeds[best]).noted(
            f"best: {best}; auto chose {last['mode']}: {last['mode_reason']}"
        ),
    }
    report(found, as_json=options.json)


if __name__ == "__main__":
    main()
