"""Where the time of a training goes, and what it measured about itself; nothing here needs torch.

`timing.json` is written while a training runs, so that one that is killed can be advised on, too.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from posemill.errors import RunError
from posemill.machine.gpus import read_gpus
from posemill.machine.limits import count_cores
from posemill.training.record.live import read_object, write_object

if TYPE_CHECKING:  # names of parts and shares are read without it
    import torch

DATA_SHARE = 0.10  # of the time: who waits for data so long can gain by changing that
TIMING_NAME = "timing.json"
_SAMPLE_SECONDS = 2.0
_WATCH_SECONDS = 0.05  # between two looks at the stack
_LEAST_SHARE = 0.01
_CALL = re.compile(r"\.(?:item|cpu|tolist|synchronize)\(|\bprint\(")
_PACKAGE = Path(__file__).parents[2]
_NOT_THEIRS = ("<", f"{_PACKAGE}/", f"{sysconfig.get_path('stdlib')}/")
_LOADING = "/torch/utils/data/"  # what is read back there was never on the device
_LOOP = (str(_PACKAGE / "training" / "loop" / "trainer.py"), "_run_epoch")
PARTS = ("data", "transfer", "forward", "backward", "optimizer", "evaluation", "checkpoint")


class Clock:
    """Splits running time into `PARTS`. `lap(part)` gives the time since the last lap to `part`.

    On a GPU the host runs ahead of the device, so laps are events on the device's stream; they
    are read in `read`, which is where the training waits for the device anyway.
    """

    def __init__(self, device: torch.device) -> None:
        self._uses_events = device.type == "cuda"
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._events: list[tuple[str, torch.cuda.Event]] = []
        self._last = 0.0
        self.restart()

    def restart(self) -> None:
        """Forget the time since the last lap (what came between belongs to no part)."""
        self.lap("")

    def lap(self, part: str) -> None:
        """Add the time since the last lap to a part."""
        if self._uses_events:
            import torch

            event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            event.record()
            self._events.append((part, event))
            return
        now = time.perf_counter()
        if part:
            self._seconds[part] += now - self._last
        self._last = now

    def read(self) -> Mapping[str, float]:
        """Return the seconds of each part so far; waits for the device."""
        if self._events:
            self._events[-1][1].synchronize()
            for (_, start), (part, end) in pairwise(self._events):
                if part:
                    self._seconds[part] += start.elapsed_time(end) / 1000
            self._events = self._events[-1:]
        return dict(self._seconds)


def shares(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return each part's share of the sum, 0 to 1."""
    total = sum(seconds.values())
    return {part: value / total if total else 0.0 for part, value in seconds.items()}


class BusyMeter:
    """Measures between `start` and `stop` which share of the time the device was at work.

    A GPU is sampled in a thread. Of the CPU it is the cores that this process may use: busy with
    whatever, since more threads gain nothing on cores that others use. Under a quota of time, what
    this process and those it started had of it.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._samples: list[float] = []
        self._is_over = threading.Event()
        self._begin: tuple[float, float] | None = None

    def start(self) -> None:
        """Begin to measure."""
        if self._device.type == "cuda":
            threading.Thread(target=self._sample, name="posemill-busy", daemon=True).start()
        else:
            self._begin = _core_times()

    def stop(self) -> float | None:
        """Measure no more; return the share."""
        self._is_over.set()
        return self.read()

    def read(self) -> float | None:
        """Return the share so far, 0 to 1; None where it cannot be told."""
        if self._begin is None:
            return sum(self._samples) / len(self._samples) if self._samples else None
        busy, total = (
            after - before for after, before in zip(_core_times(), self._begin, strict=True)
        )
        return min(1.0, max(0.0, busy / total)) if total else None

    def _sample(self) -> None:
        import torch

        properties = torch.cuda.get_device_properties(self._device)
        uuid = f"GPU-{getattr(properties, 'uuid', '')}"
        while not self._is_over.wait(_SAMPLE_SECONDS):
            shares = [gpu.busy_share for gpu in read_gpus() if gpu.uuid == uuid]
            if not shares:
                return  # nobody answers, or not about this one
            self._samples += [share for share in shares if share is not None]


def _core_times() -> tuple[float, float]:
    """Return the seconds that cores were busy, and those that they could have been."""
    import psutil

    cores = count_cores()
    names = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    times = [each for name, each in enumerate(psutil.cpu_times(percpu=True)) if name in names]
    if len(times) == len(names) == cores:
        total = sum(sum(each[:8]) for each in times)  # guests are in `user` already
        idle = sum(each.idle + getattr(each, "iowait", 0.0) for each in times)
        return total - idle, total
    own = os.times()
    used = own.user + own.system + own.children_user + own.children_system
    return used, time.monotonic() * cores


@dataclass(frozen=True)
class Wait:
    """A line of a user's code that waits for the device or prints, by a `call` such as `.item()`.

    `share` is that of the time of steps that was spent there, 0 to 1.
    """

    file: str
    line: int
    call: str
    share: float


class StepWatch:
    """Finds where a user's own code makes a training wait: lines that read back, or print.

    A thread looks at the stack of the thread that made it a few times a second, between `start` and
    `stop`, while `is_in_step`. It sees only the code of users: our own loop reads nothing back
    between two lines of its log.
    """

    def __init__(self) -> None:
        self.is_in_step = False
        self._thread = threading.get_ident()
        self._is_over = threading.Event()
        self._num_samples = 0
        self._seen: Counter[tuple[str, int]] = Counter()

    def start(self) -> None:
        """Begin to look."""
        threading.Thread(target=self._sample, name="posemill-watch", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._is_over.set()

    def waits(self) -> list[Wait]:
        """Return the lines found so far, those that take longest first."""
        found = []
        for (file, line), count in self._seen.most_common():
            share = count / self._num_samples
            call = _CALL.search(linecache.getline(file, line))
            if call and share >= _LEAST_SHARE:
                found.append(Wait(file, line, f"{call[0]})", share))
        return found

    def _sample(self) -> None:
        while not self._is_over.wait(_WATCH_SECONDS):
            frame = sys._current_frames().get(self._thread) if self.is_in_step else None
            if frame is None:
                continue
            self._num_samples += 1
            if place := _user_line(frame):
                self._seen[place] += 1


def _user_line(frame: FrameType | None) -> tuple[str, int] | None:
    """Return file and line of the innermost frame of a user's code, inside of our loop."""
    found = None
    while frame is not None:
        file = frame.f_code.co_filename
        if _LOADING in file or (file, frame.f_code.co_name) == _LOOP:
            return None if _LOADING in file else found  # further out is who called the training
        if not found and not file.startswith(_NOT_THEIRS) and "/site-packages/" not in file:
            found = file, frame.f_lineno
        frame = frame.f_back
    return None


@dataclass(frozen=True)
class Evidence:
    """Where the time of a training went.

    Args:
        cores: Cores that a process could use.
        busy_share: Share of the time in which the GPU, or the cores, were at work; None if unknown.
        is_gpu: Which of them.
        padding_share: Share of the frames of all batches that only filled up; None if unknown.
        bf16_gain: Seconds of a step in fp32 by those in bf16, where both were measured.
        compile_seconds: Seconds of torch.compile before the second step.
        num_videos: Videos that every epoch decoded anew; looked at where data is waited for.
        decoded_bytes: What their frames take in the size of the training.
        frame_side: That size, in pixels.
        free_bytes: On the disk of the cache.
    """

    timing_seconds: Mapping[str, float]
    cores: int
    ranks: int = 1
    num_evals: int = 0
    busy_share: float | None = None
    is_gpu: bool = False
    padding_share: float | None = None
    bf16_gain: float | None = None
    compile_seconds: float = 0.0
    waits: tuple[Wait, ...] = ()
    num_videos: int = 0
    decoded_bytes: int = 0
    frame_side: int = 0
    free_bytes: int = 0

    @property
    def seconds(self) -> float:
        """All that was measured."""
        return sum(self.timing_seconds.values())


def write_evidence(folder: Path, evidence: Evidence) -> None:
    """Write what the training in a folder has measured."""
    write_object(folder / TIMING_NAME, asdict(evidence))


# How a field of a stranger's file is read, by its type.
_READ: Mapping[Any, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": lambda value: value is True,
    "float | None": lambda value: None if value is None else float(value),
}


def _read_fields(kind: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    known = {field.name: field.type for field in fields(kind) if field.type in _READ}
    return {name: _READ[kind](values[name]) for name, kind in known.items()}


def read_evidence(folder: Path) -> Evidence:
    """Return what the training in a folder measured; `RunError` where that is nothing yet."""
    path = folder / TIMING_NAME
    values = read_object(path)
    if not values:
        raise RunError(
            "{folder} has measured nothing yet: wait until it has taken some steps", folder=folder
        )
    try:
        seconds = {part: float(values["timing_seconds"][part]) for part in PARTS}
        waits = tuple(Wait(**_read_fields(Wait, wait)) for wait in values["waits"])
        return Evidence(seconds, waits=waits, **_read_fields(Evidence, values))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(
            "{path} is not what posemill wrote: {error!r}", path=path, error=error
        ) from error
