"""Coordinator overhead: very many tiny tasks with the fake engine.

    python -m benchmarks.datasets.many_tasks [--tasks 100000] [--workers 2] [--json]

Prints the coordinator's CPU time per task (wanted: under 1 ms) and its memory along the way
(wanted: flat). Every task is one clip of one picture with a shard of its own. Files go to /dev/shm
where there is one, as the disk is not what is measured; --scratch puts them elsewhere.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np
import psutil

from benchmarks.shared.measuring import Measured, make_parser, report
from posemill.config import ExtractConfig
from posemill.jobs.extract.run import extract
from posemill.jobs.extract.status import Progress
from posemill.sources import find_clips


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    memory_disk = Path("/dev/shm")
    parser.add_argument("--scratch", default=memory_disk if memory_disk.is_dir() else None)
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="posemill-many-", dir=options.scratch))
    try:
        report(measure(scratch, options.tasks, options.workers), as_json=options.json)
    finally:
        shutil.rmtree(scratch)


def measure(scratch: Path, num_tasks: int, workers: int) -> dict[str, Measured]:
    """Return what the coordinator used."""
    assert cv2.imwrite(str(scratch / "picture.png"), np.full((8, 8, 3), 99, np.uint8))
    listing = scratch / "clips.jsonl"
    with listing.open("w") as handle:
        for number in range(num_tasks):
            handle.write(json.dumps({"path": "picture.png", "clip_id": f"{number:07d}"}) + "\n")
    config = ExtractConfig(listing, scratch / "run", engine="fake", workers=workers, task_frames=1)
    process = psutil.Process()
    memory: list[tuple[int, int]] = []

    def watch(snapshot: Progress) -> None:
        if not memory or snapshot.frames_done - memory[-1][0] >= num_tasks // 10:
            memory.append((snapshot.frames_done, process.memory_info().rss >> 20))

    begun = time.process_time()
    clips = find_clips(listing)
    listed = time.process_time()
    wall = time.monotonic()
    loop_began: list[float] = []
    summary = extract(
        config,
        clips=clips,
        on_progress=watch,
        on_plan=lambda *_: loop_began.append(time.process_time()),
    )
    ended = time.process_time()
    assert summary.exit_code == 0
    assert summary.counts[0].frames_out == num_tasks
    per_task = 1000 / num_tasks
    parts = {"list": listed - begun, "plan": loop_began[0] - listed, "run": ended - loop_began[0]}
    note = ", ".join(f"{name} {seconds * per_task:.3f} ms" for name, seconds in parts.items())
    wall = time.monotonic() - wall
    megabytes = [mb for _, mb in memory]
    return {
        "coordinator_ms": Measured(
            parts["run"] * per_task, note=f"{note}; {num_tasks:,} tasks in {wall:.0f} s"
        ),
        # What every process has at the first tasks is not growth.
        "memory_growth_mb": Measured(
            max(megabytes) - megabytes[0], note=f"{megabytes[0]} to {max(megabytes)} MB"
        ),
    }


if __name__ == "__main__":
    main()
