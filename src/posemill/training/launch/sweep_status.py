"""How a sweep stands: the trainings its record names, each read from its own folder."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posemill.errors import RunError
from posemill.files import atomic_path, check_own_parts
from posemill.machine.live_files import LIVE_NAME, last_lines, read_live
from posemill.messages import Message, join
from posemill.training.record.live import (
    LOCK_NAME,
    LOG_NAME,
    SWEEP_NAME,
    is_held,
    is_lock,
    read_object,
)
from posemill.training.runs.status import State, TrainStatus, headline_of, read_train_status

if TYPE_CHECKING:
    from posemill.training.launch.sweep import Sweep

SWEEP_FILES = (SWEEP_NAME, LOCK_NAME, LOG_NAME, LIVE_NAME, "leave_out.toml")
LEFT_OUT_NAME = "left_out.json"
_KIND = "posemill-sweep"
_LAST_LINES = 5
_COUNTS = {
    "running": "{number} running",
    "stopped": "{number} stopped",
    "failed": "{number} failed",
    "waiting": "{number} waiting",
}
# A title that leads to no other folder, and the digest of the settings.
_NAME = r"[\w.=+-]+-[0-9a-f]{8}"
_EVENT = re.compile(rf"^\S+ ({_NAME}) (started|done|failed)(?:: (.*))?$")


def flatten(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes with the model's options beside the other settings."""
    plain = {name: value for name, value in changes.items() if name != "model_options"}
    return {**plain, **changes.get("model_options", {})}


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
    with atomic_path(sweep.out / SWEEP_NAME) as temporary:
        temporary.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")


@dataclass(frozen=True)
class SweepStatus:
    """How a sweep stands.

    Args:
        state: As of a training; `finished` where all its trainings are done.
        started_by: The command, `sweep`, or `train` with --leave-out.
        file: The TOML file that it is given.
        trainings: A row each: `job`, what it has different, `state` (`waiting`, `running`,
            `stopped`, `failed`, `done`), `epoch`, `step`, the best score, `reason`.
        last_lines: Of its log.
    """

    folder: Path
    state: State
    pid: int | None
    started_by: str
    file: str
    workers: int
    trainings: tuple[Mapping[str, Any], ...]
    last_lines: tuple[str, ...] = ()

    def headline(self) -> Message:
        """Return one line about it."""
        who = Message("pid {pid}", pid=self.pid) if self.state == "running" else Message("")
        return headline_of(self.folder, self.state, who)

    def describe(self) -> Message:
        """Return one line on how far it is: `3/8 trainings done, 2 running, 1 failed`."""
        states = [str(row["state"]) for row in self.trainings]
        num_done, total = states.count("done"), len(states)
        parts = [Message("{num_done}/{total} trainings done", num_done=num_done, total=total)]
        for state, template in _COUNTS.items():
            if state in states:
                parts.append(Message(template, number=states.count(state)))
        return join(", ", parts)

    def next_command(self) -> str:
        """Return the command that a user would give next."""
        if self.state == "running":
            return f"posemill status {shlex.quote(str(self.folder))} --watch"
        if self.state == "finished" and self.trainings:
            first = self.folder / str(self.trainings[0]["job"])
            return f"posemill status {shlex.quote(str(first))}"
        file, folder = shlex.quote(self.file), shlex.quote(str(self.folder))
        words = ["posemill", self.started_by, file, "--out", folder]
        if self.started_by == "sweep" and self.workers > 1:
            words += ["--workers", str(self.workers)]
        return " ".join(words)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**values, "folder": str(self.folder), "next": self.next_command()}


def read_sweep_status(folder: Path) -> SweepStatus:
    """Return how the sweep in a folder stands.

    Raises:
        RunError: Its record is not what posemill wrote, or a part of it leads outside.
    """
    check_own_parts(folder, SWEEP_FILES, ())
    is_running = is_held(folder)
    record = read_object(folder / SWEEP_NAME)
    listed = record.get("trainings")
    if not isinstance(listed, list) or not all(map(_is_training, listed)):
        raise RunError(
            "{path} is not what posemill wrote; run the same posemill sweep command again, or "
            "look at its trainings one by one",
            path=folder / SWEEP_NAME,
        )
    failures = _failures(folder)
    rows = tuple(_row(folder, each, failures) for each in listed)
    state: State = "unknown" if is_running is None else "running" if is_running else "stopped"
    if state == "stopped" and all(row["state"] == "done" for row in rows):
        state = "finished"
    pid, workers = read_live(folder).get("pid"), record.get("workers")
    return SweepStatus(
        folder,
        state,
        pid if isinstance(pid, int) else None,
        "train" if record.get("started_by") == "train" else "sweep",
        str(record.get("file", "")),
        workers if isinstance(workers, int) else 1,
        rows,
        tuple(last_lines(folder / LOG_NAME, _LAST_LINES)),
    )


def _is_training(entry: Any) -> bool:
    """Whether an entry of the record is one: its name is a folder's, and leads nowhere else."""
    changes = entry.get("changes") if isinstance(entry, dict) else None
    if not isinstance(changes, dict) or not isinstance(changes.get("model_options", {}), dict):
        return False
    name = entry.get("name")
    return isinstance(name, str) and re.fullmatch(_NAME, name) is not None


def _failures(folder: Path) -> dict[str, str]:
    """Return why trainings failed, by the last word of the sweep's log on each."""
    found: dict[str, str] = {}
    for line in last_lines(folder / LOG_NAME, 10_000):
        if event := _EVENT.match(line):
            name, what, reason = event.groups()
            found.pop(name, None)
            if what == "failed":
                found[name] = reason or ""
    return found


def _row(folder: Path, entry: Mapping[str, Any], failures: Mapping[str, str]) -> dict[str, Any]:
    name = entry["name"]
    row: dict[str, Any] = {"job": name, **flatten(entry["changes"])}
    check_own_parts(folder, (), (name,))
    check_own_parts(folder / name, (), ("run",))
    if not (folder / name / "run").is_dir():
        status = None
        row["state"] = "waiting"
    else:
        status = read_train_status(folder / name / "run")
        row["state"] = "done" if status.state == "finished" else status.state
    if row["state"] in ("waiting", "stopped") and name in failures:
        row |= {"state": "failed", "reason": failures[name]}
    return row | (_progress(status) if status else {})


def _progress(status: TrainStatus) -> dict[str, Any]:
    """Return how far a training is, in columns."""
    steps = None if status.step is None else f"{status.step}/{status.total_steps}"
    epochs = None if status.epoch is None else f"{status.epoch}/{status.epochs}"
    row: dict[str, Any] = {"epoch": epochs, "step": steps}
    if status.best is not None:
        row[f"best_{status.chosen_by}"] = status.best
    for split, scores in status.scores.items():
        row |= {f"{split}_{name}": value for name, value in scores.items() if name != "loss"}
    return row
