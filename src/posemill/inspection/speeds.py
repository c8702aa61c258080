"""How fast every installed decoder reads some videos, and every runtime runs an engine.

Each is measured in a process of its own, which is this module, run with the name of a function and
its arguments as JSON; what was measured goes to standard output. One that crashes takes nothing
else down, and its memory is its own.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from posemill.decoders import find_decoder, known_decoders, open_video
from posemill.decoders.choice import ACCESSES, USUAL, kind_of, remember
from posemill.errors import ConfigError, DecodeError, PosemillError, SourceError
from posemill.estimators import engine_info, open_estimator
from posemill.estimators.runtimes import PACKAGES
from posemill.machine.processes import die_with_parent, python_command, thread_variables
from posemill.machine.trials import Outcome, run_child
from posemill.records import Frame
from posemill.sources import clip_at
from posemill.sources.reading import read_clip

THREADS = (1, 2)
_LIMIT_SECONDS = 600.0
_MOST_FRAMES = 1000  # of a long video, where all are read
_CLEARLY = 1.1  # less than so many times as quick is the load of a machine, not a decoder
_NOTHING: dict[str, Any] = {"rates": {}, "sums": {}, "memory_mb": 0.0, "refused": ""}
_AUTO = "auto"


@dataclass(frozen=True)
class DecodeSpeed:
    """What a decoder made of one video, read in one way.

    Args:
        kind: Codec and size of the video.
        access: `all` frames in order, or `8` or `32` of the whole length.
        frames_per_second: By number of threads.
        ratios: To OpenCV, read in the same way, by number of threads; empty where it refuses.
        memory_mb: What the process grew by at most over all ways to read, without the library.
        is_equal: Whether all frames are those of pyav, to the bit.
        refused: Why nothing was measured; empty otherwise.
    """

    path: str
    kind: str
    decoder: str
    access: str
    frames_per_second: dict[int, float]
    ratios: dict[int, float]
    memory_mb: float
    is_equal: bool
    refused: str = ""


@dataclass(frozen=True)
class DecodeReport:
    """What was measured; decoders that are not installed and videos that failed, and why.

    `winners` has the quickest decoder with equal frames at one thread, by kind and way to read;
    pyav where none is clearly quicker.
    """

    speeds: tuple[DecodeSpeed, ...]
    missing: dict[str, str]
    failed: dict[str, str]
    winners: dict[str, dict[str, str]]


@dataclass(frozen=True)
class RuntimeSpeed:
    """What one runtime made of some frames in image mode, on one thread.

    Args:
        runtime: Its name and version, as runs record it.
        is_default: Whether the engine takes it by itself.
        milliseconds: CPU time of a frame, the median of all passes.
        memory_mb: Of the process, with the engine loaded and run.
        agreement: Share of points that were found, or not found, as by the default.
        median_pixels, largest_pixels: Distances to the default's points, where both found one.
    """

    runtime: str
    is_default: bool
    milliseconds: float = 0.0
    memory_mb: float = 0.0
    agreement: float = 1.0
    median_pixels: float = 0.0
    largest_pixels: float = 0.0
    refused: str = ""


def installed_decoders() -> tuple[list[str], dict[str, str]]:
    """Return the decoders that can be used, and those that cannot with the reason."""
    ready, missing = list[str](), dict[str, str]()
    for name in known_decoders():
        try:
            find_decoder(name)
            ready.append(name)
        except PosemillError as error:
            missing[name] = error.sentence
    return ready, missing


def measure_decoders(
    paths: Sequence[Path], *, seconds: float = 1.0, on_step: Callable[[], None] = lambda: None
) -> DecodeReport:
    """Return how fast all installed decoders read some videos, and remember the quickest.

    Each way to read is repeated for `seconds`; `on_step` comes after each decoder and video.
    """
    ready, missing = installed_decoders()
    speeds: list[DecodeSpeed] = []
    failed: dict[str, str] = {}
    for path in paths:
        measured: dict[str, dict[str, Any]] = {}
        try:
            kind = kind_of(path)
        except DecodeError as error:
            kind, failed[str(path)] = "", error.sentence
        for name in ready:
            if kind:
                task = {"path": str(path), "decoder": name, "seconds": seconds}
                outcome, values = measure_alone("measure_decoder", task)
                values = values if outcome.works else {"refused": outcome.reason}
                measured[name] = _NOTHING | values
            on_step()
        speeds += _speeds_of(str(path), kind, measured)
    winners = _winners(speeds)
    if winners:
        remember(winners)
    return DecodeReport(tuple(speeds), missing, failed, winners)


def measure_alone(function: str, task: Mapping[str, Any]) -> tuple[Outcome, dict[str, Any]]:
    """Return how a function of this module ended in a process of its own, and what it measured."""
    command = python_command(__name__, function, json.dumps(task))
    env = {**os.environ, **thread_variables(1)}
    outcome, text = run_child(command, timeout_seconds=_LIMIT_SECONDS, env=env)
    return outcome, json.loads(text.splitlines()[-1]) if outcome.works else {}


def _speeds_of(path: str, kind: str, results: dict[str, dict[str, Any]]) -> Iterator[DecodeSpeed]:
    opencv, usual = (results.get(decoder, _NOTHING) for decoder in ("opencv", USUAL))
    for (name, result), access in product(results.items(), ACCESSES):
        rates, theirs = (
            dict(zip(THREADS, each["rates"].get(access, ()), strict=False))
            for each in (result, opencv)
        )
        usual_sum = usual["sums"].get(access, [None])[0]
        yield DecodeSpeed(
            path,
            kind,
            name,
            access,
            frames_per_second=rates,
            ratios={threads: rates[threads] / theirs[threads] for threads in rates & theirs.keys()},
            memory_mb=result["memory_mb"],
            is_equal=result["sums"].get(access) == [usual_sum] * len(THREADS),
            refused=result["refused"],
        )


def _winners(speeds: Iterable[DecodeSpeed]) -> dict[str, dict[str, str]]:
    """Return the quickest decoder of each kind and way to read that was right on all its files."""
    seconds: dict[tuple[str, str], dict[str, float]] = {}
    for speed in speeds:
        times = seconds.setdefault((speed.kind, speed.access), {})
        rate = speed.frames_per_second.get(1) if speed.is_equal and not speed.refused else None
        times[speed.decoder] = times.get(speed.decoder, 0.0) + (1 / rate if rate else math.inf)
    winners: dict[str, dict[str, str]] = {}
    for (kind, access), times in seconds.items():
        best = min(times, key=times.__getitem__)
        if times.get(USUAL, math.inf) <= _CLEARLY * times[best]:
            best = USUAL
        if times[best] < math.inf:
            winners.setdefault(kind, {})[access] = best
    return winners


def measure_decoder(path: str, decoder: str, seconds: float) -> dict[str, Any]:
    """Return speeds and checksums of every way to read, or why the decoder refuses."""
    find_decoder(decoder)  # its library is there in a training anyway
    before = psutil.Process().memory_info().rss
    rates: dict[str, list[float]] = {access: [] for access in ACCESSES}
    sums: dict[str, list[str]] = {access: [] for access in ACCESSES}
    try:
        for threads, access in product(THREADS, ACCESSES):
            read = partial(_frames, path, decoder, access, threads)
            total, best = hashlib.sha256(), 0.0
            for frame in read():  # also fills the caches
                total.update(np.ascontiguousarray(frame).data)
            sums[access].append(total.hexdigest())
            deadline = time.perf_counter() + seconds
            while not best or time.perf_counter() < deadline:
                started = time.perf_counter()
                num_frames = sum(1 for _ in read())
                best = max(best, num_frames / (time.perf_counter() - started))
            rates[access].append(best)
    except DecodeError as error:
        return {"refused": str(error)}
    memory_mb = round(max(0, _peak_bytes() - before) / 2**20, 1)
    return {"rates": rates, "sums": sums, "memory_mb": memory_mb}


def _frames(path: str, decoder: str, access: str, threads: int) -> Iterator[Frame]:
    """Yield frames of a video that is opened for it, as a training or an extraction does."""
    with open_video(path, decoder=decoder, threads=threads) as video:
        if access == "all":
            yield from islice(video, _MOST_FRAMES)
            return
        num_frames = video.num_frames or video.count_frames()
        places = np.rint(np.linspace(0, num_frames - 1, min(int(access), num_frames)))
        yield from video.frames_at(places.astype(int).tolist())


def _peak_bytes() -> int:
    """Return the most memory this process ever had."""
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii")
        return 1024 * int(text.partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError, ValueError):  # no Linux: what it has now, or the peak of Windows
        memory = psutil.Process().memory_info()
        return int(getattr(memory, "peak_wset", memory.rss))


def runtimes_of(engine: str) -> list[str]:
    """Return the runtimes an engine can be asked for that are installed, `auto` first."""
    for option in engine_info(engine).options:
        if option.name == "runtime":
            installed = [name for name in option.choices if find_spec(PACKAGES.get(name, "cv2"))]
            return [_AUTO, *(name for name in installed if name != _AUTO)]
    raise ConfigError("engine {engine!r} has no choice of runtimes", engine=engine)


def measure_runtimes(
    source: Path,
    engine: str = "holistic",
    options: Mapping[str, Any] | None = None,
    *,
    num_frames: int = 8,
    rounds: int = 3,
    on_step: Callable[[], None] = lambda: None,
) -> list[RuntimeSpeed]:
    """Return what each installed runtime makes of the first frames of a source.

    `options` are those of the engine beside `runtime`; `on_step` comes after each runtime.
    """
    read_frames(source, num_frames)  # what is wrong with the source is said once
    task = {"source": str(source), "num_frames": num_frames, "engine": engine, "rounds": rounds}
    speeds: list[RuntimeSpeed] = []
    default: dict[str, Any] = {}
    for name in runtimes_of(engine):
        if not default or str(default["speed"]["runtime"]).split()[0] != name:
            task["options"] = {**(options or {}), "runtime": name}
            outcome, result = measure_alone("measure_runtime", task)
            default = default or result
            measured: dict[str, Any] = {"runtime": name, "refused": outcome.reason}
            if outcome.works:
                measured = result["speed"] | compare_points(result["pixels"], default["pixels"])
            speeds.append(RuntimeSpeed(is_default=name == _AUTO, **measured))
        on_step()
    return speeds


def read_frames(source: Path, num_frames: int) -> list[Frame]:
    """Return the first frames of a picture, a folder of pictures or a video."""
    frames = []
    for _, _, content in islice(read_clip(clip_at(source)), num_frames):
        if isinstance(content, DecodeError):
            raise content
        frames.append(content)
    if not frames:
        raise SourceError("{source}: no pictures in it", source=source)
    return frames


def compare_points(points: npt.ArrayLike, default: npt.ArrayLike) -> dict[str, float]:
    """Return how far points `(frames, points, 2)` in pixels are from those of the default."""
    points, default = np.asarray(points, np.float64), np.asarray(default, np.float64)
    is_found, was_found = ~np.isnan(points[..., 0]), ~np.isnan(default[..., 0])
    apart = np.linalg.norm(points - default, axis=-1)[is_found & was_found]
    return {
        "agreement": float((is_found == was_found).mean()),
        "median_pixels": float(np.median(apart)) if apart.size else 0.0,
        "largest_pixels": float(apart.max(initial=0)),
    }


def measure_runtime(
    source: str, *, num_frames: int, engine: str, options: Mapping[str, Any], rounds: int
) -> dict[str, Any]:
    """Return what a runtime takes of this process, and `(frames, points, 2)`: points in pixels."""
    frames = read_frames(Path(source), num_frames)
    estimator = open_estimator(engine, **options)
    points = estimator.estimate(frames).points[..., :2]
    pixels = points * np.array([frame.shape[1::-1] for frame in frames])[:, None]
    taken = []
    for _ in range(rounds):
        started = time.process_time()
        estimator.estimate(frames)
        taken.append((time.process_time() - started) / len(frames))
    speed = {
        "runtime": estimator.identity()["runtime"],
        "milliseconds": 1000 * float(np.median(taken)),
        "memory_mb": psutil.Process().memory_info().rss / 2**20,
    }
    return {"speed": speed, "pixels": pixels.tolist()}


if __name__ == "__main__":
    die_with_parent()
    sys.stdout.write(json.dumps(globals()[sys.argv[1]](**json.loads(sys.argv[2]))) + "\n")
