"""What every benchmark shares: arms that take turns, medians with their spread, one way to print.

A benchmark's `main` makes a `{key: Measured}` and hands it to `report`. The keys are what the rows
of `benchmarks/figures.py` ask for.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import psutil

from posemill.machine.limits import count_cores

NOT_HERE = 77  # the exit code by which test programs say that they were skipped


@dataclass(frozen=True)
class Measured:
    """A number, between which two the rounds lay, and what else is worth saying."""

    value: float
    low: float | None = None
    high: float | None = None
    note: str = ""

    def noted(self, note: str) -> Measured:
        """Return the same with a note."""
        return replace(self, note=note)


def over_rounds(values: Iterable[float]) -> Measured:
    """Return the median and the middle half of the rounds; of fewer than four, all of them."""
    ordered = sorted(values)
    outer = len(ordered) // 4
    return Measured(statistics.median(ordered), ordered[outer], ordered[-1 - outer])


def ratio(above: Sequence[float], below: Sequence[float]) -> Measured:
    """Return the median of each round's ratio: what slows a whole round leaves it alone."""
    return over_rounds(a / b for a, b in zip(above, below, strict=True))


def in_turns(
    arms: Mapping[str, Callable[[], Any]],
    rounds: int,
    *,
    clock: Callable[[], float] | None = time.process_time,
    warm_up: int = 1,
) -> dict[str, list[Any]]:
    """Return what each arm took in each round by the clock; without one, what it returned.

    Another arm begins in every round, and the rounds that warm up are not counted.
    """
    names = list(arms)
    taken: dict[str, list[Any]] = {name: [] for name in names}
    for turn in range(warm_up + rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            begun = clock() if clock else 0.0
            answer = arms[name]()
            if turn >= warm_up:
                taken[name].append(clock() - begun if clock else answer)
    return taken


# Between us and the command: the peak of a process counts from the memory of who started it.
_STARTER = """
import json, os, sys, time
begun = time.perf_counter()
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(child, 0)
seconds = time.perf_counter() - begun
# Linux says kilobytes, a Mac bytes.
peak = usage.ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)
with open(sys.argv[1], "w") as handle:
    json.dump([seconds, usage.ru_utime + usage.ru_stime, peak], handle)
sys.exit(os.waitstatus_to_exitcode(status))
"""


class Usage(NamedTuple):
    """What a process used, its own children that it waited for included."""

    wall_seconds: float
    cpu_seconds: float
    peak_mb: float
    stdout: str


def run_alone(command: Sequence[str | Path], *, stdin: str = "") -> Usage:
    """Return what a command used in a process of its own; its words are shown if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "usage.json"
        starter = [sys.executable, "-S", "-c", _STARTER, told, *command]
        done = subprocess.run(starter, input=stdin, capture_output=True, text=True)
        if done.returncode:
            words = f"{' '.join(map(str, command))} ended with {done.returncode}"
            raise SystemExit(f"{done.stdout}{done.stderr}\n{words}")
        wall, cpu, peak = json.loads(told.read_text())
        return Usage(wall, cpu, peak, done.stdout)


def _read_cpuinfo() -> dict[str, str]:
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.is_file():
        return {}
    pairs = (line.split(":", 1) for line in cpuinfo.read_text().splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def describe_extensions() -> str:
    """Return what the processor has beyond the usual: on that the figures depend."""
    has = _read_cpuinfo().get("flags", "").split()
    names = {"avx2": "AVX2", "avx512f": "AVX-512", "avx512_bf16": "bf16"}
    return " ".join(name for flag, name in names.items() if flag in has)


def describe_machine() -> dict[str, str]:
    """Return the processor and the system, as the first table of the page has them."""
    model = _read_cpuinfo().get("model name", platform.processor() or platform.machine())
    memory = psutil.virtual_memory().total / 2**30
    return {
        "processor, cores, memory": f"{model}, {count_cores()} cores, {memory:.0f} GB",
        "system, Python": f"{platform.platform()}, Python {platform.python_version()}",
    }


def make_parser(documentation: str) -> argparse.ArgumentParser:
    """Return a parser with `--json`, described by a script's first line."""
    parser = argparse.ArgumentParser(description=documentation.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return parser


def say(words: str) -> None:
    """Tell how far a benchmark is, beside its result."""
    print(words, file=sys.stderr)


def not_here(reason: str) -> NoReturn:
    """End a benchmark that cannot run on this machine: no failure, a row that says why."""
    say(reason)
    raise SystemExit(NOT_HERE)


def report(found: dict[str, Measured], *, as_json: bool) -> None:
    """Print what was found, a line each, or as one line of JSON for `benchmarks/run.py`."""
    if as_json:
        print(json.dumps({key: asdict(each) for key, each in found.items()}))
        return
    for key, each in found.items():
        spread = "" if each.low is None else f"  ({each.low:.4g} to {each.high:.4g})"
        print(f"{key:34} {each.value:10.4g}{spread}  {each.note}".rstrip())
