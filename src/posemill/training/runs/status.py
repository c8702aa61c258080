"""How a training or a sweep stands, read from its folder at any time; nothing here needs torch."""

from __future__ import annotations

import re
import shlex
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from posemill.errors import ConfigError, RunError
from posemill.files import check_own_parts
from posemill.machine.gpus import Gpu, with_workers
from posemill.machine.live_files import LIVE_NAME, last_lines, read_live
from posemill.messages import Message, join
from posemill.terminal import duration
from posemill.training.record.live import LOCK_NAME, LOG_NAME, SWEEP_NAME, is_held, read_object
from posemill.training.record.run_folder import RunFolder

_LIVE_FOR_SECONDS = 60.0  # a step, or a checkpoint on a slow disk, may take long
_LAST_LINES = 5
SWEEP_FILES = (SWEEP_NAME, LOCK_NAME, LOG_NAME, LIVE_NAME, "leave_out.toml")
LEFT_OUT_NAME = "left_out.json"
_COUNTS = {
    "running": "{number} running",
    "stopped": "{number} stopped",
    "failed": "{number} failed",
    "waiting": "{number} waiting",
}
_HEADLINES = {
    "finished": "{folder}: finished",
    "running": "{folder}: running, by another process",
    "stopped": "{folder}: stopped before its end",
    "unknown": "{folder}: its lock cannot be looked at, so nobody knows whether it runs",
}
# A title that leads to no other folder, and the digest of the settings.
_NAME = r"[\w.=+-]+-[0-9a-f]{8}"
# Stopped: not finished, and nobody trains; unknown: its lock cannot be looked at.
State = Literal["running", "finished", "stopped", "unknown"]


@dataclass(frozen=True)
class _Status:
    """What trainings and sweeps say alike; what is not known is None."""

    folder: Path
    state: State
    pid: int | None = None  # of the process that trains, or did last
    host: str | None = None
    started_at: str | None = None
    last_lines: tuple[str, ...] = ()  # of its log

    def headline(self) -> Message:
        """Return one line about it."""
        templates = dict(_HEADLINES)
        if self.pid is not None:
            templates["running"] = "{folder}: running, {who}"
            templates["stopped"] = "{folder}: stopped before its end; {who} has ended"
        who = Message("pid {pid} on {host} since {started_at}", **vars(self))
        return Message(templates[self.state], folder=self.folder, who=who)

    def next_command(self) -> str:
        """Return the command that a user would give next."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**values, "folder": str(self.folder), "next": self.next_command()}


@dataclass(frozen=True)
class TrainStatus(_Status):
    """How a training stands."""

    epoch: int | None = None  # from 1
    epochs: int | None = None
    step: int | None = None  # optimizer steps taken
    total_steps: int | None = None
    samples_per_second: float | None = None
    seconds_left: float | None = None  # by the speed of the last minute, while it runs
    chosen_by: str | None = None  # the score whose best value so far is `best`
    best: float | None = None
    best_step: int | None = None
    checkpoint_step: int | None = None  # where `--resume` goes on
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # by split, at the end
    gpus: tuple[Gpu, ...] = ()  # with the ranks on them, while it runs on this machine

    def describe(self) -> Message:
        """Return one line on how far it is: `epoch 3/20, step 45/300 (15.0%), …`."""
        parts = []
        if self.epoch is not None:
            parts.append(Message("epoch {epoch}", epoch=_of(self.epoch, self.epochs)))
        if self.step is not None:
            share = f" ({self.step / self.total_steps:.1%})" if self.total_steps else ""
            steps = f"{_of(self.step, self.total_steps)}{share}"
            parts.append(Message("step {steps}", steps=steps))
        if self.samples_per_second is not None:
            parts.append(Message("{speed:.0f} samples/s", speed=self.samples_per_second))
        if self.seconds_left is not None:
            parts.append(Message("{time} left", time=duration(self.seconds_left)))
        if self.best is not None:
            facts = {**vars(self), "chosen_by": Message(self.chosen_by or "")}
            parts.append(Message("best {chosen_by} {best:.4f} at step {best_step}", **facts))
        return join(", ", parts or [Message("no step yet")])

    def next_command(self) -> str:
        """Return the command that a user would give next."""
        folder = shlex.quote(str(self.folder))
        if self.state == "finished" and RunFolder(self.folder).is_of_fit():
            return f"posemill.evaluate({str(self.folder)!r}, model=…, data=…)"
        if self.state == "finished":
            return f"posemill evaluate {folder} --split {([*self.scores] or ['test'])[-1]}"
        if self.state == "stopped":
            return resume_command(self.folder)
        return f"posemill status {folder} --watch"

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**super().to_json(), "gpus": [asdict(gpu) for gpu in self.gpus]}


def read_train_status(folder: Path) -> TrainStatus:
    """Return how the training in a folder stands; `RunError` where a part is not a training's."""
    RunFolder(folder).check_parts()
    # In this order: a training that ends in between shows as running, not as stopped.
    is_running = is_held(folder)
    live, summary = read_live(folder), read_object(folder / "summary.json")
    numbers = _pick(live, int, "step", "epoch", "epochs", "total_steps", "best_step")
    numbers |= _pick(live, float, "best", "samples_per_second", "seconds_left", "written_at")
    last_step = _pick(summary, int, "steps")["steps"]
    is_finished = last_step is not None and last_step >= (numbers["step"] or 0)
    state = _state(is_running, is_finished=is_finished)
    if numbers["step"] is None:
        numbers["step"] = last_step
    if state != "running":  # of the last steps; of a finished one it is that of all
        numbers |= _pick(summary if is_finished else {}, float, "samples_per_second")
    is_fresh = time.time() - (numbers.pop("written_at") or 0) < _LIVE_FOR_SECONDS
    if not (is_running and is_fresh):
        numbers["seconds_left"] = None
    is_here = live.get("host") == socket.gethostname()
    return TrainStatus(
        folder,
        state,
        **_who(folder, live),
        **numbers,
        **_pick(live, str, "chosen_by"),
        checkpoint_step=_pick(read_object(folder / "checkpoints/last.json"), int, "step")["step"],
        scores=_scores(summary) if state == "finished" else {},
        gpus=tuple(with_workers(live.get("workers_on")) if is_running and is_here else ()),
    )


def _state(is_running: bool | None, *, is_finished: bool) -> State:
    if is_running is None:
        return "unknown"
    return "running" if is_running else "finished" if is_finished else "stopped"


def _who(folder: Path, live: Mapping[str, Any]) -> dict[str, Any]:
    """Return who works or worked in a folder, and its last words."""
    lines = tuple(last_lines(folder / LOG_NAME, _LAST_LINES))
    words = _pick(live, str, "host", "started_at")
    return {**_pick(live, int, "pid"), **words, "last_lines": lines}


def _pick(values: Mapping[str, Any], kind: type, *names: str) -> dict[str, Any]:
    """Return values of a file that may be a stranger's; None for one that is of another kind."""
    kinds = (int, float) if kind is float else kind

    def is_sane(value: Any) -> bool:
        is_small = isinstance(value, str) or (isinstance(value, (int, float)) and abs(value) < 1e15)
        return isinstance(value, kinds) and not isinstance(value, bool) and is_small  # nor NaN

    return {name: values[name] if is_sane(values.get(name)) else None for name in names}


def resume_command(folder: Path) -> str:
    """Return the command that continues a training."""
    from posemill.training.config.resolve import read_config

    run = RunFolder(folder)
    run.check_parts()
    if run.is_of_fit():
        return f"posemill.fit(…, out={str(folder)!r}, resume=True)"
    command = f"posemill train {shlex.quote(str(run.config_path))} --resume"
    try:
        named = read_config(run.config_path).get("out", "")
        is_here = isinstance(named, str) and Path(named).resolve() == folder.resolve()
    except (ConfigError, OSError, ValueError):
        is_here = False
    # It may have been started from elsewhere.
    return command if is_here else f"{command} --out {shlex.quote(str(folder))}"


def _of(number: int | None, total: int | None) -> str | None:
    return None if number is None else str(number) if total is None else f"{number}/{total}"


def _scores(summary: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    by_split = summary.get("scores")
    return {
        split: {n: value for n, value in _pick(scores, float, *scores).items() if value is not None}
        for split, scores in (by_split.items() if isinstance(by_split, dict) else ())
        if isinstance(scores, dict)
    }


def flatten(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes with the model's options beside the other settings."""
    plain = {name: value for name, value in changes.items() if name != "model_options"}
    return {**plain, **changes.get("model_options", {})}


@dataclass(frozen=True)
class SweepStatus(_Status):
    """How a sweep stands; it is `finished` where all its trainings are done.

    Each has a row: `job`, what it has different, `state` (`waiting`, `running`, `stopped`,
    `failed`, `done`), `epoch`, `step`, the best score, `reason`.
    """

    started_by: str = "sweep"  # the command; or `train` with --leave-out
    file: str = ""  # of TOML, that the command is given
    workers: int = 1
    trainings: tuple[Mapping[str, Any], ...] = ()

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


def read_sweep_status(folder: Path) -> SweepStatus:
    """Return how the sweep in a folder stands; `RunError` where a part of it is not posemill's."""
    check_own_parts(folder, SWEEP_FILES, ())
    is_running = is_held(folder)
    record, live = read_object(folder / SWEEP_NAME), read_live(folder)
    listed = record.get("trainings")
    if not isinstance(listed, list) or not all(map(_is_training, listed)):
        raise RunError(
            "{path} is not what posemill wrote; run the same posemill sweep command again, or "
            "look at its trainings one by one",
            path=folder / SWEEP_NAME,
        )
    failures = live.get("failures")
    rows = tuple(_row(folder, entry, failures) for entry in listed)
    return SweepStatus(
        folder,
        _state(is_running, is_finished=all(row["state"] == "done" for row in rows)),
        **_who(folder, live),
        started_by="train" if record.get("started_by") == "train" else "sweep",
        file=str(record.get("file", "")),
        workers=_pick(record, int, "workers")["workers"] or 1,
        trainings=rows,
    )


def _is_training(entry: Any) -> bool:
    """Whether an entry of the record is one: its name is a folder's, and leads nowhere else."""
    changes = entry.get("changes") if isinstance(entry, dict) else None
    if not isinstance(changes, dict) or not isinstance(changes.get("model_options", {}), dict):
        return False
    name = entry.get("name")
    return isinstance(name, str) and re.fullmatch(_NAME, name) is not None


def _row(folder: Path, entry: Mapping[str, Any], failures: Any) -> dict[str, Any]:
    name = entry["name"]
    row: dict[str, Any] = {"job": name, **flatten(entry["changes"])}
    check_own_parts(folder, (), (name,))
    check_own_parts(folder / name, (), ("run",))
    status, row["state"] = None, "waiting"
    if (folder / name / "run").is_dir():
        status = read_train_status(folder / name / "run")
        row["state"] = "done" if status.state == "finished" else status.state
    reason = failures.get(name) if isinstance(failures, dict) else None
    if row["state"] in ("waiting", "stopped") and isinstance(reason, str):
        row |= {"state": "failed", "reason": reason}
    if status is None:
        return row
    row["epoch"] = _of(status.epoch, status.epochs)
    row["step"] = _of(status.step, status.total_steps)
    if status.best is not None:
        row[f"best_{status.chosen_by}"] = status.best
    for split, scores in status.scores.items():
        row |= {f"{split}_{name}": value for name, value in scores.items() if name != "loss"}
    return row
