"""How fast every installed decoder reads some videos: each in a process of its own.

Run as a module it is that process: a task as JSON comes as its argument, what was measured goes to
standard output. A decoder that crashes takes nothing else down, and its memory is its own.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from posemill.decoders import find_decoder, known_decoders, open_video
from posemill.decoders.choice import ACCESSES, USUAL, kind_of, remember
from posemill.errors import DecodeError, PosemillError
from posemill.inspection.runtimes import measure_alone
from posemill.machine.processes import die_with_parent, thread_variables
from posemill.records import Frame

THREADS = (1, 2)
_MOST_FRAMES = 1000  # of a long video, where all are read
_CLEARLY = 1.1  # less than so many times as quick is the load of a machine, not a decoder


@dataclass(frozen=True)
class DecodeSpeed:
    """What a decoder made of one video, read in one way.

    Args:
        kind: Of the video: codec and size.
        access: `all` frames in order, or `8` or `32` of the whole length.
        frames_per_second: By number of threads.
        ratios: To OpenCV, read in the same way, by number of threads; empty where it refuses.
        memory_mb: What the process grew by at most over all ways to read, without the library.
        is_equal: Whether all frames are those of pyav, to the bit.
        refused: Why there is nothing else; empty otherwise.
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
    """What was measured.

    Args:
        speeds: By file, decoder and way to read.
        missing: Decoders that are not installed, and how to install them.
        failed: Videos that could not be read, and why.
        winners: The quickest decoder with equal frames at one thread, by kind and way to read;
            pyav where none is clearly quicker.
    """

    speeds: tuple[DecodeSpeed, ...]
    missing: dict[str, str]
    failed: dict[str, str]
    winners: dict[str, dict[str, str]]


def installed_decoders() -> tuple[list[str], dict[str, str]]:
    """Return the decoders that can be used, and those that cannot with the reason."""
    ready, missing = [], {}
    for name in known_decoders():
        try:
            find_decoder(name)
            ready.append(name)
        except PosemillError as error:
            missing[name] = str(error)
    return ready, missing


def measure_decoders(
    paths: Sequence[Path], *, seconds: float = 1.0, on_step: Callable[[], None] = lambda: None
) -> DecodeReport:
    """Return how fast all installed decoders read some videos, and remember the quickest.

    Each way to read is repeated for `seconds`, at least once; `on_step` is called after each
    decoder and video.
    """
    ready, missing = installed_decoders()
    speeds: list[DecodeSpeed] = []
    failed: dict[str, str] = {}
    for path in paths:
        try:
            kind = kind_of(path)
        except DecodeError as error:
            failed[str(path)] = str(error)
            for _ in ready:
                on_step()
            continue
        measured: dict[str, dict[str, Any]] = {}
        env = {**os.environ, **thread_variables(1)}
        for name in ready:
            task = {"path": str(path), "decoder": name, "seconds": seconds}
            outcome, values = measure_alone(__name__, task, env)
            measured[name] = values if outcome.works else {"refused": outcome.reason}
            on_step()
        speeds += _speeds_of(str(path), kind, measured)
    winners = _winners(speeds)
    if winners:
        remember(winners)
    return DecodeReport(tuple(speeds), missing, failed, winners)


def _speeds_of(path: str, kind: str, results: dict[str, dict[str, Any]]) -> Iterator[DecodeSpeed]:
    def values_of(name: str, access: str, key: str) -> dict[int, Any]:
        measured = results.get(name, {})
        ways = {threads: measured.get(f"{access}/{threads}", {}) for threads in THREADS}
        return {threads: way[key] for threads, way in ways.items() if way.get(key)}

    for name, access in product(results, ACCESSES):
        rates, opencv = values_of(name, access, "rate"), values_of("opencv", access, "rate")
        usual = values_of(USUAL, access, "sum").get(1)
        yield DecodeSpeed(
            path,
            kind,
            name,
            access,
            frames_per_second=rates,
            ratios={threads: rates[threads] / opencv[threads] for threads in rates & opencv.keys()},
            memory_mb=results[name].get("memory_mb", 0.0),
            is_equal=list(values_of(name, access, "sum").values()) == [usual] * len(THREADS),
            refused=results[name].get("refused", ""),
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


def _measure(path: str, decoder: str, seconds: float) -> dict[str, Any]:
    """Return speed and checksum of every way to read, or why the decoder refuses."""
    find_decoder(decoder)  # its library is there in a training anyway
    before = psutil.Process().memory_info().rss
    measured: dict[str, Any] = {}
    try:
        for threads, access in product(THREADS, ACCESSES):
            read = partial(_frames, path, decoder, access, threads)
            measured[f"{access}/{threads}"] = _time_reading(read, seconds)
    except DecodeError as error:
        return {"refused": str(error)}
    measured["memory_mb"] = round(max(0, _peak_bytes() - before) / 2**20, 1)
    return measured


def _time_reading(read: Callable[[], Iterator[Frame]], seconds: float) -> dict[str, Any]:
    total, best = hashlib.sha256(), 0.0
    for frame in read():  # also fills the caches
        total.update(np.ascontiguousarray(frame).data)
    deadline = time.perf_counter() + seconds
    while not best or time.perf_counter() < deadline:
        started = time.perf_counter()
        num_frames = sum(1 for _ in read())
        best = max(best, num_frames / (time.perf_counter() - started))
    return {"rate": best, "sum": total.hexdigest()}


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


if __name__ == "__main__":
    die_with_parent()
    sys.stdout.write(json.dumps(_measure(**json.loads(sys.argv[1]))) + "\n")
