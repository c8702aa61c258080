"""`posemill status` on a run of PHOENIX-2014-T's size.

    python benchmarks/status_speed.py [--clips 8257] [--frames-per-clip 122]

Writes a ledger with the clips, units, shards, pieces and failures such a run has (the shards
themselves are not needed: status never opens them), then measures the whole command five times.
Wanted: under 1 s.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from posemill.jobs.extract.ledger import Ledger
from posemill.jobs.extract.messages import Commit, Lost, UnitProgress
from posemill.jobs.extract.plan import PlannedUnit
from posemill.records import Clip
from posemill.stores.commits import Piece, Shard
from posemill.stores.manifest import Manifest


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clips", type=int, default=8257)
    parser.add_argument("--frames-per-clip", type=int, default=122)
    parser.add_argument("--failed-every", type=int, default=100, help="one frame of as many fails")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="posemill-status-"))
    try:
        build(folder, options.clips, options.frames_per_clip, options.failed_every)
        begun = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = [measure(folder) for _ in range(5)]
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = (ended.ru_utime + ended.ru_stime - begun.ru_utime - begun.ru_stime) / len(seconds)
        found = json.loads(status(folder))
        print(json.dumps({
            "frames": found["frames_done"], "clips": options.clips,
            "failed": found["frames_failed"],
            "wall_seconds": [round(each, 3) for each in seconds], "least": round(min(seconds), 3),
            "cpu_seconds": round(cpu, 3),
        }, indent=2))  # fmt: skip
    finally:
        shutil.rmtree(folder)


def build(folder: Path, num_clips: int, num_frames: int, failed_every: int) -> None:
    """Write the ledger of a run that is almost done."""
    Manifest("holistic-543", source={"path": "/data", "fingerprint": "x"}).write(folder)
    splits = ["train"] * 7 + ["dev", "test", "test"]
    clips = [
        Clip(f"clip-{number:06d}", f"/data/{number}", "frames", splits[number % 10], num_frames)
        for number in range(num_clips)
    ]
    ledger = Ledger(folder)
    ledger.add_plan(
        clips,
        (PlannedUnit(n, 0, None, True, False, num_frames) for n in range(1, num_clips + 1)),
    )
    for number, clip in enumerate(clips[:-1], start=1):
        lost = tuple(
            Lost(index, 1, f"{clip.path}/{index}.png", "truncated", f"{clip.path}: truncated")
            for index in range(0, num_frames, failed_every)
        )
        rows = num_frames - len(lost)
        shard = Shard(f"{number}.parquet", rows, 1, (Piece(number, 0, 0, rows, number),))
        unit = UnitProgress(number, number, clip.split, num_frames, None, True, rows, lost)
        ledger.apply(Commit(shard, (unit,)))
    ledger.flush()
    ledger.close()


def status(folder: Path) -> str:
    """Return what the command prints."""
    command = [sys.executable, "-m", "posemill", "status", str(folder), "--json"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def measure(folder: Path) -> float:
    """Return the wall seconds of the command."""
    begun = time.monotonic()
    status(folder)
    return time.monotonic() - begun


if __name__ == "__main__":
    main()
