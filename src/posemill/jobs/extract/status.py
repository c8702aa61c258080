"""How far a run is, asked by anyone at any time; and runs in the background, begun and stopped."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from posemill.errors import RunError
from posemill.files import open_plain
from posemill.language import SETTING
from posemill.machine.gpus import Gpu, with_workers
from posemill.machine.live_files import read_live
from posemill.machine.processes import end_holder, python_command
from posemill.messages import Message, join
from posemill.places import uri_of
from posemill.places.lease import Holder, LeaseState
from posemill.runs.home import RunHome, holder_of
from posemill.runs.manifest import LEDGER_NAME, LOCK_NAME, LOGS_NAME, Manifest, check_folder
from posemill.runs.queries import SplitCounts, read_ledger
from posemill.terminal import counted, duration

_LIVE_FOR_SECONDS = 15.0
_START_SECONDS = 300.0
State = Literal["running", "finished", "stopped", "unknown"]


@dataclass(frozen=True, repr=False)
class Progress:
    """Counts by split, what failed, the speed; stands for its folder where a path is expected."""

    counts: tuple[SplitCounts, ...]  # committed: known = out + failed, at the end
    in_flight: Mapping[str, int] = field(default_factory=dict)  # done, not committed, by split
    frames_per_second: float | None = None  # of the last minute; at the end, of the whole call
    seconds: float = 0.0  # since this start of the run
    num_workers: int = 0  # busy ones
    news: tuple[str, ...] = ()  # since the last report, worth a line: workers that died
    reasons: tuple[tuple[str, int, int], ...] = ()  # reason, failures, frames; frequent ones first
    num_frames_now: int = field(default=0, kw_only=True)  # of this call; others were done before
    num_bytes: int = field(default=0, kw_only=True)
    name: str = field(default="", kw_only=True)  # what users call the run: its folder or its URI
    folder: Path = field(default=Path(), kw_only=True)  # the same; for a `Status`, the one here

    def __fspath__(self) -> str:
        return uri_of(self.folder) or str(self.folder)

    def __repr__(self) -> str:
        counts = f"{counted(self.num_clips, 'clips')}, {counted(self.num_frames, 'frames')}"
        failed = failed_text(self.frames_failed, self.clips_failed)
        return f"{type(self).__name__}({self.name!r}, {counts}, {failed})"

    @property
    def frames_known(self) -> int:
        """Frames of all clips whose length is known."""
        return sum(count.frames_known for count in self.counts)

    @property
    def frames_failed(self) -> int:
        """Frames that gave nothing; why is in `reasons`."""
        return sum(count.frames_failed for count in self.counts)

    @property
    def clips_failed(self) -> int:
        """Clips that gave nothing at all."""
        return sum(count.clips_failed for count in self.counts)

    @property
    def num_clips(self) -> int:
        """Clips that gave what was wanted, in all splits."""
        return sum(count.num_clips - count.clips_failed for count in self.counts)

    @property
    def num_frames(self) -> int:
        """Frames that gave it, in all splits."""
        return sum(count.frames_out for count in self.counts)

    @property
    def done_by_split(self) -> dict[str, int]:
        """Frames that are out, failed, or in flight, of each split."""
        return {
            count.split: count.frames_out + count.frames_failed + self.in_flight.get(count.split, 0)
            for count in self.counts
        }

    @property
    def frames_done(self) -> int:
        """Frames that are out, failed, or in flight."""
        return sum(self.done_by_split.values())

    @property
    def seconds_left(self) -> float | None:
        """By the speed; None where it cannot be said."""
        left, rate = self.frames_known - self.frames_done, self.frames_per_second
        return None if not rate or left <= 0 else left / rate

    @property
    def exit_code(self) -> int:
        """0 if all went well, 1 if something failed."""
        return 1 if self.reasons else 0

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values; `news` were told already."""
        names = (
            "frames_known frames_done frames_failed clips_failed frames_per_second seconds_left "
            "seconds num_workers done_by_split"
        )
        return {
            "folder": self.name,
            **{name: getattr(self, name) for name in names.split()},
            "splits": [
                {**asdict(count), "in_flight": self.in_flight.get(count.split, 0)}
                for count in self.counts
            ],
            "reasons": [
                dict(zip(("reason", "failures", "frames"), row, strict=True))
                for row in self.reasons
            ],
        }

    def speed_text(self) -> Message:
        """Return `41.2 frames/s, 0:12:03 left`."""
        rate, left = self.frames_per_second, self.seconds_left
        if rate is None:
            return Message("…")
        template = "{rate:.1f} frames/s" if left is None else "{rate:.1f} frames/s, {time} left"
        return Message(template, rate=rate, time=duration(left or 0))

    def describe(self) -> Message:
        """Return one line: frames done, share, speed, failures, and the splits if several."""
        done, known = self.frames_done, self.frames_known
        template = "{done}/{known} frames ({share:.1%})" if known else "{done}/{known} frames"
        if done > known:  # some of a video whose length nobody knows yet
            template = "{done} frames"
        parts = [Message(template, done=done, known=known, share=done / known if known else 0)]
        if self.frames_per_second is not None:
            parts.append(self.speed_text())
        parts.append(failed_text(self.frames_failed, self.clips_failed))
        pairs = zip(self.counts, self.done_by_split.values(), strict=True)
        splits = [f"{count.split} {done}/{count.frames_known}" for count, done in pairs]
        return join("; ", [join(", ", parts), ", ".join(splits) if len(splits) > 1 else ""])


def failed_text(num_frames: int, num_clips: int) -> Message:
    """Return `3 failed`, which are frames; `3 frames and 1 clip failed` if a whole clip did."""
    template = "{num_frames} failed"
    if num_clips:
        template = "{num_clips:clip|clips} failed"
    if num_clips and num_frames:
        template = "{num_frames:frame|frames} and {num_clips:clip|clips} failed"
    return Message(template, num_frames=num_frames, num_clips=num_clips)


@dataclass(frozen=True, repr=False, kw_only=True)
class Status(Progress):
    """How far a run is, read from its folder; the speed only while somebody works on it.

    `stopped` is one that is begun, not finished, and nobody works on it; `unknown` one that is not
    finished, and the lock that says whether it runs cannot be looked at.
    """

    state: State
    manifest: Manifest
    holder: Holder | None
    finished_at: str | None
    doubt: str = ""  # why the state is not known
    gpus: tuple[Gpu, ...] = ()  # with the workers on them, while it runs on this machine

    def __repr__(self) -> str:
        done = f"{self.frames_done}/{self.frames_known} frames"
        failed = failed_text(self.frames_failed, self.clips_failed)
        return f"Status({self.name!r}, {self.state}, {done}, {failed})"

    def headline(self) -> Message:
        """Return one line about it."""
        if self.state == "unknown":
            return Message(self.doubt)
        template = {
            "running": "{run}: running, {holder}",
            "finished": "{run}: finished at {time}",
            "stopped": "{run}: stopped before its end; the same {command} command continues it",
        }[self.state]
        command, time = self.manifest.kind, self.finished_at
        holder = self.holder and self.holder.describe()
        return Message(template, run=self.name, holder=holder, time=time, command=command)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            **super().to_json(),
            "state": self.state,
            "pid": self.holder.pid if self.holder else None,
            "host": self.holder.host if self.holder else None,
            "created_at": self.manifest.created_at,
            "finished_at": self.finished_at,
            "engine": dict(self.manifest.engine),
            "source": dict(self.manifest.source),
            "gpus": [asdict(gpu) for gpu in self.gpus],
        }


def read_status(folder: Path) -> Status:
    """Return how the run in a folder stands."""
    home = RunHome.at(folder, "local")
    folder, manifest = home.work, Manifest.read(home.work)
    # In this order: a run that ends in between shows as running, not as stopped.
    holder, doubt, live = None, "", read_live(folder)
    workers_on = live.get("workers_on")
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
    if holder is None or time.time() - live.get("written_at", 0) > _LIVE_FOR_SECONDS:
        live = {}
    # What was in flight then may be committed by now: it must not count twice.
    done, is_here = live.get("done_by_split", {}), holder and holder.host == socket.gethostname()
    return Status(
        tuple(counts),
        {
            count.split: max(0, done.get(count.split, 0) - count.frames_out - count.frames_failed)
            for count in counts
        },
        live.get("frames_per_second"),
        live.get("seconds", 0.0),
        live.get("num_workers", 0),
        reasons=tuple(reasons),
        folder=folder,
        name=home.name,
        state=state,
        manifest=manifest,
        holder=holder,
        finished_at=finished_at,
        doubt=doubt,
        gpus=tuple(with_workers(workers_on)) if is_here else (),
    )


def log_path(folder: Path, worker: int | None = None) -> Path:
    """Return where the coordinator's log of a run is, or a worker's."""
    return folder / LOGS_NAME / ("coordinator.log" if worker is None else f"worker-{worker}.log")


def start_detached(arguments: Sequence[str], folder: Path) -> int:
    """Start `posemill` with these arguments in a session of its own; return its pid.

    Returns when the new process works on the run. If it ends before, what it said is a RunError.
    """
    import subprocess  # here: `status`, which does not need it, would take longer

    check_folder(folder)
    (folder / LOGS_NAME).mkdir(parents=True, exist_ok=True)
    path = folder / LOGS_NAME / "detached.log"
    descriptor = open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with os.fdopen(descriptor, "ab") as output:
        start = output.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            python_command("posemill", *arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, SETTING: "en"},  # what it says is a log
        )
    deadline, code = time.monotonic() + _START_SECONDS, None
    while code is None and time.monotonic() < deadline:
        holder = holder_of(folder)
        if holder is not None and holder.pid == process.pid and check_folder(folder):
            break
        time.sleep(0.05)
        code = process.poll()
    if code not in (None, 0, 1):
        with path.open("rb") as output:
            output.seek(start)
            text = output.read().decode("utf-8", "replace").strip()
        reason = text.rpartition("posemill: ")[2]  # the error, without what came before
        reason = reason or Message("exit code {code}", code=code)
        raise RunError("it did not start: {reason}", reason=reason)
    # Not our child to wait for any more.
    process.returncode = process.returncode or 0
    return process.pid


def stop_run(folder: Path, *, timeout_seconds: float = 30.0) -> int | None:
    """Ask the coordinator of a run to stop, wait until it has; return its pid, None if none was."""
    home = RunHome.at(folder, "local")
    Manifest.read(home.work)
    holder = home.holder()
    if holder is None:
        return None
    return end_holder(
        holder.pid,
        "" if isinstance(holder, LeaseState) else holder.host,
        home.work / LOCK_NAME,
        lambda: holder_of(home.work) == holder,
        holder=Message("{name} is worked on by {holder}", name=home.name, holder=holder.describe()),
        timeout_seconds=timeout_seconds,
    )
