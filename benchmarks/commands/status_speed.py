"""`posemill status` on a run of PHOENIX-2014-T's size.

    python -m benchmarks.commands.status_speed [--clips 8257] [--frames-per-clip 122] [--json]

Writes a ledger with the clips, units, shards, pieces and failures such a run has (the shards
themselves are not needed: status never opens them), then measures the whole command five times.
Wanted: under 1 s.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from benchmarks.shared.measuring import make_parser, over_rounds, report, run_alone
from posemill.jobs.extract.opening import planned_clips
from posemill.records import Clip
from posemill.runs.events import (
    Committed,
    Lost,
    Piece,
    Planned,
    PlannedUnit,
    Shard,
    UnitProgress,
)
from posemill.runs.log import EventLog
from posemill.runs.manifest import Manifest


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__)
    parser.add_argument("--clips", type=int, default=8257)
    parser.add_argument("--frames-per-clip", type=int, default=122)
    parser.add_argument("--failed-every", type=int, default=100, help="one frame of as many fails")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="posemill-status-") as name:
        build(Path(name), options.clips, options.frames_per_clip, options.failed_every)
        command = [sys.executable, "-m", "posemill", "status", name, "--json"]
        used = [run_alone(command) for _ in range(options.rounds)]
    status = json.loads(used[-1].stdout)
    frames = f"{status['frames_done']:,} frames, {status['frames_failed']:,} of them failed"
    found = {
        "wall_seconds": over_rounds(each.wall_seconds for each in used).noted(frames),
        "cpu_seconds": over_rounds(each.cpu_seconds for each in used),
    }
    report(found, as_json=options.json)


def build(folder: Path, num_clips: int, num_frames: int, failed_every: int) -> None:
    """Write the ledger of a run that is almost done."""
    Manifest("holistic-543", source={"path": "/data", "fingerprint": "x"}).write(folder)
    splits = ["train"] * 7 + ["dev", "test", "test"]
    clips = [
        Clip(f"clip-{number:06d}", f"/data/{number}", "frames", splits[number % 10], num_frames)
        for number in range(num_clips)
    ]
    events = EventLog(folder)
    units = (PlannedUnit(n, 0, None, True, False, num_frames) for n in range(1, num_clips + 1))
    events.record(Planned("run", planned_clips(clips), tuple(units)))
    for number, clip in enumerate(clips[:-1], start=1):
        lost = tuple(
            Lost(index, 1, f"{clip.path}/{index}.png", "truncated", f"{clip.path}: truncated")
            for index in range(0, num_frames, failed_every)
        )
        rows = num_frames - len(lost)
        shard = Shard(f"{number}.parquet", 1, (Piece(number, 0, 0, rows, number),))
        unit = UnitProgress(number, number, clip.split, num_frames, None, True, rows, lost)
        events.append(Committed(shard, (unit,)))
    events.flush()
    events.close()


if __name__ == "__main__":
    main()
