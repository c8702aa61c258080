"""A Ray cluster of two nodes: the same rows as one machine, whatever ends, and what it costs.

    python -m benchmarks.datasets.two_nodes [--kills 10] [--rounds 3] [--seed 1] [--json]

Two nodes of one CPU each, on 127.0.0.2 and 127.0.0.3 of a network namespace of their own (root, or
a user who may make one). Made-up keypoints: the finished run is compared with one of this machine's
processes, row for row; then the second node is killed with all its workers at a random moment and
started again, run after run; then the driver is killed and the command repeated. Real keypoints:
wall time of many clips less that of few, so without any start-up, of the cluster and of two local
processes, all four in turns; each round is a ratio. On a quiet machine only.
"""

from __future__ import annotations

import itertools
import os
import random
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import psutil

import posemill
from benchmarks.datasets.faults import rows_of
from benchmarks.shared.measuring import (
    Measured,
    in_turns,
    make_parser,
    not_here,
    ratio,
    report,
)
from posemill.weights.pull import ensure_media

_HEAD, _NODE, _PORT = "127.0.0.2", "127.0.0.3", 6399
_CLIPS = 12
_OVERHEAD_CLIPS = {"few": 4, "many": 20}  # of 120 frames
_FRAMES = 60
_FAKE = ("--engine", "fake", "--engine-option", "seconds_per_frame=0.02", "--task-frames", "32")


class Cluster:
    """The two nodes; the second can be killed as a machine is, and started again."""

    def __init__(self) -> None:
        os.environ.update(
            RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32),
            RAY_USAGE_STATS_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0",
            PYTHONPATH=os.pathsep.join(path for path in sys.path if path),
        )  # fmt: skip
        self._head = self._start(_HEAD, "--head", f"--port={_PORT}", "--include-dashboard=false")
        self._wait_for(1)
        self.start_node()

    def start_node(self) -> None:
        """Let the second node join."""
        self._node = self._start(_NODE, f"--address={_HEAD}:{_PORT}")
        self._wait_for(2)

    def kill_node(self) -> None:
        """End the second node with all that runs on it, without a word."""
        _kill_all(self._node)

    def close(self) -> None:
        """End both."""
        _kill_all(self._node)
        _kill_all(self._head)

    def _start(self, address: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1",
                   f"--node-ip-address={address}", "--disable-usage-stats", *arguments]  # fmt: skip
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _wait_for(self, num_nodes: int) -> None:
        code = (
            "import ray, sys; ray.init(address=sys.argv[1], logging_level=40, log_to_driver=False);"
            "sys.exit(sum(n['Alive'] for n in ray.nodes()) != int(sys.argv[2]))"
        )
        for _ in range(40):
            command = [sys.executable, "-c", code, f"{_HEAD}:{_PORT}", str(num_nodes)]
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                return
            time.sleep(0.5)
        raise SystemExit(f"the Ray cluster has not {num_nodes} nodes after a minute")


def _kill_all(process: subprocess.Popen[bytes]) -> None:
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(process.pid)
        for each in [*root.children(recursive=True), root]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
    process.wait()


@contextmanager
def extraction(source: Path, out: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start `posemill extract` in a process."""
    command = [sys.executable, "-m", "posemill", "extract", str(source), "--out", str(out), *flags]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        yield process


def on_cluster(*flags: str) -> tuple[str, ...]:
    """Return the flags of a run on the two nodes."""
    return ("--executor", "ray", "--ray-address", f"{_HEAD}:{_PORT}", "--workers", "2", *flags)


def finish(process: subprocess.Popen[bytes]) -> float:
    """Return how long it takes to the end of a command that must end well."""
    begun = time.perf_counter()
    _, errors = process.communicate(timeout=300)
    if process.returncode != 0:
        raise SystemExit(f"posemill extract failed: {errors.decode()}")
    return time.perf_counter() - begun


def lose_nodes(folder: Path, cluster: Cluster, number: int, seed: int) -> dict[str, Measured]:
    """Return how many runs differ: whole ones, those whose node died, those whose driver did."""
    source, rng = folder / "frames", random.Random(seed)
    for clip in range(_CLIPS):
        (source / f"c{clip}").mkdir(parents=True)
        for index in range(_FRAMES):
            shade = np.full((24, 32, 3), 10 + (clip * 13 + index * 7) % 200, np.uint8)
            cv2.imwrite(str(source / f"c{clip}" / f"{index:04d}.png"), shade)
    with extraction(source, folder / "local", *_FAKE, "--workers", "2") as process:
        finish(process)
    wanted = rows_of(posemill.open_run(folder / "local"))
    with extraction(source, folder / "whole", *on_cluster(*_FAKE)) as process:
        seconds = finish(process)
    differ = int(rows_of(posemill.open_run(folder / "whole")) != wanted)
    lost, slowest = 0, 0.0
    for number_of in range(number):
        out = folder / f"node{number_of}"
        with extraction(source, out, *on_cluster(*_FAKE)) as process:
            time.sleep(rng.uniform(1, seconds - 1))
            cluster.kill_node()
            cluster.start_node()
            slowest = max(slowest, finish(process))
        lost += rows_of(posemill.open_run(out)) != wanted
    out = folder / "driver"
    drivers = 0
    for _ in range(3):
        with extraction(source, out, *on_cluster(*_FAKE)) as process:
            time.sleep(rng.uniform(0.5 * seconds, 0.8 * seconds))
            process.send_signal(signal.SIGKILL)
            drivers += process.wait() == -signal.SIGKILL
    with extraction(source, out, *on_cluster(*_FAKE)) as process:
        finish(process)
    return {
        "whole_differs": Measured(differ),
        "node_kills": Measured(number, note=f"at most {slowest:.0f} s more to the end"),
        "node_differs": Measured(lost),
        "driver_kills": Measured(drivers),
        "driver_differs": Measured(rows_of(posemill.open_run(out)) != wanted),
    }


def measure_overhead(folder: Path, rounds: int) -> Measured:
    """Return how much longer the cluster takes than two processes, start-up aside, in percent."""
    clip = ensure_media("carphone")
    numbers = itertools.count()
    for name, number in _OVERHEAD_CLIPS.items():
        (folder / name).mkdir()
        for index in range(number):
            (folder / name / f"clip{index}{clip.suffix}").symlink_to(clip)

    def seconds_of(name: str, flags: tuple[str, ...]) -> float:
        out = folder / f"overhead{next(numbers)}"
        with extraction(folder / name, out, *flags) as process:
            seconds = finish(process)
        shutil.rmtree(out)
        return seconds

    ways = {"ray": on_cluster(), "processes": ("--workers", "2")}
    arms = {f"{name} {way}": partial(seconds_of, name, flags)
            for name in _OVERHEAD_CLIPS for way, flags in ways.items()}  # fmt: skip
    taken = in_turns(arms, rounds, clock=None, warm_up=0)
    work = {way: [many - few for few, many in zip(taken[f"few {way}"], taken[f"many {way}"],
                                                  strict=True)] for way in ways}  # fmt: skip
    found = ratio(work["ray"], work["processes"])
    low, high = (100 * ((found.value if each is None else each) - 1)
                 for each in (found.low, found.high))  # fmt: skip
    medians = " and ".join(f"{statistics.median(work[way]):.1f} s" for way in ways)
    return Measured(100 * (found.value - 1), low, high, f"{medians}, {rounds} rounds")


def main() -> None:
    """Measure inside a network namespace of its own, and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3, help="of the overhead; 0: not measured")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if "POSEMILL_IN_NAMESPACE" not in os.environ:
        ensure_media("carphone")  # no network inside
        inside = ["unshare", "--net", "--pid", "--fork", "--mount-proc", sys.executable, "-m",
                  "benchmarks.datasets.two_nodes", *sys.argv[1:]]  # fmt: skip
        done = subprocess.run(inside, env=os.environ | {"POSEMILL_IN_NAMESPACE": "1"}, check=False)
        if done.returncode == 1:
            not_here("a network namespace could not be made, or the measurement failed")
        sys.exit(done.returncode)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory() as name:
        cluster = Cluster()
        try:
            measured = lose_nodes(Path(name), cluster, arguments.kills, arguments.seed)
            if arguments.rounds:
                measured["overhead_percent"] = measure_overhead(Path(name), arguments.rounds)
        finally:
            cluster.close()
    report(measured, as_json=arguments.json)


if __name__ == "__main__":
    main()
