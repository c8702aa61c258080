"""Kills and damage, counted: what a run loses, and what it loses without a word.

    python -m benchmarks.datasets.faults [--kills 200] [--damaged 100] [--seed 1] [--json]

Kills: coordinators of an extraction with made-up keypoints are ended by SIGKILL at random moments
and begun again, each run until it ends by itself; then its rows are compared with those of an
unbroken run, bit by bit. Damage: copies of small videos (MP4, MKV, AVI, WebM where the encoder is
there) with some bytes changed or the end cut off; each frame must have its row, be named in a
reason, or belong to a clip with one. Prints how many of each, and how many differ (wanted: none).
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np

import posemill
from benchmarks.shared.measuring import Measured, make_parser, report
from posemill.stores.reader import Run

# Imports everything once, forks a coordinator for each line it reads and kills it after as many
# seconds: a kill costs milliseconds, so that many moments can be tried.
_FORKER = """
import os, sys, time
from pathlib import Path
from posemill.config import ExtractConfig
from posemill.jobs.extract.run import extract
for line in sys.stdin:
    out, seconds = line.split()
    pid = os.fork()
    if pid == 0:
        os.close(0)
        config = ExtractConfig(Path(sys.argv[1]), Path(out), engine="fake", executor="serial",
                               task_frames=8, engine_options={"seconds_per_frame": 0.001})
        os._exit(extract(config).exit_code)
    time.sleep(float(seconds))
    os.kill(pid, 9)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
_CLIPS = {"train/a": 70, "train/b": 5, "dev/c": 40, "test/d": 33}
_KINDS = {"mp4": "libx264", "mkv": "libx264", "avi": "mpeg4", "webm": "libvpx-vp9"}
_FRAMES = 40


def kill_coordinators(folder: Path, num_kills: int, rng: random.Random) -> dict[str, Measured]:
    """Return how many kills there were, how many runs they were in, and how many differ."""
    source = make_frames(folder / "frames")
    options: dict[str, Any] = {"engine": "fake", "executor": "serial", "progress": False}
    posemill.extract(source, out=folder / "whole", **options)
    whole = rows_of(posemill.open_run(folder / "whole"))
    kills = runs = different = 0
    with subprocess.Popen([sys.executable, "-c", _FORKER, str(source)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True) as forker:  # fmt: skip
        assert forker.stdin is not None
        assert forker.stdout is not None
        while kills < num_kills:
            runs, code, tries = runs + 1, -1, 0
            while code < 0:
                # Longer and longer: on a busy machine a start alone can take seconds.
                tries += 1
                seconds = rng.uniform(0, 0.12 if tries < 40 else 0.05 * tries)
                forker.stdin.write(f"{folder / f'cut{runs}'} {seconds}\n")
                forker.stdin.flush()
                code = int(forker.stdout.readline())
                kills += code < 0
            cut = rows_of(posemill.open_run(folder / f"cut{runs}"))
            different += cut != whole
    return {"kills": Measured(kills), "killed_runs": Measured(runs),
            "killed_runs_that_differ": Measured(different)}  # fmt: skip


def make_frames(source: Path) -> Path:
    """Write four small clips as pictures; return their folder."""
    for name, count in _CLIPS.items():
        (source / name).mkdir(parents=True)
        for index in range(count):
            shade = np.full((24, 32, 3), 10 + (index * 7) % 200, np.uint8)
            cv2.imwrite(str(source / name / f"{index:04d}.png"), shade)
    return source


def rows_of(run: Run) -> dict[tuple[str, str], tuple[bytes, bytes, bytes]]:
    """Return the frame numbers, points and scores of each clip, bit by bit."""
    return {
        (clip.split, clip.clip_id): (
            clip.frame_indices.tobytes(), clip.points.tobytes(), clip.scores.tobytes()
        )
        for clip in run
    }  # fmt: skip


def damage_videos(folder: Path, number: int, rng: random.Random) -> dict[str, Measured]:
    """Return how many damaged videos there were, and of how many frames went without a word."""
    whole = {kind: data for kind, codec in _KINDS.items() if (data := _video(folder, kind, codec))}
    source = folder / "videos"
    source.mkdir()
    for index in range(number):
        kind = rng.choice(list(whole))
        content = bytearray(whole[kind])
        if rng.random() < 0.3:
            del content[rng.randrange(len(content) // 4, len(content)) :]
        else:
            for _ in range(rng.randrange(1, 6)):
                start = rng.randrange(len(content))
                content[start : start + rng.randrange(1, 40)] = os.urandom(rng.randrange(1, 40))
        (source / f"{index:04d}.{kind}").write_bytes(content)
    posemill.extract(source, out=folder / "damaged", engine="fake", workers=2, progress=False)
    run = posemill.open_run(folder / "damaged")
    kept = {clip.clip_id: len(clip) for clip in run}
    named = {failure.clip_id for failure in run.failures()}
    names = [path.name for path in sorted(source.iterdir())]
    short = [name for name in names if _length(kept, name) < _FRAMES]
    silent = [name for name in short if not any(name.startswith(each) for each in named)]
    return {
        "damaged_videos": Measured(len(names)),
        "with_frames_missing": Measured(len(short)),
        "missing_without_a_reason": Measured(len(silent)).noted(" ".join(silent[:5])),
    }


def _length(kept: dict[str, int], name: str) -> int:
    return kept.get(name, kept.get(name.rpartition(".")[0], 0))


def _video(folder: Path, kind: str, codec: str) -> bytes:
    """Return a video of squares that move; nothing where the encoder is not there."""
    path = folder / f"whole.{kind}"
    try:
        with av.open(str(path), "w") as container:
            stream: Any = container.add_stream(codec, rate=25)
            stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
            for index in range(_FRAMES):
                picture = np.full((64, 96, 3), 60, np.uint8)
                picture[16:48, 2 * index : 2 * index + 16] = (250, 5 * index, 40)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
            container.mux(stream.encode(None))
    except (av.FFmpegError, ValueError):
        return b""
    return path.read_bytes()


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--damaged", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = kill_coordinators(folder, arguments.kills, rng)
        found |= damage_videos(folder, arguments.damaged, rng)
    report(found, as_json=arguments.json)


if __name__ == "__main__":
    main()
