"""What `posemill tune` gains over the settings as they were, on keypoints and on videos.

    python -m benchmarks.training.tune [--data FOLDER] [--seconds 90] [--rounds 3] [--json]

Tunes `examples/signs48.toml` and `examples/gestures5_tsm.toml` on this machine (data below
../shared/datasets; the latter also on the larger videos of sign_videos6), then lets the settings
before and after take turns once more, each in windows of some seconds on the same clips, loader and
all; the wall clock. `keypoints`, `video` and `video_288` are samples a second after by those
before, `*_kept_maths` the same with `--keep-maths`. A tuning that keeps the settings is 1 by
definition and is not measured again.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import posemill
from benchmarks.shared.measuring import (
    Measured,
    in_turns,
    make_parser,
    not_here,
    ratio,
    report,
    say,
)
from posemill.training.config.resolve import resolve_config
from posemill.training.config.train_config import TrainConfig
from posemill.training.tasks.workload import build_workload
from posemill.training.tuning.arms import opened
from posemill.training.tuning.tune import as_it_would_run

DATA = Path(__file__).parents[3] / "shared" / "datasets"
EXAMPLES = Path(__file__).parents[2] / "examples"
ROWS = {
    "keypoints": ("signs48.toml", {"data": "signs48", "labels": "signs48/labels.csv"}),
    "video": ("gestures5_tsm.toml", {"data": "gestures5/labels.csv"}),
    "video_288": ("gestures5_tsm.toml", {"data": "sign_videos6/labels.csv"}),
}


def before_and_after(
    example: str, given: dict[str, Any], *, keep_maths: bool
) -> tuple[TrainConfig, TrainConfig, str]:
    """Return the settings as a training would run them, untuned and tuned, and what was found."""
    found = posemill.tune(EXAMPLES / example, keep_maths=keep_maths, **given)
    for row in found.rows:
        speed = "" if row.samples_per_second is None else f"{row.samples_per_second:.0f}"
        say(f"  {row.setting}: {speed} {row.note}")
    base, _ = as_it_would_run(resolve_config(EXAMPLES / example, given), build_workload)
    words = ", ".join(f"{name} {value}" for name, value in found.found.items())
    return base, base.replace(**found.found), words or "settings stay"


def compare(before: TrainConfig, after: TrainConfig, rounds: int) -> Measured:
    """Return samples a second after by those before, in turns."""
    if before == after:
        return Measured(1.0)
    if "multi_process" in (before.parallel, after.parallel):
        from posemill.training.tuning.arms import run_processes

        one = {"before": before, "after": after}
        taken: dict[str, list[float]] = {name: [] for name in one}
        for _ in range(rounds):
            for name, config in one.items():
                if config.parallel == "multi_process":
                    taken[name].append(run_processes(build_workload, config))
                else:
                    with opened(build_workload, [config]) as (arm,):
                        taken[name].append(arm.run(3.0))
        return ratio(taken["after"], taken["before"])
    with opened(build_workload, [before, after]) as (first, second):
        turns = {"before": lambda: first.run(3.0), "after": lambda: second.run(3.0)}
        taken = in_turns(turns, rounds, clock=None)
    return ratio(taken["after"], taken["before"])


def main() -> None:
    """Tune, compare and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=tuple(ROWS), nargs="*", default=tuple(ROWS))
    options = parser.parse_args()
    if not options.data.is_dir():
        not_here(f"no {options.data}: data kept outside of the project")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            example, paths = ROWS[name]
            given: dict[str, Any] = {key: str(options.data / each) for key, each in paths.items()}
            given |= {"tune_seconds": options.seconds, "progress": False}
            for keep_maths in (True, False):
                key = f"{name}_kept_maths" if keep_maths else name
                # Each tuning begins with nothing decoded.
                given["cache_folder"] = str(Path(folder) / key)
                say(f"tuning {example}{', maths kept' if keep_maths else ''}")
                before, after, words = before_and_after(example, given, keep_maths=keep_maths)
                found[key] = compare(before, after, options.rounds).noted(words)
    report(found, as_json=options.json)


if __name__ == "__main__":
    main()
