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
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from posemill.errors import RunError, TrainingError
from posemill.files import atomic_path, check_own_parts
from posemill.machine.disk import disk_message, is_of_the_disk
from posemill.machine.live_files import LogFile
from posemill.training.config.kinds import OWN
from posemill.training.record.checkpoints import CheckpointFolder
from posemill.training.record.live import (
    FILES,
    FOLDERS,
    KIND,
    LOG_NAME,
    expect_free,
    expect_training,
    has_begun,
    hold,
    read_metrics,
    read_object,
    write_object,
)

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
        self.checkpoints = CheckpointFolder(self.path / "checkpoints")
        self.figures = self.path / "figures"
        self.metrics_path = self.path / "metrics.jsonl"
        self.config_path = self.path / "config.toml"
        self.samples_path = self.path / "samples.csv"
        self.predictions_path = self.path / "predictions.csv"

    def has_begun(self) -> bool:
        """Return True where a training has begun in this folder."""
        return has_begun(self.path)

    def check(self, *, resume: bool) -> bool:
        """Return True where there is a checkpoint to continue from; nothing is written.

        A folder that holds another training, or something else, is a `RunError`.
        """
        return expect_free(self.path, resume=resume) and self.checkpoints.has("last")

    def make(self) -> None:
        """Make the folder."""
        self.path.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def made_and_locked(self) -> Iterator[LogFile]:
        """Make the folder, keep other trainings out of it for the block; yield its log."""
        self.make()
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

    def write_config(self, text: str) -> None:
        """Write `config.toml`."""
        with atomic_path(self.config_path) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def write_facts(self, facts: Mapping[str, Any]) -> None:
        """Write `run.json`."""
        write_object(self.path / "run.json", {"kind": KIND, **facts})

    def read_facts(self) -> dict[str, Any]:
        """Return `run.json`; a folder without one is a `RunError`."""
        expect_training(self.path)
        check_own_parts(self.path, FILES, FOLDERS)
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
        return bool(self.read_facts()["identity"].get("kind") == OWN)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write `summary.json`."""
        write_object(self.path / "summary.json", summary)

    def is_finished(self) -> bool:
        """Return whether a training has come to its end in this folder."""
        return (self.path / "summary.json").is_file()

    def write_timing(self, timing: Mapping[str, Any]) -> None:
        """Write `timing.json`."""
        write_object(self.path / "timing.json", timing)

    def read_summary(self) -> dict[str, Any]:
        """Return `summary.json`."""
        if not self.is_finished():
            raise RunError(
                "{folder} has no summary.json: the training has not finished", folder=self.path
            )
        return read_object(self.path / "summary.json")

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return the lines of the log; a last line cut by a kill is left out."""
        return read_metrics(self.path)

    def cut_metrics(self, step: int) -> None:
        """Drop the lines after `step`: a continued training writes them again."""
        if not self.metrics_path.is_file():
            return
        kept = [line for line in self.read_metrics() if line["step"] <= step]
        with atomic_path(self.metrics_path) as temporary:
            temporary.write_text("".join(json.dumps(line) + "\n" for line in kept), "utf-8")
