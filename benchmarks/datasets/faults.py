"""Kills and damage, counted: what a run loses, and what it loses without a word.

    python -m benchmarks.datasets.faults [--kills 200] [--terms 20] [--damaged 100] [--seed 1]

Kills: coordinators of an extraction with made-up keypoints are ended by SIGKILL at random moments
and begun again, each run until it ends by itself; then its rows are compared with those of an
unbroken run, bit by bit. Terms: extractions with two worker processes are run below `timeout -s
TERM` and begun again; every frame that was shown as done must be in the run. Damage: copies of
small videos of many containers (where the encoder is there) with some bytes changed, zeroed or
taken out, or the end cut off; each frame must have its row, be named in a reason, or belong to a
clip with one. Prints how many of each, and how many differ (wanted: none; MPEG-TS, MPEG-PS and
WMV have damage that leaves no trace but a gap of one frame).
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np

import posemill
from benchmarks.shared.measuring import Measured, make_parser, report
from posemill.jobs.extract.status import read_status
from posemill.runs.reader import Run

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
# An extraction with workers that says how many frames are done, as the bars do.
SHOWING = """
import sys
import posemill
if __name__ == "__main__":
    posemill.extract(sys.argv[1], sys.argv[2], engine="fake", executor="processes", workers=2,
                     progress=False, engine_options={"seconds_per_frame": 0.04},
                     on_progress=lambda snapshot: print(snapshot.frames_done, flush=True))
"""
_CLIPS = {"train/a": 70, "train/b": 5, "dev/c": 40, "test/d": 33}
_KINDS = {
    "mp4": "libx264",
    "mkv": "libx264",
    "avi": "mpeg4",
    "webm": "libvpx-vp9",
    "gif": "gif",
    "wmv": "wmv2",
    "flv": "flv1",
    "ts": "mpeg2video",
    "m2ts": "libx264",
    "mpg": "mpeg1video",
    "mov": "mpeg4",
}
_PIXELS = {"gif": "rgb8"}
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


def terminate_groups(folder: Path, num_terms: int, rng: random.Random) -> dict[str, Measured]:
    """Return at how many moments `timeout` ended a run, and what was shown and is not there."""
    source = make_frames(folder / "frames")
    script = folder / "show.py"
    script.write_text(SHOWING)
    terms = runs = busy = lost = 0
    whole_seconds, code, _ = _run_below_timeout(script, source, folder / "whole", seconds=600)
    if code:
        raise RuntimeError(f"the unbroken run ended with exit code {code}")
    whole = rows_of(posemill.open_run(folder / "whole"))
    different = 0
    while terms < num_terms:
        runs, code, out = runs + 1, 124, folder / f"terminated{runs}"
        while code == 124:
            seconds = rng.uniform(0.2, 1.0) * whole_seconds
            _, code, shown = _run_below_timeout(script, source, out, seconds=seconds)
            terms, busy = terms + (code == 124), busy + (code == 124 and shown > 0)
            # Up to its plan a run has nothing to show and may have no folder.
            lost += max(0, shown - (read_status(out).frames_done if shown else 0))
        different += rows_of(posemill.open_run(out)) != whole
    return {"terms": Measured(terms), "terms_with_frames_done": Measured(busy),
            "frames_shown_and_lost": Measured(lost), "terminated_runs": Measured(runs),
            "terminated_runs_that_differ": Measured(different)}  # fmt: skip


def _run_below_timeout(
    script: Path, source: Path, out: Path, *, seconds: float
) -> tuple[float, int, int]:
    """Return how long it took, the exit code (124: ended), and the most frames ever shown."""
    begun = time.monotonic()
    command = ["timeout", "-s", "TERM", f"{seconds:.3f}", sys.executable, str(script)]
    ended = subprocess.run([*command, str(source), str(out)], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True, check=False)  # fmt: skip
    shown = max(map(int, ended.stdout.split()), default=0)
    return time.monotonic() - begun, ended.returncode, shown


def make_frames(source: Path) -> Path:
    """Write four small clips as pictures; return their folder."""
    for name, count in _CLIPS.items():
        (source / name).mkdir(parents=True, exist_ok=True)
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
        (source / f"{index:04d}.{kind}").write_bytes(damage(whole[kind], rng))
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


def damage(whole: bytes, rng: random.Random) -> bytes:
    """Return a file with its end cut off, bits turned, bytes taken out, zeroed or made up."""
    content, how = bytearray(whole), rng.randrange(5)
    start, length = rng.randrange(len(content)), rng.randrange(1, max(2, len(content) // 10))
    if how == 0:
        del content[max(start, len(content) // 4) :]
    elif how == 1:
        for _ in range(rng.randrange(1, 6)):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif how == 2:
        del content[start : start + length]
    elif how == 3:
        content[start : start + 400] = bytes(len(content[start : start + 400]))
    else:
        for _ in range(rng.randrange(1, 6)):
            start = rng.randrange(len(content))
            content[start : start + rng.randrange(1, 40)] = rng.randbytes(rng.randrange(1, 40))
    return bytes(content)


def _length(kept: dict[str, int], name: str) -> int:
    return kept.get(name, kept.get(name.rpartition(".")[0], 0))


def _video(folder: Path, kind: str, codec: str) -> bytes:
    """Return a video of squares that move; nothing where the encoder is not there."""
    path = folder / f"whole.{kind}"
    try:
        with av.open(str(path), "w") as container:
            stream: Any = container.add_stream(codec, rate=25)
            pixels = _PIXELS.get(kind, "yuv420p")
            stream.width, stream.height, stream.pix_fmt = 96, 64, pixels
            for index in range(_FRAMES):
                picture = np.full((64, 96, 3), 60, np.uint8)
                picture[16:48, 2 * index : 2 * index + 16] = (250, 5 * index, 40)
                frame = av.VideoFrame.from_ndarray(picture, "rgb24").reformat(format=pixels)
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
    except (av.FFmpegError, ValueError):
        return b""
    return path.read_bytes()


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--terms", type=int, default=20)
    parser.add_argument("--damaged", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found: dict[str, Measured] = {}
        if arguments.kills:
            found |= kill_coordinators(folder, arguments.kills, rng)
        if arguments.terms:
            found |= terminate_groups(folder / "terms", arguments.terms, rng)
        if arguments.damaged:
            found |= damage_videos(folder, arguments.damaged, rng)
    report(found, as_json=arguments.json)


if __name__ == "__main__":
    main()
