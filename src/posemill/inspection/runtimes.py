"""How fast an engine is on every installed runtime: each in a process of its own.

Run as a module it is that process: a task as JSON comes as its argument, what was measured goes to
standard output. A runtime that meets an illegal instruction takes nothing else down, and its memory
is its own.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from posemill.errors import ConfigError, DecodeError, SourceError
from posemill.estimators import engine_info, open_estimator
from posemill.estimators.runtimes import PACKAGES
from posemill.machine.processes import die_with_parent, python_command
from posemill.machine.trials import Outcome, run_child
from posemill.records import Frame
from posemill.sources import clip_at
from posemill.sources.reading import read_clip

_LIMIT_SECONDS = 600.0
_AUTO = "auto"


@dataclass(frozen=True)
class RuntimeSpeed:
    """What one runtime made of some frames in image mode, on one thread.

    Args:
        runtime: Its name and version, as runs record it.
        is_default: Whether the engine takes it by itself.
        milliseconds: CPU time of a frame, the median of all passes.
        memory_mb: Of the process, with the engine loaded and run.
        agreement: Share of points that were found, or not found, as by the default.
        median_pixels: Distance to the default's points, of points that both found.
        largest_pixels: The largest of these distances.
        refused: Why there is nothing else; empty otherwise.
    """

    runtime: str
    is_default: bool
    milliseconds: float = 0.0
    memory_mb: float = 0.0
    agreement: float = 1.0
    median_pixels: float = 0.0
    largest_pixels: float = 0.0
    refused: str = ""


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

    `options` are those of the engine beside `runtime`; `on_step` is called once for each of
    `runtimes_of`.
    """
    frames = read_frames(source, num_frames)
    speeds: list[RuntimeSpeed] = []
    with tempfile.TemporaryDirectory(prefix="posemill-") as folder:
        pictures = Path(folder) / "frames.npz"
        np.savez(pictures, *frames)
        default: dict[str, Any] = {}
        for name in runtimes_of(engine):
            if default and str(default["runtime"]).split()[0] == name:
                on_step()
                continue
            results = Path(folder) / f"{name}.npy"
            task = {
                "engine": engine,
                "options": {**(options or {}), "runtime": name},
                "frames": str(pictures),
                "rounds": rounds,
                "points": str(results),
            }
            outcome, measured = measure_alone(__name__, task)
            on_step()
            if not outcome.works:
                speeds.append(RuntimeSpeed(name, name == _AUTO, refused=outcome.reason))
                continue
            points = np.load(results)
            default = default or {**measured, "points": points}
            measured |= compare_points(points, default["points"], frames)
            speeds.append(RuntimeSpeed(**measured, is_default=name == _AUTO))
    return speeds


def measure_alone(
    module: str, task: Mapping[str, Any], env: Mapping[str, str] | None = None
) -> tuple[Outcome, dict[str, Any]]:
    """Return how a module ended that was run for a task, and what it measured, as JSON."""
    command = python_command(module, json.dumps(task))
    outcome, text = run_child(command, timeout_seconds=_LIMIT_SECONDS, env=env)
    return outcome, json.loads(text.splitlines()[-1]) if outcome.works else {}


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


def compare_points(
    points: np.ndarray[Any, Any], default: np.ndarray[Any, Any], frames: Sequence[Frame]
) -> dict[str, float]:
    """Return how far points `(frames, points, 3)` are from those of the default, in pixels."""
    is_found, was_found = ~np.isnan(points[..., 0]), ~np.isnan(default[..., 0])
    sizes = np.array([frame.shape[1::-1] for frame in frames])[:, None]
    apart = np.linalg.norm((points - default)[..., :2] * sizes, axis=-1)[is_found & was_found]
    return {
        "agreement": float((is_found == was_found).mean()),
        "median_pixels": float(np.median(apart)) if apart.size else 0.0,
        "largest_pixels": float(apart.max()) if apart.size else 0.0,
    }


def main(text: str) -> None:
    """Measure one runtime and print what came of it."""
    die_with_parent()
    task = json.loads(text)
    with np.load(task["frames"]) as stored:
        frames = [stored[name] for name in stored.files]
    engine = open_estimator(task["engine"], **task["options"])
    points = engine.estimate(frames).points
    taken = []
    for _ in range(task["rounds"]):
        started = time.process_time()
        engine.estimate(frames)
        taken.append((time.process_time() - started) / len(frames))
    np.save(task["points"], points)
    measured = {
        "runtime": engine.identity()["runtime"],
        "milliseconds": 1000 * float(np.median(taken)),
        "memory_mb": psutil.Process().memory_info().rss / 2**20,
    }
    sys.stdout.write(f"{json.dumps(measured)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
