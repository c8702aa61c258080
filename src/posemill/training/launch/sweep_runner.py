"""Runs the jobs of a sweep side by side, each in its own process with its share of the machine."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from posemill.errors import RunError
from posemill.files import check_own_parts
from posemill.machine.limited_child import Share, divide_machine
from posemill.machine.live_files import LIVE_NAME, LogFile, read_live, write_live
from posemill.machine.processes import python_command, thread_variables
from posemill.machine.trials import describe_exit
from posemill.messages import Message
from posemill.training.launch.sweep import Sweep, SweepJob
from posemill.training.record.live import (
    LOCK_NAME,
    LOG_NAME,
    SWEEP_NAME,
    hold,
    is_lock,
    read_object,
    write_object,
)
from posemill.training.runs.status import LEFT_OUT_NAME, SWEEP_FILES

_KIND = "posemill-sweep"
_POLL_SECONDS = 0.1
_GRACE_SECONDS = 20.0


def _run_jobs(
    sweep: Sweep, num_jobs: int, command: Sequence[str]
) -> Generator[tuple[str, SweepJob, str], None, None]:
    """Run what has not finished yet; yield `started`, `done` or `failed`, the job, the reason.

    Who reads no further, by an interrupt (Ctrl-C) say, ends the running jobs, gently at first.
    """
    free = divide_machine(num_jobs)
    waiting = [job for job in sweep.jobs if job.summary is None]
    running: dict[subprocess.Popen[bytes], tuple[SweepJob, Share]] = {}
    try:
        while waiting or running:
            while waiting and free:
                job, share = waiting.pop(0), free.pop(0)
                running[_start(sweep, job, share, command)] = job, share
                yield "started", job, ""
            for process in [process for process in running if process.poll() is not None]:
                job, share = running.pop(process)
                free.append(share)
                if process.returncode == 0 and job.summary is not None:
                    yield "done", job, ""
                else:
                    yield "failed", job, _reason(job.folder / LOG_NAME, process.returncode)
            time.sleep(_POLL_SECONDS if running else 0)
    finally:
        _end(running)


def _start(
    sweep: Sweep, job: SweepJob, share: Share, command: Sequence[str]
) -> subprocess.Popen[bytes]:
    job.folder.mkdir(parents=True, exist_ok=True)
    config = job.folder / "config.toml"
    config.write_text(sweep.resolve(job, cores=share.num_threads).to_toml(), encoding="utf-8")
    resume = ["--resume"] if (job.run_folder / "run.json").is_file() else []
    with (job.folder / LOG_NAME).open("ab") as log:
        return subprocess.Popen(
            share.command(*command, str(config), *resume),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **thread_variables(share.num_threads)},
            # Ctrl-C in the terminal reaches us alone; we tell the jobs.
            start_new_session=True,
        )


def _end(running: Iterable[subprocess.Popen[bytes]]) -> None:
    """Interrupt what still runs, and kill it where that does not help."""
    for process in running:
        _signal(process, signal.SIGINT)
    deadline = time.monotonic() + _GRACE_SECONDS
    for process in running:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))
            process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """Signal a job and whatever it has started: it leads a session of its own."""
    with suppress(ProcessLookupError):
        if process.poll() is None and hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        elif process.poll() is None:
            process.send_signal(number)


def _reason(log: Path, code: int) -> str:
    """The last line a failed job wrote, and how it ended."""
    lines = [line for line in log.read_text("utf-8", errors="replace").splitlines() if line.strip()]
    ended = describe_exit(code) if code < 0 else Message("exit code {code}", code=code)
    return f"{ended}: {lines[-1].strip()}" if lines else ended


def run_sweep(
    sweep: Sweep,
    *,
    num_jobs: int = 1,
    report: Callable[[str, SweepJob], None] | None = None,
    command: Sequence[str] = (),
) -> Mapping[str, str]:
    """Run a sweep, so many jobs side by side; return the reasons of those that failed, by name.

    `report` is told `started`, `done` or `failed` and the job; `command` is how a training is
    started, `posemill train` by default.
    """
    sweep.out.mkdir(parents=True, exist_ok=True)
    check_own_parts(sweep.out, SWEEP_FILES, ())
    refuse_foreign_parts(sweep)
    failures: dict[str, str] = {}
    with hold(sweep.out, what="sweep"), closing(LogFile(sweep.out / LOG_NAME)) as log:
        write_record(sweep, num_jobs)
        log.write(f"start: pid {os.getpid()}, {num_jobs} side by side")
        events = _run_jobs(sweep, num_jobs, command or python_command("posemill", "train"))
        with closing(events):
            for event, job, reason in events:
                if reason:
                    failures[job.name] = reason
                write_live(sweep.out, {**read_live(sweep.out), "failures": failures})
                log.write(f"{job.name} {event}{f': {reason}' if reason else ''}")
                if report is not None:
                    report(event, job)
    return failures


def refuse_foreign_parts(sweep: Sweep, *more: str) -> None:
    """Raise RunError where a name that a new sweep would write is taken by something else."""
    is_ours = read_object(sweep.out / SWEEP_NAME).get("kind") == _KIND
    if is_ours or is_lock(sweep.out):  # begun, or killed before its record
        return
    names = (SWEEP_NAME, LOCK_NAME, LOG_NAME, LIVE_NAME, LEFT_OUT_NAME, *more)
    for name in (*names, *(job.name for job in sweep.jobs)):
        path = sweep.out / name
        if os.path.lexists(path) and not (path.is_dir() and not any(path.iterdir())):
            raise RunError(
                "{path} is there and is no part of a sweep; choose another {--out}", path=path
            )


def write_record(sweep: Sweep, num_jobs: int) -> None:
    """Write `sweep.json`: which trainings there are, and from which file."""
    record = {
        "kind": _KIND,
        "started_by": sweep.started_by,
        "file": str(sweep.path.resolve()),
        "workers": num_jobs,
        "trainings": [{"name": job.name, "changes": dict(job.changes)} for job in sweep.jobs],
    }
    write_object(sweep.out / SWEEP_NAME, record)
