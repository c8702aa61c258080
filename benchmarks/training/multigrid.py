"""Whether Multigrid reaches the same dev accuracy in less time than a constant schedule.

    python -m benchmarks.training.multigrid --data DATA [--labels CSV] [--seeds 0 1 2]
        [--set epochs=16 batch_size=8 model=tsm …] [--grid epoch_factor=1.5 most_lr_factor=4]
        [--json]

Three trainings of each seed, in turns, in this process with one thread: the constant schedule,
Multigrid, and a constant schedule that is cut to Multigrid's steps. Each is scored once, with its
last weights, so that no arm picks its best moment. Time is CPU time of the whole training, loading
and the one evaluation included. `saved` is constant / Multigrid; it is the time to the same
accuracy where `accuracy_gain` is not below -0.02. Not in `make bench`: it measures data of yours.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.shared.measuring import Measured, make_parser, over_rounds, ratio, report, say
from posemill.training.config.resolve import resolve_config
from posemill.training.front import train

ARMS = ("constant", "multigrid", "matched")
QUIET = {
    "parallel": "single", "threads": 1, "workers": 0, "eval_every": 100_000, "save_every": 100_000,
    "figures": False, "tensorboard": False, "progress": False,
}  # fmt: skip


def read_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """Return `name=value` texts with numbers as numbers."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        try:
            number = float(value)
            found[name] = int(number) if number.is_integer() and "." not in value else number
        except ValueError:
            found[name] = {"true": True, "false": False}.get(value, value)
    return found


def run(settings: dict[str, Any]) -> tuple[float, int, float]:
    """Return (CPU seconds, steps, dev accuracy with the last weights) of one training."""
    with tempfile.TemporaryDirectory() as scratch:
        begun = time.process_time()
        result = train(**settings, out=str(Path(scratch) / "run"))
        return (
            time.process_time() - begun,
            result.summary["steps"],
            result.summary["best_scores"]["accuracy"],
        )


def measure(options: argparse.Namespace) -> dict[str, Measured]:
    """Return the rows."""
    usual = QUIET | {"data": options.data, "labels": options.labels} | read_settings(options.set)
    grid = {"multigrid": True, "multigrid_options": read_settings(options.grid)}
    epochs = resolve_config(None, usual).config.epochs
    seconds: dict[str, list[float]] = {arm: [] for arm in ARMS}
    scores: dict[str, list[float]] = {arm: [] for arm in ARMS}
    steps: dict[str, int] = {}
    for seed in options.seeds:
        for arm in ARMS:
            own = usual | {"seed": seed} | (grid if arm == "multigrid" else {})
            if arm == "matched":
                share = statistics.median(seconds["multigrid"]) / statistics.median(
                    seconds["constant"]
                )
                own["epochs"] = max(1, round(epochs * share))
            taken, steps[arm], score = run(own)
            seconds[arm].append(taken)
            scores[arm].append(score)
            say(f"seed {seed} {arm:10} {steps[arm]:6} steps {taken:7.1f} s  dev {score:.3f}")
    rows = {f"{arm}_accuracy": over_rounds(scores[arm]) for arm in ARMS}
    rows |= {f"{arm}_seconds": over_rounds(seconds[arm]) for arm in ARMS}
    middle = {arm: statistics.median(scores[arm]) for arm in ARMS}
    return {
        **rows,
        "fewer_steps": Measured(steps["constant"] / steps["multigrid"]),
        "saved": ratio(seconds["constant"], seconds["multigrid"]),
        "accuracy_gain": Measured(middle["multigrid"] - middle["constant"]),
        "gain_over_matched": Measured(middle["multigrid"] - middle["matched"]),
    }


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--data", required=True, help="as of posemill train")
    parser.add_argument("--labels", default="", help="likewise")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--grid", nargs="*", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    report(measure(options), as_json=options.json)


if __name__ == "__main__":
    main()
