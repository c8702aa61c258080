"""How a run stands, read from its folder by anyone at any time: during it, after a crash."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from posemill.errors import RunError
from posemill.jobs.extract.snapshot import Snapshot, failed_text, reasons_json
from posemill.machine.gpus import Gpu, as_rows, with_workers
from posemill.machine.live_files import read_live
from posemill.machine.processes import end_holder
from posemill.messages import Message
from posemill.places.lease import Holder, LeaseState
from posemill.runs.home import RunHome
from posemill.runs.lock import holder_of
from posemill.runs.manifest import LEDGER_NAME, LOCK_NAME, Manifest
from posemill.runs.queries import (
    Failure,
    SplitCounts,
    read_ledger,
)

_LIVE_FOR_SECONDS = 15.0
State = Literal["running", "finished", "stopped", "unknown"]


@dataclass(frozen=True, repr=False)
class Status:
    """How a run stands.

    Args:
        folder: Where this machine has it.
        name: What users call the run: its folder or its URI.
        state: `running`, `finished`, `stopped`: begun, not finished, and nobody works on it; or
            `unknown`: not finished, and the lock that says whether it runs cannot be looked at.
        holder: Who works on it.
        snapshot: Counts, and the speed if somebody works on it.
        reasons: Why frames failed: reason, failures, frames; most frequent first.
        doubt: Why the state is not known.
        gpus: With the workers on them, while it runs on this machine.
    """

    folder: Path
    name: str
    state: State
    manifest: Manifest
    holder: Holder | None
    snapshot: Snapshot
    reasons: tuple[tuple[str, int, int], ...]
    finished_at: str | None
    doubt: str = ""
    gpus: tuple[Gpu, ...] = ()

    def __repr__(self) -> str:
        failed = failed_text(self.snapshot.frames_failed, self.snapshot.clips_failed)
        done = f"{self.snapshot.frames_done}/{self.snapshot.frames_known} frames"
        return f"Status({self.name!r}, {self.state}, {done}, {failed})"

    def headline(self) -> Message:
        """Return one line about it."""
        if self.state == "running":
            return Message("{run}: running, {holder}", run=self.name, holder=self.holder)
        if self.state == "finished":
            return Message("{run}: finished at {time}", run=self.name, time=self.finished_at)
        if self.state == "unknown":
            return Message(self.doubt)
        return Message(
            "{run}: stopped before its end; the same {command} command continues it",
            run=self.name,
            command=self.manifest.kind,
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "folder": self.name,
            "state": self.state,
            "pid": self.holder.pid if self.holder else None,
            "host": self.holder.host if self.holder else None,
            "created_at": self.manifest.created_at,
            "finished_at": self.finished_at,
            "engine": dict(self.manifest.engine),
            "source": dict(self.manifest.source),
            **self.snapshot.to_json(),
            "gpus": as_rows(self.gpus),
            "reasons": reasons_json(self.reasons),
        }


def read_status(folder: Path) -> Status:
    """Return how the run in a folder stands."""
    home = RunHome.at(folder, "local")
    folder = home.work
    manifest = Manifest.read(folder)
    # In this order: a run that ends in between shows as running, not as stopped.
    holder, doubt, live = None, "", read_live(folder)
    try:
        holder = home.holder()
        if isinstance(holder, LeaseState):
            live = dict(holder.live)
    except RunError as error:  # what was committed can be told all the same
        doubt = error.sentence
    counts: list[SplitCounts] = []
    reasons: list[tuple[str, int, int]] = []
    finished_at: str | None = None
    if (folder / LEDGER_NAME).exists():
        with read_ledger(folder) as ledger:
            counts, finished_at = ledger.counts(), ledger.finished_at()
            reasons = ledger.reasons()
    state: State = "unknown" if doubt else "stopped"
    if holder is not None:
        state = "running"
    elif finished_at is not None:
        state = "finished"
    snapshot, gpus = _snapshot(live, counts, holder), _gpus(folder, holder)
    return Status(
        folder,
        home.name,
        state,
        manifest,
        holder=holder,
        snapshot=snapshot,
        reasons=tuple(reasons),
        finished_at=finished_at,
        doubt=doubt,
        gpus=gpus,
    )


def _gpus(folder: Path, holder: Holder | None) -> tuple[Gpu, ...]:
    if holder is None or holder.host != socket.gethostname():
        return ()
    return tuple(with_workers(read_live(folder).get("workers_on")))


def list_failures(folder: Path) -> list[Failure]:
    """Return everything that gave no keypoints so far."""
    with read_ledger(folder) as ledger:
        return list(ledger.failures())


def _snapshot(live: dict[str, Any], counts: list[SplitCounts], holder: Holder | None) -> Snapshot:
    if holder is None or time.time() - live.get("written_at", 0) > _LIVE_FOR_SECONDS:
        return Snapshot(tuple(counts))
    # What was in flight then may be committed by now: it must not count twice.
    done = live.get("done_by_split", {})
    return Snapshot(
        tuple(counts),
        in_flight={
            each.split: max(0, done.get(each.split, 0) - each.frames_out - each.frames_failed)
            for each in counts
        },
        frames_per_second=live["frames_per_second"],
        seconds_left=live["seconds_left"],
        elapsed_seconds=live["elapsed_seconds"],
        num_workers=live["num_workers"],
    )


def stop_run(folder: Path, *, timeout_seconds: float = 30.0) -> int | None:
    """Ask the coordinator of a run to stop, wait until it has; return its pid, None if none was.

    A signal goes only to a process that is seen to have the lock open while it is held.

    Raises:
        RunError: It runs on another machine, is not to be found, or does not end in time.
    """
    home = RunHome.at(folder, "local")
    folder = home.work
    Manifest.read(folder)
    holder = home.holder()
    if holder is None:
        return None
    if isinstance(holder, LeaseState) or holder.host != socket.gethostname():
        raise RunError(
            "{name} is worked on by {holder}: run posemill stop there",
            name=home.name,
            holder=holder,
        )
    if not _ask_to_end(folder, holder):
        if holder_of(folder) is None:
            return None  # it ended by itself in this moment
        raise RunError(
            "{folder} is worked on, but not by pid {pid}, which its file {lock_name!r} "
            "names; nothing was stopped: try again, or stop it in the container it runs in",
            folder=folder,
            pid=holder.pid,
            lock_name=LOCK_NAME,
        )
    deadline = time.monotonic() + timeout_seconds
    while holder_of(folder) == holder:
        if time.monotonic() > deadline:
            raise RunError(
                "pid {pid} did not end within {timeout_seconds:g} s; killing it is safe too: "
                "kill -9 {pid}",
                pid=holder.pid,
                timeout_seconds=timeout_seconds,
            )
        time.sleep(0.05)
    return holder.pid


def _ask_to_end(folder: Path, holder: Holder) -> bool:
    """Send SIGTERM to the holder; return False if that process does not have the lock open."""
    import psutil  # here: `status`, which does not need it, would take longer

    try:
        return end_holder(holder.pid, folder / LOCK_NAME)
    except psutil.AccessDenied as error:
        raise RunError(
            "{folder} is worked on by {holder}, a process of another user; nothing was "
            "stopped: ask them, or run posemill stop as that user",
            folder=folder,
            holder=holder,
        ) from error
