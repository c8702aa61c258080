"""What the start of a training reads of a large npz that it has seen before.

    python -m benchmarks.training.train_start [--frames 200000] [--rounds 3] [--json]

The first start fills the cache (not measured). Each start after it is a new process, from the
configuration to the model and its data: megabytes read, seconds of CPU. Bytes read are the same on
every machine; wanted is at most a tenth of the file.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.shared.made_up import CLIP_FRAMES, write_clips
from benchmarks.shared.measuring import make_parser, not_here, over_rounds, report, run_alone

IO = Path("/proc/self/io")


def start(folder: Path) -> None:
    """Build everything up to the first step; print the bytes read and the CPU seconds."""
    from posemill.training.config.train_config import TrainConfig
    from posemill.training.tasks.workload import build_workload

    config = TrainConfig(
        data=str(folder / "train_keypoints.npz"), labels=str(folder / "labels.csv"),
        cache_folder=str(folder / "cache"),
    )  # fmt: skip
    before, begun = bytes_read(), time.process_time()
    build_workload(config)
    print(json.dumps([bytes_read() - before, time.process_time() - begun]))


def bytes_read() -> int:
    """Return how much this process has read so far, from the disk or the system's cache."""
    return int(IO.read_text().split()[1])


def main() -> None:
    """Write the file, start again and again, print."""
    if sys.argv[1:2] == ["start"]:
        start(Path(sys.argv[2]))
        return
    parser = make_parser(__doc__)
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not IO.is_file():
        not_here(f"bytes read are counted by {IO}, which only Linux has")
    with tempfile.TemporaryDirectory() as name:
        write_clips(Path(name), [CLIP_FRAMES] * (options.frames // CLIP_FRAMES), 10)
        megabytes = (Path(name) / "train_keypoints.npz").stat().st_size / 1e6
        command = [sys.executable, "-m", "benchmarks.training.train_start", "start", name]
        starts = [json.loads(run_alone(command).stdout) for _ in range(options.rounds + 1)][1:]
    share = over_rounds(read / 1e6 / megabytes for read, _ in starts)
    found = {
        "share_read": share.noted(f"{share.value * megabytes:.1f} of {megabytes:.0f} MB"),
        "cpu_seconds": over_rounds(seconds for _, seconds in starts),
    }
    report(found, as_json=options.json)


if __name__ == "__main__":
    main()
