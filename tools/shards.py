"""Run the tests in shards, the longest first, four at a time, each in a process of its own.

    python -m tools.shards [--preload MODULES] [--record] [--slowest N] [--beside COMMAND] [PATH …]

in the folder of the project.

A shard is a list of neighbouring test files: what a folder's tests share is made once. If a shard
dies (a signal, a time limit), the test it was in has failed, and a new process runs the tests after
it. It ends with `N passed, N failed, N skipped`; the exit code is 0 if nothing failed.
`--preload` loads slow modules once: the process of a shard is a copy of this one.
`--record` writes the CPU seconds of each file, those of its children included, to
tests/durations.json, from which the next run cuts its shards. `--beside` runs a command, such as
the linters, as one of the jobs.

This module is also the plugin (`-p tools.shards`) that notes the outcome of each test of a shard.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import json
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import pytest

from tools.warm_python import copy_warm

TESTS, DURATIONS = Path("tests"), Path("tests/durations.json")  # in the current folder
NOTES = "POSEMILL_TEST_NOTES"  # variables of the environment
WARM = "POSEMILL_TEST_PYTHON"  # a Python that has loaded what this process has
TIMED = "POSEMILL_TEST_SECONDS"  # to count the seconds of children, too: 0.5 ms, twice a test
SLOTS = 4  # on two cores: some tests wait, and meanwhile others run
SHARDS_LEFT = 6.0  # of the size of the next shard
LEAST_SECONDS = 20.0  # of CPU: each shard collects its tests and starts what they share, 3 seconds
NEW_FILE_SECONDS = 2.0  # of a file without a recorded duration
SILENT_SECONDS = 900.0  # above the time limit of a test: ends what hangs outside of tests
MEMORY_FOLDER, MEMORY_BYTES = Path("/dev/shm"), 4 * 2**30
DOTS = re.compile(r"^[.sxXFE]+( +\[ *\d+%\])?$\n?", re.MULTILINE)  # lines of pytest's progress
DIED = "died"  # noted when a test begins, and replaced by its outcome
END = "end of the process"  # noted like a test
NO_TESTS = 5  # an exit code of pytest


class NoteTaker:
    """Notes the outcome of each test, as a line of JSON: name, outcome, seconds of CPU."""

    def __init__(self, path: Path) -> None:
        self._known = read_notes(path)
        self._file = path.open("a", encoding="utf-8")
        self._clock = cpu_seconds if os.environ.pop(TIMED, "") else time.process_time
        self._outcome, self._cpu_before = "", 0.0

    def _note(self, name: str, outcome: str, seconds: float = 0.0) -> None:
        self._file.write(json.dumps([name, outcome, round(seconds, 3)]) + "\n")
        self._file.flush()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what an earlier process of this shard began."""
        items[:] = [item for item in items if item.nodeid not in self._known]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that is skipped, or that cannot be imported."""
        if report.outcome != "passed":
            self._note(report.nodeid, report.outcome)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note the test before it can take the process down."""
        self._outcome, self._cpu_before = "passed", self._clock()
        self._note(nodeid, DIED)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember the worst of set-up, call and tear-down."""
        if self._outcome != "failed" and report.outcome != "passed":
            self._outcome = report.outcome

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Note the outcome of the test."""
        self._note(nodeid, self._outcome, self._clock() - self._cpu_before)

    def pytest_sessionfinish(self) -> None:
        """Note that the process came to its end."""
        self._note(END, "finished")


def cpu_seconds() -> float:
    """Return what this process and its children have taken; other work changes it little."""
    ticks = 0
    for listing in Path("/proc/self/task").glob("*/children"):  # those that have not ended
        pids = []
        with suppress(OSError):  # the thread has ended
            pids = listing.read_text().split()
        for pid in pids:
            with suppress(OSError):  # the child has ended
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:15]))  # its own, and of its ended children
    return sum(os.times()[:4]) + ticks / os.sysconf("SC_CLK_TCK")


def pytest_configure(config: pytest.Config) -> None:
    """Take notes in the process of a shard."""
    if NOTES in os.environ:
        config.pluginmanager.register(NoteTaker(Path(os.environ.pop(NOTES))))


def read_notes(path: Path) -> dict[str, tuple[str, float]]:
    """Return the outcome and the seconds of each test by its name, and of `END`."""
    if not path.exists():
        return {}
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {name: (outcome, seconds) for name, outcome, seconds in rows}


@dataclass
class Job:
    """A shard, or a command beside the shards."""

    name: str
    arguments: list[str]  # of pytest, or the command
    folder: Path  # of its own: notes, output, temporary files
    environment: dict[str, str]
    is_shard: bool = True
    deaths: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    has_failed: bool = False
    num_notes: int = 0  # before the process that runs now
    started_at: float = 0.0  # the first process
    process_started_at: float = 0.0
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def notes(self) -> Path:
        """What the plugin writes."""
        return self.folder / "notes"


def start(job: Job) -> int:
    """Return the process of a job: a copy of this one, which loads nothing again."""
    job.process_started_at = time.time()
    job.started_at = job.started_at or job.process_started_at
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        with Path(os.devnull).open() as nothing, (job.folder / "output").open("ab") as output:
            for number, file in enumerate((nothing, output, output)):
                os.dup2(file.fileno(), number)
        os.environ.clear()
        os.environ.update(job.environment)
        tempfile.tempdir = None  # chosen anew, by the environment
        if not job.is_shard:
            os.execvp(job.arguments[0], job.arguments)
        with warm_python(job):
            code = pytest.main(job.arguments)
            threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as Python does
            atexit._run_exitfuncs()
    except BaseException:  # noqa: BLE001  a copy must not go on with the work of the original
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@contextmanager
def warm_python(job: Job) -> Iterator[None]:
    """Name a Python for processes of tests in the environment, if posemill has been loaded."""
    if "posemill" not in sys.modules:
        yield
        return
    folder = Path(tempfile.mkdtemp(prefix="warm-", dir=job.folder))
    with copy_warm(folder) as python:
        os.environ[WARM] = python.executable
        yield


class Runner:
    """Runs jobs, some at a time, and can end them all."""

    def __init__(self, jobs: list[Job]) -> None:
        self._waiting = list(reversed(jobs))
        self._running: dict[int, Job] = {}  # by their processes

    def ended(self) -> Iterator[Job]:
        """Run the jobs; yield each at its end."""
        while self._waiting or self._running:
            while self._waiting and len(self._running) < SLOTS:
                job = self._waiting.pop()
                self._running[start(job)] = job
            for pid, job in list(self._running.items()):
                # Not `os.waitpid`: it does not tell what the process has taken.
                ended_pid, status, usage = os.wait4(pid, os.WNOHANG)
                if ended_pid:
                    del self._running[pid]
                    kill_group(pid)  # what its tests have left
                    job.cpu_seconds += usage.ru_utime + usage.ru_stime
                    if self._is_over(job, os.waitstatus_to_exitcode(status)):
                        yield job
                    else:
                        self._waiting.append(job)
                elif time.time() - last_note(job) > SILENT_SECONDS:
                    kill_group(pid)
            time.sleep(0.1)

    def _is_over(self, job: Job, code: int) -> bool:
        """Take down how a process of a job has ended; return whether the job has, too."""
        notes = read_notes(job.notes)
        if job.is_shard and END not in notes:
            reason = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            begun = [name for name, (outcome, _) in notes.items() if outcome == DIED]
            job.deaths.append(f"{reason} in {begun[-1] if begun else 'no test'}")
            # Without a new note the next process would die at the same place.
            if len(notes) > job.num_notes:
                job.num_notes = len(notes)
                return False
        job.counts = Counter(outcome for name, (outcome, _) in notes.items() if name != END)
        job.counts["failed"] += job.counts.pop(DIED, 0)
        job.has_failed = code not in (0, NO_TESTS) or bool(job.deaths or job.counts["failed"])
        job.seconds = time.time() - job.started_at
        return True

    def stop(self) -> None:
        """Interrupt every process, and kill those that are there after five seconds."""
        for pid in self._running:
            os.kill(pid, signal.SIGINT)
        deadline = time.monotonic() + 5.0
        while self._running and time.monotonic() < deadline:
            for pid in list(self._running):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    kill_group(pid)
                    del self._running[pid]
            time.sleep(0.05)
        for pid in self._running:
            kill_group(pid)


def last_note(job: Job) -> float:
    """Return when the process of a job has last noted something, or began."""
    noted_at = job.notes.stat().st_mtime if job.notes.exists() else 0.0
    return max(noted_at, job.process_started_at)


def kill_group(pid: int) -> None:
    """Kill a process and what it has started."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def split_files(files: list[str], seconds: Mapping[str, float]) -> list[list[str]]:
    """Return lists of neighbouring files, each a part of what is left: the last ones are short."""
    weights = [seconds.get(file, NEW_FILE_SECONDS) for file in files]
    shards: list[list[str]] = []
    left, taken, share = sum(weights), 0.0, 0.0
    for file, weight in zip(files, weights, strict=True):
        if not shards or taken + weight / 2 > share:
            shards.append([])
            taken, share = 0.0, max(LEAST_SECONDS, left / SHARDS_LEFT)
        shards[-1].append(file)
        taken, left = taken + weight, left - weight
    return shards


def make_jobs(paths: list[Path], beside: str, base: Path) -> list[Job]:
    """Return the command beside the shards, and a job for each shard of the tests below paths."""
    files = sorted({
        os.path.relpath(file)
        for path in paths
        for file in ([path] if path.is_file() else path.rglob("test_*.py"))
    })  # fmt: skip
    seconds = read_durations()
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",  # threads of two shards on two cores would wait for each other
        "OMP_WAIT_POLICY": "passive",  # and spin while they do
        "TMPDIR": str(base),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes would compile anew
    jobs = []
    if beside:
        jobs = [Job(beside, shlex.split(beside), base / "beside", environment, is_shard=False)]
    shards = split_files(files, seconds)
    # The longest first: what is left at the end is short, and all slots end at about the same time.
    shards.sort(key=lambda shard: -sum(seconds.get(file, NEW_FILE_SECONDS) for file in shard))
    for index, shard in enumerate(shards, 1):
        folder = base / str(index)
        options = ["-q", "-p", "tools.shards", "--continue-on-collection-errors"]
        options.append(f"--basetemp={folder / 't'}")
        name = f"shard {index} of {len(shards)}, {shard[0]} to {shard[-1]}"
        notes = {NOTES: str(folder / "notes")}
        jobs.append(Job(name, options + shard, folder, environment | notes))
    for job in jobs:
        job.folder.mkdir()
    return jobs


def read_durations() -> dict[str, float]:
    """Return the recorded seconds of each test file."""
    return dict(json.loads(DURATIONS.read_text())) if DURATIONS.exists() else {}


def seconds_by_test(jobs: list[Job]) -> dict[str, float]:
    """Return the seconds of each test by its name."""
    return {
        name: seconds
        for job in jobs
        for name, (_, seconds) in read_notes(job.folder / "notes").items()
        if name != END
    }


def record_durations(jobs: list[Job]) -> None:
    """Write the seconds of each file that has run, and forget files that are gone."""
    seconds: dict[str, float] = defaultdict(float)
    for name, taken in seconds_by_test(jobs).items():
        seconds[name.partition("::")[0]] += taken
    all_seconds = read_durations() | {file: round(value, 1) for file, value in seconds.items()}
    rows = {file: all_seconds[file] for file in sorted(all_seconds) if Path(file).is_file()}
    DURATIONS.write_text(json.dumps(rows, indent=0) + "\n")


def run_all(jobs: list[Job]) -> bool:
    """Run the jobs; print a line for each, what failed in full, and the counts."""
    runner, began_at = Runner(jobs), time.monotonic()
    try:
        for job in runner.ended():
            tests = f"{in_words(job.counts)} in " if job.is_shard else ""
            verdict = "FAILED" if job.has_failed else "ok"
            taken = f"{job.seconds:.0f} s, {job.cpu_seconds:.0f} s of CPU"
            say(f"{verdict:6} {job.name}: {tests}{taken}")
    finally:
        runner.stop()  # nothing is left to stop but after an error or Ctrl-C
    for job in [job for job in jobs if job.has_failed]:
        output = (job.folder / "output").read_text(encoding="utf-8", errors="replace")
        say(f"\n##### {job.name}\n{DOTS.sub('', output)}")
        for death in job.deaths:
            say(f"the process died: {death}")
    cpu = sum(job.cpu_seconds for job in jobs)
    say(f"{in_minutes(time.monotonic() - began_at)} minutes, {in_minutes(cpu)} minutes of CPU")
    say(in_words(sum((job.counts for job in jobs), Counter())))
    return not any(job.has_failed for job in jobs)


def in_words(counts: Counter[str]) -> str:
    """Return the counts as pytest writes them."""
    return ", ".join(f"{counts[name]} {name}" for name in ("passed", "failed", "skipped"))


def in_minutes(seconds: float) -> str:
    """Return minutes and seconds, as in 5:07."""
    return "{}:{:02}".format(*divmod(round(seconds), 60))


def say(text: str) -> None:
    """Print a line at once, into a pipe, too."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.shards")
    parser.add_argument("paths", nargs="*", type=Path, default=[TESTS])
    parser.add_argument("--preload", default="", help="modules to load once, with commas between")
    parser.add_argument("--record", action="store_true", help="write tests/durations.json anew")
    parser.add_argument("--beside", default="", help="a command to run as one of the jobs")
    parser.add_argument("--slowest", type=int, default=0, help="show so many tests by their CPU")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's `&` ignores the first
        signal.signal(number, signal.default_int_handler)
    is_roomy = MEMORY_FOLDER.is_dir() and shutil.disk_usage(MEMORY_FOLDER).free > MEMORY_BYTES
    # In memory, where a flush to the disk costs nothing. Not `TemporaryDirectory`, which the first
    # copy of this process to end would remove.
    base = Path(tempfile.mkdtemp(prefix="posemill-", dir=MEMORY_FOLDER if is_roomy else None))
    try:
        if options.record or options.slowest:
            os.environ[TIMED] = "yes"
        jobs = make_jobs(options.paths, options.beside, base)
        # Read by libraries when they are loaded: as in the shards.
        os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
        for module in filter(None, options.preload.split(",")):
            import_module(module)
        gc.freeze()  # pages that a shard does not touch are not copied
        is_good = run_all(jobs)
        seconds = seconds_by_test(jobs)
        for name in sorted(seconds, key=lambda name: -seconds[name])[: options.slowest]:
            say(f"{seconds[name]:7.1f} s  {name}")
        if options.record:
            record_durations(jobs)
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
