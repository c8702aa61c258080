"""One worker against the bare engine, and two against one: the real engine on real frames.

    python -m benchmarks.datasets.extract_scaling [--frames 1536] [--rounds 3] [--json]

Bare: the frames are in memory, the engine runs on them in video mode, nothing else. One worker:
`extract` on the same frames as files: decoding, writing and ledger included; the start of the
worker (imports, loading the networks) is not, it is the same few seconds for a million frames.
Wanted: at least 0.93 of the bare engine's frames/s, and two workers at least 1.85 times one.
CPU time per frame is printed beside it: on a machine that is not quiet only that means anything.
"""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import cv2
import psutil

from benchmarks.shared.measuring import Measured, in_turns, make_parser, over_rounds, ratio, report
from posemill.config import ExtractConfig
from posemill.decoders import open_video
from posemill.decoders.pictures import read_picture
from posemill.estimators import open_estimator
from posemill.jobs.extract.run import extract
from posemill.jobs.extract.status import Progress
from posemill.sources import find_clips
from posemill.sources.reading import frame_path, list_frames
from posemill.weights.pull import ensure_media

Speed = tuple[float, float]  # frames per second of wall time, ms of CPU time per frame
FRAMES_PER_CLIP = 96  # about the median of PHOENIX-2014-T


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__)
    parser.add_argument("--source", type=Path, help="a frame tree; default: a published video")
    parser.add_argument("--frames", type=int, default=1536)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="posemill-scaling-"))
    try:
        source = options.source or make_tree(scratch / "frames", options.frames)
        report(compare(scratch, source, options.rounds), as_json=options.json)
    finally:
        shutil.rmtree(scratch)


def make_tree(root: Path, num_frames: int) -> Path:
    """Write clips of frames of the published video, over and over."""
    with open_video(ensure_media("carphone")) as reader:
        frames = list(reader)
    endless = cycle(frames)
    for index in range(num_frames):
        path = root / f"clip{index // FRAMES_PER_CLIP:03d}" / f"{index % FRAMES_PER_CLIP:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        assert cv2.imwrite(str(path), next(endless)[..., ::-1])
    return root


def compare(scratch: Path, source: Path, rounds: int) -> dict[str, Measured]:
    """Return the ratios of each round."""
    measured = in_turns(
        {
            "bare": lambda: in_new_process(source),
            "one": lambda: run_extract(source, scratch / "run", 1),
            "two": lambda: run_extract(source, scratch / "run", 2),
        },
        rounds, clock=None, warm_up=0,
    )  # fmt: skip
    speeds = {name: [speed for speed, _ in values] for name, values in measured.items()}
    cpu = {name: [ms for _, ms in values] for name, values in measured.items()}

    def note(middles: dict[str, list[float]], unit: str) -> str:
        return ", ".join(f"{over_rounds(each).value:.1f}" for each in middles.values()) + unit

    by_wall, by_cpu = note(speeds, " frames/s"), note(cpu, " ms of CPU a frame")
    return {
        "one_of_bare": ratio(speeds["one"], speeds["bare"]).noted(f"bare, one, two: {by_wall}"),
        "one_of_bare_by_cpu": ratio(cpu["bare"], cpu["one"]).noted(f"bare, one, two: {by_cpu}"),
        "two_of_one": ratio(speeds["two"], speeds["one"]).noted(f"bare, one, two: {by_wall}"),
        "two_of_one_by_cpu": ratio(cpu["one"], cpu["two"]),
    }


def run_bare(source: Path) -> Speed:
    """Return the speed of the engine alone, the frames of each clip in memory."""
    cv2.setNumThreads(1)
    engine = open_estimator("holistic", threads=1)
    num_frames, wall, cpu = 0, 0.0, 0.0
    for clip in find_clips(source):
        frames = [read_picture(frame_path(clip, name)) for name in list_frames(clip)]
        state = engine.new_state()
        wall -= time.monotonic()
        cpu -= time.process_time()
        for frame in frames:
            engine.estimate([frame], [state])
        wall += time.monotonic()
        cpu += time.process_time()
        num_frames += len(frames)
    return num_frames / wall, 1000 * cpu / num_frames


def in_new_process(source: Path) -> Speed:
    """Return `run_bare` of a process of its own, as the workers are."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(run_bare, (source,))


def run_extract(source: Path, folder: Path, workers: int, **settings: Any) -> Speed:
    """Return the speed of `extract` from when its workers are at work to the last commit."""
    shutil.rmtree(folder, ignore_errors=True)
    config = ExtractConfig(source, folder, workers=workers, **settings)
    return measure_speed(lambda watch: extract(config, on_progress=watch), workers)


def measure_speed(run: Callable[[Callable[[Progress], None]], Progress], workers: int) -> Speed:
    """Return the speed of a job from when its workers are at work to the last commit."""
    seen: list[tuple[float, int, float]] = []
    processes: list[psutil.Process] = []

    def watch(snapshot: Progress) -> None:
        if snapshot.frames_done and (not seen or snapshot.frames_done > seen[-1][1]):
            if not processes:  # once: looking for children is itself expensive
                processes.extend(psutil.Process().children())
            seen.append((time.monotonic(), snapshot.frames_done, cpu_of(processes)))

    summary = run(watch)
    assert summary.exit_code == 0, summary
    begin = next(entry for entry in seen if entry[1] >= 8 * workers)
    # At the very end the workers are gone, and their CPU time with them.
    end = next(entry for entry in reversed(seen) if entry[2] >= max(each[2] for each in seen))
    wall_speed = (seen[-1][1] - begin[1]) / (seen[-1][0] - begin[0])
    return wall_speed, 1000 * (end[2] - begin[2]) / (end[1] - begin[1])


def cpu_of(processes: list[psutil.Process]) -> float:
    """Return the CPU seconds the coordinator and these have used; 0 for one that is gone."""
    total = time.process_time()
    for process in processes:
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


if __name__ == "__main__":
    main()
