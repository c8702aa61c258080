"""How fast and in how much memory `posemill prepare` makes the model's input.

    python -m benchmarks.datasets.prepare --frames 1000000 --layout 143 [--folder LARGE] [--json]

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
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.shared.made_up import write_run
from benchmarks.shared.measuring import (
    Measured,
    in_turns,
    make_parser,
    over_rounds,
    ratio,
    report,
    run_alone,
)
from posemill.runs.manifest import MANIFEST_NAME


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
    for plans in source.plan_splits().values():
        for plan in plans:
            source.read_block(plan, layout="holistic-143")
    _report(started, cpu, 0)


def run_numpy(source: Path, out: Path) -> None:
    """Write the arrays of a prepared file with numpy.savez, from memory, and flush."""
    with np.load(source) as data:
        arrays = {name: data[name] for name in data.files}
    started, cpu = time.perf_counter(), time.process_time()
    with out.open("wb") as handle:
        np.savez(handle, **arrays)
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
    used = run_alone([sys.executable, "-m", "benchmarks.datasets.prepare", *map(str, arguments)])
    measured: dict[str, float] = json.loads(used.stdout)
    return measured


def main() -> None:
    """Measure, the arms in turns, and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--layout", default="543", help="the layout of the run: 543 or 143")
    parser.add_argument("--folder", type=Path, help="kept between runs; default: a temporary one")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.folder:
        found = compare(options.folder, options)
    else:
        with tempfile.TemporaryDirectory(prefix="posemill-prepare-") as name:
            found = compare(Path(name), options)
    report(found, as_json=options.json)


def compare(folder: Path, options: argparse.Namespace) -> dict[str, Measured]:
    """Return speed relative to numpy, by the clock and by CPU time, and the memory."""
    run = folder / f"run_{options.layout}_{options.frames}"
    if not (run / MANIFEST_NAME).is_file():
        write_run(run, options.frames, f"holistic-{options.layout}")
    out, plain = folder / "out", folder / "plain.npz"
    needed = options.frames * 8000  # numpy's arm: the arrays once in memory, once in the file

    def prepared() -> dict[str, float]:
        measure("touch", needed)
        return measure("prepare", run, out)

    def written() -> dict[str, float]:
        measure("touch", needed)
        return measure("numpy", out / "train_keypoints.npz", plain)

    prepared()  # numpy's arm needs its file
    arms = {"prepare": prepared, "numpy": written, "read": lambda: measure("read", run)}
    taken = in_turns(arms, options.rounds, clock=None, warm_up=0)
    seconds = {name: [each["seconds"] for each in values] for name, values in taken.items()}
    cpu = {name: [each["cpu_seconds"] for each in values] for name, values in taken.items()}
    middles = {name: over_rounds(values).value for name, values in seconds.items()}
    note = (f"{middles['prepare']:.2f} s, numpy {middles['numpy']:.2f} s; "
            f"reading alone {middles['read']:.2f} s")  # fmt: skip
    return {
        "speed_of_numpy": ratio(seconds["numpy"], seconds["prepare"]).noted(note),
        "speed_of_numpy_by_cpu": ratio(cpu["numpy"], cpu["prepare"]),
        "peak_mb": Measured(max(each["peak_mb"] for each in taken["prepare"])),
    }


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
