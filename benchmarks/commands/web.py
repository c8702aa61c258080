"""`posemill serve` on a run of a million frames: memory, first page, pages of the table of clips.

    python -m benchmarks.commands.web [--frames 1000000] [--json]

The server runs in a process of its own and is asked over HTTP. Its CPU time is that of the server
alone, without the process that measures the clips in the background, which is waited for first.
Wanted: the first page within 1 s of the start, a page of the table under 0.3 s of CPU, and under
150 MB of memory, also after 1,000 requests at once.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import psutil

from benchmarks.shared.made_up import write_run
from benchmarks.shared.measuring import Measured, make_parser, over_rounds, report

_QUESTIONS = ("", "sort=worst", "search=0012", "split=dev&sort=jumps", "part=left_hand&missing=0.2",
              "sort=missing", "failed=1", "offset=5000")  # fmt: skip
_STARTS = 7


def main() -> None:
    """Make the run, start the server, ask, print."""
    parser = make_parser(__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--skeleton", default="holistic-143")
    parser.add_argument("--no-measuring", action="store_true", help="ask at once")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "runs"
        write_run(folder / "run", options.frames, options.skeleton, splits=("train", "dev", "test"))
        found = measure(folder, Path(name) / "cache", is_waiting=not options.no_measuring)
    report(found, as_json=options.json)


def measure(folder: Path, cache: Path, *, is_waiting: bool) -> dict[str, Measured]:
    """Return what a server of these runs takes."""
    firsts, cpus = [], []
    for _ in range(_STARTS):
        with serving(folder, cache) as (path, pid, seconds):
            firsts.append(seconds)
            cpus.append(_cpu(psutil.Process(pid)))
    with serving(folder, cache) as (path, pid, _):
        return {
            "first_page_seconds": over_rounds(firsts).noted("start of Python to the list of runs"),
            "first_page_cpu_seconds": over_rounds(cpus),
            **_ask(path, pid, is_waiting=is_waiting),
        }


@contextmanager
def serving(folder: Path, cache: Path) -> Iterator[tuple[str, int, float]]:
    """Start a server; yield the address of its run, its pid, and when it had said what runs are."""
    command = [sys.executable, "-m", "posemill", "serve", str(folder), "--port", "0"]
    environment = {**os.environ, "POSEMILL_CACHE": str(cache)}
    started = time.perf_counter()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as child:
        try:
            assert child.stderr is not None
            address = re.search(r"http://\S+/", child.stderr.readline())
            assert address is not None
            _get(address[0])
            (run,) = _json(f"{address[0]}api/runs")["runs"]
            first = time.perf_counter() - started
            yield f"{address[0]}api/runs/{run['key']}", child.pid, first
        finally:
            child.terminate()


def _ask(path: str, pid: int, *, is_waiting: bool) -> dict[str, Measured]:
    process = psutil.Process(pid)
    started = time.perf_counter()
    page: dict[str, Any] = {"is_ready": False}
    while not page["is_ready"] or (is_waiting and page["is_measuring"]):
        page = _json(f"{path}/clips")
        time.sleep(0.2)
    measured = time.perf_counter() - started
    worst = 0.0
    for question in _QUESTIONS:
        before = _cpu(process)
        page = _json(f"{path}/clips?{question}")
        worst = max(worst, _cpu(process) - before)
    clips = _json(f"{path}/clips")["clips"]
    # The pictures of the table, as many at a time as a browser asks for.
    names = [urlencode({"split": clip["split"], "id": clip["clip_id"]}) for clip in clips]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(_get, [f"{path}/points?{name}&start=50&count=1" for name in names]))
    clip = clips[0]
    before = _cpu(process)
    _json(f"{path}/clip?split={clip['split']}&id={clip['clip_id']}")
    _get(f"{path}/points?split={clip['split']}&id={clip['clip_id']}")
    player = _cpu(process) - before
    before, wall = _cpu(process), time.perf_counter()
    with ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(_status, [f"{path}/clips?sort=worst"] * 1000))
    wall = time.perf_counter() - wall
    busy = answers.count(503)
    return {
        "clips_measured_seconds": Measured(measured, note=f"{page['num_clips']:,} clips"),
        "page_cpu_seconds": Measured(worst, note=f"the worst of {len(_QUESTIONS)} questions"),
        "player_cpu_seconds": Measured(player),
        "thousand_seconds": Measured(wall, note=f"{busy} of 1,000 were told to come again"),
        "thousand_cpu_seconds": Measured(_cpu(process) - before),
        "peak_mb": Measured(_peak_mb(pid)),
    }


def _get(address: str) -> bytes:
    with urlopen(address, timeout=120) as answer:
        content: bytes = answer.read()
    return content


def _json(address: str) -> Any:
    return json.loads(_get(address))


def _status(address: str) -> int:
    try:
        _get(address)
    except HTTPError as error:
        return error.code
    return 200


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _peak_mb(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(text.partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    main()
