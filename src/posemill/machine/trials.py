"""Tries in another process what may kill a process, and keeps the answer for this machine.

A processor's flags may name instructions that its hypervisor, its emulator or its kernel refuses:
the first use of them ends the process.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import signal
import subprocess
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from posemill.files import atomic_path, cache_folder, parse_json
from posemill.machine.processes import die_with_parent
from posemill.messages import Message

_CPU_FACTS = ("model name", "microcode", "flags", "Features")
_FAILURE_KEPT_SECONDS = 24 * 3600.0  # the machine may have been busy, or be mended by now


@dataclass(frozen=True)
class Outcome:
    """What came of a trial: whether it ended well or why not, and what was measured, by name."""

    works: bool
    reason: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)


def describe_exit(code: int) -> str:
    """Return what the exit code of a process means; a negative one is a signal."""
    if code == -getattr(signal, "SIGILL", 4):
        return Message("illegal instruction (SIGILL)")
    if code < 0:
        with suppress(ValueError):
            return Message("killed by {name}", name=signal.Signals(-code).name)
    return Message("ended with exit code {code}", code=code)


def run_child(
    command: Sequence[str], *, timeout_seconds: float, env: Mapping[str, str] | None = None
) -> tuple[Outcome, str]:
    """Return how a command ended, and what it printed; `env` stands in for this environment."""
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=timeout_seconds,
            env=env,
        )
    except subprocess.TimeoutExpired:
        return _no_answer(timeout_seconds), ""
    except OSError as error:
        reason = Message("it could not be started: {reason}", reason=error.strerror)
        return Outcome(False, reason), ""
    if ended.returncode == 0:
        return Outcome(True), ended.stdout
    *_, last_line = "", *ended.stderr.strip().splitlines()
    is_error = ended.returncode > 0 and bool(last_line)
    return Outcome(False, last_line if is_error else describe_exit(ended.returncode)), ended.stdout


def _no_answer(seconds: float) -> Outcome:
    reason = Message("no answer within {timeout_seconds:g} s", timeout_seconds=seconds)
    return Outcome(False, reason)


def run_in_fork(work: Callable[[], Mapping[str, float]], *, timeout_seconds: float) -> Outcome:
    """Return what came of a function in a copy of this process, as it is now, without its threads.

    The function returns what it measured, by name.
    """
    import psutil

    reader, writer = os.pipe()
    # Python 3.12 warns where we have threads.
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        # Not by multiprocessing: a worker of a user's pool may have no children there.
        pid = os.fork()
    if pid == 0:
        _work_and_leave(work, writer)
    os.close(writer)
    child = psutil.Process(pid)
    with os.fdopen(reader, "rb") as answer:
        try:
            code = child.wait(timeout_seconds)
        except psutil.TimeoutExpired:
            return _no_answer(timeout_seconds)
        finally:  # also at Ctrl-C
            with suppress(psutil.NoSuchProcess):
                child.kill()
                child.wait()
        text = answer.read().decode("utf-8", "replace")
    if code != 0:
        return Outcome(False, text.strip() or describe_exit(code))
    return Outcome(True, seconds=json.loads(text))


def _work_and_leave(work: Callable[[], Mapping[str, float]], writer: int) -> None:
    """Do the work of a copy: what it returns, or the first line of an error, goes into the pipe."""
    import faulthandler
    import resource

    code = 1
    try:
        # A trap is an answer, which needs no memory dump and no traceback.
        die_with_parent()
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.write(writer, json.dumps(dict(work())).encode())
        code = 0
    except (RuntimeError, ValueError, TypeError, OSError, MemoryError) as error:
        first_line = str(error).partition("\n")[0][:500]
        os.write(writer, f"{type(error).__name__}: {first_line}".encode())
    finally:  # as Ctrl-C, of which nobody shall see a traceback
        os._exit(code)


def kept_outcomes(name: str, facts: Any, make: Callable[[], list[Outcome]]) -> list[Outcome]:
    """Return the outcomes that are kept for this machine, or make and keep them.

    A failure is tried again after a day. What cannot be read or written is not kept. `facts` is
    what the answer depends on beside the machine: versions, environment.
    """
    digest = hashlib.sha256(json.dumps([machine_facts(), facts], sort_keys=True).encode())
    path = cache_folder() / "trials" / f"{name}-{digest.hexdigest()[:16]}.json"
    with suppress(OSError, ValueError, TypeError, KeyError):
        kept = parse_json(path.read_bytes())
        outcomes = [Outcome(**row) for row in kept["outcomes"]]
        age = time.time() - kept["tried_at"]
        if outcomes and (outcomes[-1].works or 0 <= age < _FAILURE_KEPT_SECONDS):
            return outcomes
    outcomes = make()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"tried_at": time.time(), "outcomes": [asdict(outcome) for outcome in outcomes]}
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return outcomes


def processor_name() -> str:
    """Return the processor's name, as the system gives it."""
    return _first_processor().get("model name") or platform.processor() or platform.machine()


def machine_facts() -> dict[str, str]:
    """Return what decides which instructions work here; another start of the machine is another."""
    facts = {name: _first_processor().get(name, "") for name in _CPU_FACTS}
    with suppress(OSError):
        facts["boot"] = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {"system": f"{platform.system()} {platform.release()} {platform.machine()}", **facts}


def _first_processor() -> dict[str, str]:
    """Return the facts of the first processor; empty where the system is not Linux."""
    first = ""
    with suppress(OSError):
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}
