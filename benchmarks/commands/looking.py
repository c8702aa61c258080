"""Time and memory of `posemill view`, `report` and `compare` on a run made up for it.

    python -m benchmarks.commands.looking [--frames 1000000] [--report-frames 1000000] [--json]

Each command runs in a process of its own. `view` reads records and a few rows, `report` every row,
and `compare`, here of the run with itself, every row twice: a short form may give these a smaller
run. Wanted of `view`: 2 s and 150 MB for a million frames.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.shared.made_up import write_run
from benchmarks.shared.measuring import Measured, make_parser, report, run_alone


def main() -> None:
    """Make the run, measure the commands, print."""
    parser = make_parser(__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--report-frames", type=int, default=1_000_000)
    parser.add_argument("--skeleton", default="holistic-143")
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as name:
        page = Path(name) / "report.html"
        for frames, command, more in (
            (options.frames, "view", []),
            (options.report_frames, "report", ["--out", str(page)]),
            (options.report_frames, "compare", [str(Path(name) / f"run{options.report_frames}")]),
        ):
            run = Path(name) / f"run{frames}"
            if not run.exists():
                write_run(run, frames, options.skeleton, splits=("train", "dev", "test"))
            used = run_alone([sys.executable, "-m", "posemill", command, str(run), *more])
            found[f"{command}_seconds"] = Measured(
                used.cpu_seconds, note=f"{frames / used.cpu_seconds:,.0f} frames/s"
            )
            found[f"{command}_peak_mb"] = Measured(used.peak_mb)
        found["page_mb"] = Measured(page.stat().st_size / 1e6)
    report(found, as_json=options.json)


if __name__ == "__main__":
    main()
