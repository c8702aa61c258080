"""Listing a dataset of PHOENIX-2014-T's size: seconds and memory of `find_clips`.

    python -m benchmarks.datasets.find_clips [--folder /tmp] [--clips 8257] [--frames 947756]

Builds a tree of hard links to one small picture (a few minutes, a million inodes), lists it three
times in a new process each, and removes it again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

_LINKS_PER_FILE = 30_000  # below the limit of every usual file system

_CHILD = """
import json, resource, sys, time
from posemill.sources import find_clips
from posemill.sources.reading import list_frames
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
wall, cpu = time.perf_counter(), time.process_time()
clips = find_clips(sys.argv[1])
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"layout": clips.layout, "clips": len(clips),
    "frames": sum(each.num_frames for each in clips.totals.values()),
    "wall_seconds": round(wall, 2), "cpu_seconds": round(cpu, 2),
    "added_mb": round((peak - before) / 1024, 1), "fingerprint": clips.fingerprint[:12]}))
"""


def build_tree(root: Path, num_clips: int, num_frames: int) -> None:
    """Make the clips, of uneven lengths that add up."""
    random = np.random.default_rng(0)
    shares = random.gamma(4, size=num_clips)
    ends = np.round(np.cumsum(shares / shares.sum()) * num_frames).astype(int)
    lengths = np.diff(ends, prepend=0)
    frames = root / "features" / "fullFrame-210x260px"
    number = 0
    for index, length in enumerate(lengths):
        split = "train" if index % 8 else ("dev" if index % 16 else "test")
        clip = frames / split / f"clip_{index:05d}"
        clip.mkdir(parents=True)
        for frame in range(1, length + 1):
            if number % _LINKS_PER_FILE == 0:
                source = root / f"source{number}.bin"
                source.write_bytes(b"only the name is looked at")
            (clip / f"images{frame:04d}.png").hardlink_to(source)
            number += 1


def main() -> None:
    """Build, list, print one JSON line for each listing, remove."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--clips", type=int, default=8257)
    parser.add_argument("--frames", type=int, default=947_756)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="posemill_million_") as name:
        build_tree(Path(name), options.clips, options.frames)
        for _ in range(3):
            result = subprocess.run(
                [sys.executable, "-c", _CHILD, name], capture_output=True, text=True, check=True
            )
            print(json.dumps(json.loads(result.stdout)))


if __name__ == "__main__":
    main()
