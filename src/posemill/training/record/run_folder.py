"""The folder of a training: what was asked for, what happened, and what came out.

config.toml       all settings, with where each came from
run.json          marker; the model, its classes, mode, precision, versions
metrics.jsonl     one line for each logged step and evaluation
checkpoints/      last and best
log.txt           what it said, line by line; live.json: how far it is, and who trains
timing.json       where the time went so far, for `posemill advise`
summary.json      scores, timing and advice, written at the end
samples.csv       metrics of each sample of the validation set, for runs of `fit` that have them
predictions.csv   what was said of each clip of the splits that were scored at the end
figures/*.png, tensorboard/

It is read without torch; only its checkpoints need that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posemill.errors import RunError, TrainingError
from posemill.files import atomic_path, check_own_parts, near_path, open_plain, parse_json
from posemill.machine.disk import disk_message, is_of_the_disk
from posemill.machine.live_files import LIVE_NAME, LogFile
from posemill.training.config.kinds import OWN
from posemill.training.record.live import (
    LOCK_NAME,
    LOG_NAME,
    hold,
    is_lock,
    read_object,
    write_object,
)

if TYPE_CHECKING:
    from posemill.training.record.checkpoints import CheckpointFolder

_KIND = "posemill-training"
_FILES = (
    "run.json",
    "config.toml",
    "metrics.jsonl",
    "summary.json",
    "timing.json",
    "samples.csv",
    "predictions.csv",
    LOCK_NAME,
    LOG_NAME,
    LIVE_NAME,
)
_FOLDERS = ("checkpoints", "figures", "tensorboard")
# What a start that failed before its marker leaves behind; its lock came first.
_BEGUN = {LOCK_NAME, "config.toml", LOG_NAME, LIVE_NAME, f".{LIVE_NAME}.tmp"}
# What `run.json` says that others rely on.
_FACTS: dict[str, type] = {
    "identity": dict,
    "class_names": list,
    "mode": str,
    "processes": int,
    "threads": int,
    "precision": str,
}


class RunFolder:
    """Reads and writes the files of one training."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.config_path = self.path / "config.toml"
        self.metrics_path = self.path / "metrics.jsonl"

    @cached_property
    def checkpoints(self) -> CheckpointFolder:
        """Its checkpoints."""
        from posemill.training.record.checkpoints import CheckpointFolder

        return CheckpointFolder(self.path / "checkpoints")

    def check_parts(self) -> None:
        """Raise RunError where a part of it is a link, a pipe, or a folder instead of a file."""
        check_own_parts(self.path, _FILES, _FOLDERS)

    def has_begun(self) -> bool:
        """Return True where a training has begun in this folder."""
        self.check_parts()
        return (self.path / "run.json").is_file()

    def expect(self) -> None:
        """Raise RunError unless there is the folder of a training."""
        if not self.path.exists():
            template = "{folder}: there is no such folder{near}"
            raise RunError(template, folder=self.path, near=near_path(self.path))
        if not self.has_begun():
            template = "{folder} is not the folder of a training (no run.json)"
            raise RunError(template, folder=self.path)

    def expect_free(self, *, resume: bool) -> None:
        """Raise RunError where it holds a training that is not to be resumed, or something else."""
        if self.has_begun():
            if not resume:
                raise RunError(
                    "{folder} already holds a training; add {--resume:True} to continue it, or "
                    "choose another {--out}",
                    folder=self.path,
                )
            return
        if self.path.exists() and not self.path.is_dir():
            raise RunError("{folder} is a file; {--out} names a folder", folder=self.path)
        names = {path.name for path in self.path.iterdir()} if self.path.is_dir() else set()
        if names and not (names <= _BEGUN and is_lock(self.path)):
            raise RunError(
                "{folder} holds files that are not a training of posemill; choose another {--out}",
                folder=self.path,
            )

    @contextmanager
    def made_and_locked(self) -> Iterator[LogFile]:
        """Make the folder, keep other trainings out of it for the block; yield its log."""
        self.path.mkdir(parents=True, exist_ok=True)
        with hold(self.path, what="training"), closing(LogFile(self.path / LOG_NAME)) as log:
            yield log

    @contextmanager
    def naming_the_disk(self) -> Iterator[None]:
        """Turn what a full or broken disk throws into an error that says what is left of it."""
        try:
            yield
        except OSError as error:
            if not is_of_the_disk(error):
                raise
            said = disk_message(error, str(self.path), **self.checkpoints.describe())
            raise TrainingError(said) from error

    def write_facts(self, facts: Mapping[str, Any]) -> None:
        """Write `run.json`."""
        write_object(self.path / "run.json", {"kind": _KIND, **facts})

    def read_facts(self) -> dict[str, Any]:
        """Return `run.json`; a folder without one is a `RunError`."""
        self.expect()
        facts = read_object(self.path / "run.json")
        for name, kind in _FACTS.items():
            if not isinstance(facts.get(name), kind):
                raise RunError(
                    "{path} is not what posemill wrote: {name!r} is missing or of another kind; "
                    "put it back from a copy, or train again",
                    path=self.path / "run.json",
                    name=name,
                )
        return facts

    def is_of_fit(self) -> bool:
        """Return whether its model is a user's own, trained by `fit`."""
        identity = read_object(self.path / "run.json").get("identity")
        return isinstance(identity, dict) and identity.get("kind") == OWN

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write `summary.json`."""
        write_object(self.path / "summary.json", summary)

    def read_summary(self) -> dict[str, Any]:
        """Return `summary.json`; empty before the training has come to its end."""
        return read_object(self.path / "summary.json")

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return the lines of `metrics.jsonl`; a last line cut by a kill is left out."""
        path = self.metrics_path
        if not path.is_file():
            return []
        with os.fdopen(open_plain(path), "rb") as handle:
            lines = handle.read().splitlines(keepends=True)
        try:
            rows = [parse_json(line) for line in lines if line.endswith(b"\n")]
        except ValueError as error:
            template = "{path} holds lines that are not JSON: {error}"
            raise RunError(template, path=path, error=error) from error
        if not all(isinstance(row, dict) and isinstance(row.get("step"), int) for row in rows):
            raise RunError("{path} holds lines that are not of a training: no step", path=path)
        return rows

    def cut_metrics(self, step: int) -> None:
        """Drop the lines after `step`: a continued training writes them again."""
        if not self.metrics_path.is_file():
            return
        kept = [line for line in self.read_metrics() if line["step"] <= step]
        with atomic_path(self.metrics_path) as temporary:
            temporary.write_text("".join(json.dumps(line) + "\n" for line in kept), "utf-8")
