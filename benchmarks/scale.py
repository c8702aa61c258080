"""A thousand workers and ten million frames, simulated, on the real coordinator and its records.

    python -m benchmarks.scale [--workers 100] [--frames 100000] [--clip-frames 115] [--speed 30]
                               [--task-frames 512] [--scratch FOLDER] [--json]

Real: listing, plan, ledger, coordinator, lease, commit records, every put of a shard and the check
of all at the end, at a place that is a folder (in memory where there is /dev/shm). Simulated:
the workers. Each says after as many seconds as its frames take that a shard is written; the shard
is a few bytes instead of keypoints, its record is a true one. Seconds are those of a simulated
clock, which also moves on by the CPU time that the coordinator needs for each event: workers that
wait for it are idle, as they would be.

Half of the frames are done by one machine (cache folder), which then is gone; another one, which
knows nothing, goes on with the run to its end. A third one builds the ledger from the records.
Last, another run with 64 workers on two machines, of which one goes away with its 32 in the middle:
as many frames are missing at its end as `frames_missing` says.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.shared.measuring import Measured, make_parser, report, run_alone, say
from posemill.config import ExtractConfig
from posemill.executors import Died, Event, Finished, MakeFunction, Output
from posemill.jobs.extract import run as extract_run
from posemill.jobs.extract.job import FrameJob, Task
from posemill.places import open_place
from posemill.records import Clip
from posemill.runs.events import Committed, Piece, Shard, UnitProgress
from posemill.runs.home import RunHome
from posemill.runs.manifest import LEDGER_NAME
from posemill.runs.queries import Unit
from posemill.runs.reader import open_run
from posemill.runs.records import PREFIX
from posemill.sources.clip_list import ClipList, Collector

_STATE_BYTES = 8876  # of the tracker of `holistic` within a clip
_CLOCKS = ("jobs.extract.coordinator", "runs.log", "machine.live_files")
_REBUILD = """
import sys, time
from posemill.runs.home import RunHome
begun = time.perf_counter(), time.process_time()
RunHome.at(sys.argv[1])
print(time.perf_counter() - begun[0], time.process_time() - begun[1])
"""


class MachineGoneError(Exception):
    """Ends the first half as a kill does: nothing after it is done."""


class Clock:
    """Stands for the module `time` where the coordinator asks for it."""

    time = staticmethod(time.time)

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Return the simulated seconds."""
        return self.now


@dataclass(order=True)
class _Piece:
    """Something that a worker will have done at a time."""

    at: float
    worker: int
    task: Task = field(compare=False)
    commit: Committed = field(compare=False)
    rest: Iterator[tuple[int, Committed]] = field(compare=False)


class SimulatedExecutor:
    """Workers that need so many seconds for a frame, and do nothing in them.

    Args:
        num_workers: How many.
        clock: Moved on.
        speed: Frames per second of a worker, on average.
        stop_after: Frames after which the coordinator's machine is gone.
        half_until: Frames after which the second half of the workers is gone, with their machine.
    """

    def __init__(
        self,
        num_workers: int,
        clock: Clock,
        speed: float,
        *,
        stop_after: int = sys.maxsize,
        half_until: int = sys.maxsize,
    ) -> None:
        rng = random.Random(num_workers)
        self.num_workers = num_workers
        self.clock = clock
        # Machines differ, and so do frames: the fastest worker is half again the slowest.
        self._seconds = [rng.uniform(0.8, 1.2) / speed for _ in range(num_workers)]
        self._stop_after, self._half_until = stop_after, half_until
        self._busy: dict[int, Task] = {}
        self._free_since = dict.fromkeys(range(num_workers), clock.now)
        self.began_at = 0.0  # by the real clock
        self.began, self.ended = clock.now, clock.now
        self.num_tasks = self.num_frames = 0
        self.cpu_seconds = self.waited_seconds = self.last_wait_seconds = 0.0

    def run(
        self, make_function: MakeFunction, next_task: Callable[[], Any | None]
    ) -> Iterator[Event]:
        """Yield what happens, see `Executor.run`."""
        job = make_function.args[0]  # type: ignore[attr-defined]
        under_way: list[_Piece] = []
        while True:
            for worker in list(self._free_since):
                task = self._charged(next_task)
                if task is None:
                    break
                self.began_at = self.began_at or time.perf_counter()
                self.num_tasks += 1
                self.waited_seconds += self.clock.now - self._free_since.pop(worker)
                self._busy[worker] = task
                self._go_on(under_way, worker, task, _pieces_of(task, job))
            if not under_way:
                break
            piece = heapq.heappop(under_way)
            self.clock.now = max(self.clock.now, piece.at)
            self.num_frames += sum(unit.num_rows for unit in piece.commit.units)
            yield from self._told(Output(piece.task, piece.commit))
            if self.num_frames >= self._stop_after:
                raise MachineGoneError
            if self.num_frames >= self._half_until:
                self._half_until = sys.maxsize
                yield from self._lose_half(under_way)
                if piece.worker not in self._busy:
                    continue
            if not self._go_on(under_way, piece.worker, piece.task, piece.rest, since=piece.at):
                self._free_since[piece.worker] = piece.at
                del self._busy[piece.worker]
                yield from self._told(Finished(piece.task))
        self.ended = self.clock.now
        self.last_wait_seconds = sum(self.ended - since for since in self._free_since.values())

    def _go_on(
        self,
        under_way: list[_Piece],
        worker: int,
        task: Task,
        rest: Iterator[tuple[int, Committed]],
        *,
        since: float | None = None,
    ) -> bool:
        """Begin the next piece of a task; return whether there is one."""
        num_frames, commit = next(rest, (0, None))
        if commit is None:
            return False
        seconds = num_frames * self._seconds[worker]
        at = (self.clock.now if since is None else since) + seconds
        heapq.heappush(under_way, _Piece(at, worker, task, commit, rest))
        return True

    def _lose_half(self, under_way: list[_Piece]) -> Iterator[Event]:
        """End the second half of the workers for good, as a machine does that goes away."""
        for worker in range(self.num_workers // 2, self.num_workers):
            self._free_since.pop(worker, None)
            task = self._busy.pop(worker, None)
            if task is not None:
                reason = "its machine is gone"
                yield from self._told(
                    Died(task, (0, 0, 2, 0), reason, worker, is_from_outside=True)
                )
        under_way[:] = [piece for piece in under_way if piece.worker in self._busy]
        heapq.heapify(under_way)

    def _told(self, event: Event) -> Iterator[Event]:
        begun = time.thread_time()
        yield event
        self._charge(begun)

    def _charged(self, call: Callable[[], Any | None]) -> Any | None:
        begun = time.thread_time()
        try:
            return call()
        finally:
            self._charge(begun)

    def _charge(self, begun: float) -> None:
        """Count what the coordinator took since then; nobody is served meanwhile."""
        taken = time.thread_time() - begun
        self.cpu_seconds += taken
        self.clock.now += taken

    def ask_to_stop(self) -> None:
        """Nobody asks."""

    def places(self) -> list[tuple[Any, tuple[int, ...]]]:
        """Return the task and a place of every busy worker."""
        return [(task, (0, 0, 2, 0)) for task in self._busy.values()]


def _pieces_of(task: Task, job: FrameJob) -> Iterator[tuple[int, Committed]]:
    """Yield the commits of a task as `Worker` makes them, and how many frames each takes."""
    place, piece_frames = job.home.place, job.config.task_frames
    done: list[UnitProgress] = []
    pieces: list[Piece] = []
    num_rows = num_shards = 0
    for position, unit in enumerate(task.units):
        stop = unit.clip.num_frames or 0
        at = unit.next_frame
        while at < stop:
            number = min(stop - at, piece_frames - num_rows)
            found = json.dumps([[number] * 4, [[210, 260, number]]], separators=(",", ":"))
            pieces.append(Piece(unit.clip_no, at, num_rows, number, unit.unit_no, found))
            at, num_rows = at + number, num_rows + number
            done.append(_progress(unit, at, number, is_done=at == stop))
            is_last = at == stop and position == len(task.units) - 1
            if num_rows == piece_frames or is_last:
                name = f"{task.name}-{num_shards:04d}.parquet"
                place.put(f"shards/{name}", name.encode())
                shard = Shard(name, len(name), tuple(pieces))
                yield num_rows, Committed(shard, tuple(done))
                done, pieces, num_rows, num_shards = [], [], 0, num_shards + 1


def _progress(unit: Unit, at: int, num_rows: int, *, is_done: bool) -> UnitProgress:
    state = None if is_done else random.randbytes(_STATE_BYTES)
    return UnitProgress(unit.unit_no, unit.clip_no, unit.clip.split, at, state, is_done, num_rows,
                        ())  # fmt: skip


def make_clips(num_frames: int, clip_frames: int) -> ClipList:
    """Return made-up folders of frames of about that length, so many frames in all."""
    rng, collector = random.Random(1), Collector("frames", "/data")
    left = num_frames
    while left:
        number = min(left, max(16, round(rng.gauss(clip_frames, clip_frames / 2.5))))
        name = f"clips/{left:09d}"
        clip = Clip(name, f"/data/train/{name}", "frames", "train", number, label="A B C",
                    version=f"{left:032x}")  # fmt: skip
        collector.add(clip)
        left -= number
    return collector.finish("")


def half_run(
    options: argparse.Namespace,
    clips: ClipList,
    machine: Path,
    stop_after: int,
    *,
    half_until: int = sys.maxsize,
) -> tuple[SimulatedExecutor, float]:
    """Work on the run from a machine; return its executor, and seconds till its first task."""
    os.environ["POSEMILL_CACHE"] = str(machine)
    clock = Clock()
    executor = SimulatedExecutor(
        options.workers, clock, options.speed, stop_after=stop_after, half_until=half_until
    )
    config = ExtractConfig(
        Path("/data"), options.place, engine="fake", mode="video", layout="frames",
        executor="threads", workers=options.workers, task_frames=options.task_frames,
    )  # fmt: skip
    with ExitStack() as stack:
        stack.enter_context(suppress(MachineGoneError))
        for name in _CLOCKS:
            stack.enter_context(patch(f"posemill.{name}.time", clock))
        stack.enter_context(
            patch.object(extract_run, "find_executor", lambda _: lambda *_: executor)
        )
        begun = time.perf_counter()
        extract_run.extract(config, clips=clips)
    return executor, executor.began_at - begun


def measure(options: argparse.Namespace, scratch: Path) -> dict[str, Measured]:
    """Return what the simulation came to."""
    options.place = (scratch / "bucket" / "run").as_uri()
    imported_mb = peak_mb()
    clips = make_clips(options.frames, options.clip_frames)
    halves, starts = [], []
    for machine, stop_after in (("first", options.frames // 2), ("second", sys.maxsize)):
        executor, start_seconds = half_run(options, clips, scratch / machine, stop_after)
        halves.append(executor)
        starts.append(start_seconds)
        say(f"{machine} machine: {executor.num_frames:,} frames, {peak_mb():.0f} MB")
    coordinator_mb = peak_mb()
    begun = time.perf_counter()
    half_run(options, clips, scratch / "second", sys.maxsize)
    again_seconds = time.perf_counter() - begun

    os.environ["POSEMILL_CACHE"] = str(scratch / "third")
    rebuilt = run_alone([sys.executable, "-c", _REBUILD, options.place])
    rebuild_seconds, rebuild_cpu = map(float, rebuilt.stdout.split())
    ledger = RunHome.at(options.place).work / LEDGER_NAME
    sizes = [entry.num_bytes for entry in open_place(options.place).list(PREFIX)]

    num_tasks = sum(each.num_tasks for each in halves)
    cpu_seconds = sum(each.cpu_seconds for each in halves)
    last = halves[1]
    shares = [100 / ((last.ended - last.began) * last.num_workers) * seconds
              for seconds in (last.last_wait_seconds, last.waited_seconds)]  # fmt: skip
    commits = sorted(sizes)[:-1]  # the largest is the plan
    return {
        "coordinator_ms": Measured(
            1000 * cpu_seconds / num_tasks,
            note=f"{num_tasks:,} tasks of {len(clips):,} clips, {options.workers} workers",
        ),
        "coordinator_busy": Measured(
            100 * cpu_seconds / sum(each.clock.now - each.began for each in halves),
            note=f"of {sum(each.clock.now for each in halves):.0f} simulated seconds",
        ),
        "peak_mb": Measured(coordinator_mb, note=f"{imported_mb:.0f} MB of it imports"),
        "ledger_mb": Measured(ledger.stat().st_size / 1e6),
        "records_mb": Measured(
            sum(sizes) / 1e6,
            note=f"{len(sizes)} records, the plan {max(sizes) / 1e6:.2f} MB, others "
            f"{sum(commits) / len(commits) / 1e3:.1f} kB on average, at most "
            f"{commits[-1] / 1e3:.1f} kB",
        ),
        "begin_seconds": Measured(starts[0], note="to the first task of a new run"),
        "resume_seconds": Measured(starts[1], note="elsewhere; after a kill 30 s more"),
        "rebuild_seconds": Measured(
            rebuild_seconds, note=f"{rebuild_cpu:.1f} s of CPU, {rebuilt.peak_mb:.0f} MB"
        ),
        "again_seconds": Measured(again_seconds, note="the same command when all is done"),
        "idle_at_the_end": Measured(shares[0], note=f"of {last.ended:.0f} s of all workers"),
        "idle_before": Measured(shares[1], note="waiting for the coordinator"),
        "frames_missing": lose_a_machine(options, scratch),
    }


def lose_a_machine(options: argparse.Namespace, scratch: Path) -> Measured:
    """Return how many frames are missing in a run whose second machine went away in the middle."""
    options = argparse.Namespace(**vars(options))
    options.place, options.workers = (scratch / "bucket" / "two-machines").as_uri(), 64
    clips = make_clips(options.frames, options.clip_frames)
    executor, _ = half_run(
        options, clips, scratch / "fourth", sys.maxsize, half_until=options.frames // 2
    )
    run = open_run(options.place)
    done = run.num_frames if run.is_finished else 0
    note = f"{done:,} there, {executor.num_frames:,} done by 64 workers, 32 of them till the middle"
    return Measured(options.frames - done, note=note)


def peak_mb() -> float:
    """Return the largest memory that this process had so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024**2 if sys.platform == "darwin" else 1024)


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--clip-frames", type=int, default=115, help="on average")
    parser.add_argument("--speed", type=float, default=30.0, help="frames/s of a worker")
    parser.add_argument("--task-frames", type=int, default=512)
    memory_disk = Path("/dev/shm")
    parser.add_argument("--scratch", default=memory_disk if memory_disk.is_dir() else None)
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="posemill-scale-", dir=options.scratch))
    try:
        report(measure(options, scratch), as_json=options.json)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
