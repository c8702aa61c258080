"""Two trainings of a sweep side by side against one after the other, in wall-clock time.

    python -m benchmarks.training.sweep_parallel [--rounds 3] [--epochs 6] [--json]

One after the other, each training may use all cores; side by side, each has its own half. The two
arms alternate.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from benchmarks.shared.made_up import write_clips
from benchmarks.shared.measuring import in_turns, make_parser, over_rounds, ratio, report
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
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=6)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_clips(folder / "data", [60] * 512, 8)
        (folder / "base.toml").write_text(CONFIG.format(folder=folder, epochs=chosen.epochs))
        (folder / "sweep.toml").write_text(
            f'config = "base.toml"\nout = "{folder}/out"\n[grid]\nseed = [1, 2]\n'
        )
        measure(folder, 1)  # fills the cache of the data for both arms
        arms = {"one": lambda: measure(folder, 1), "two": lambda: measure(folder, 2)}
        seconds = in_turns(arms, chosen.rounds, clock=None, warm_up=0)
    two, one = (over_rounds(seconds[name]).value for name in ("two", "one"))
    found = {"two_of_one": ratio(seconds["two"], seconds["one"]).noted(f"{two:.1f}, {one:.1f} s")}
    report(found, as_json=chosen.json)


if __name__ == "__main__":
    main()
