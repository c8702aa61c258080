"""`posemill.status`: how far a run, a training or a sweep is, and what its log says.

Apart from `extract`, whose imports would take longer; what only one kind needs is imported for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from posemill.api.arguments import AnyPath, run_of
from posemill.errors import ConfigError, RunError
from posemill.jobs.extract.log import log_path
from posemill.jobs.extract.status import Status, read_status, stop_run
from posemill.machine.live_files import follow_lines, last_lines
from posemill.stores.lock import holder_of
from posemill.stores.manifest import MANIFEST_NAME, Manifest
from posemill.training.runs.live import LOG_NAME, SWEEP_NAME, is_held, stop_training

if TYPE_CHECKING:
    from posemill.training.launch.sweep_status import SweepStatus
    from posemill.training.runs.status import TrainStatus
    from posemill.training.tuning.advice import Advice


def status(run: AnyPath) -> Status | TrainStatus | SweepStatus:
    """Return how far a run, a training or a sweep is: during it, after a crash, after its end.

    Args:
        run: Its folder; or the file beside a run that `extract` was told to write.
    """
    folder = run_of(run)
    kind = kind_of(folder)
    if kind == "extraction":
        return read_status(folder)
    if kind == "sweep":
        from posemill.training.launch.sweep_status import read_sweep_status

        return read_sweep_status(folder)
    from posemill.training.runs.status import read_train_status

    return read_train_status(folder)


def advise(run: AnyPath) -> list[Advice]:
    """Return what would make the next training like this one faster; nothing if all is well.

    Args:
        run: Folder of a training, finished or not.
    """
    from posemill.training.tuning.advice import advise_run

    folder = run_of(run)
    if kind_of(folder) == "sweep":
        raise RunError(f"{folder} is a sweep: ask for advice on one of the trainings in it")
    return advise_run(folder)


def kind_of(folder: Path) -> Literal["extraction", "training", "sweep"]:
    """Return what a folder holds, by the files that only this kind has."""
    if not (folder / MANIFEST_NAME).exists():
        if (folder / SWEEP_NAME).is_file():
            return "sweep"
        # The log is written first.
        if (folder / "run.json").is_file() or (folder / LOG_NAME).is_file():
            return "training"
    return "extraction"


def stop(folder: Path) -> int | None:
    """End what works in a folder, wait for it; return the pid it had, None if nothing did."""
    if kind_of(folder) == "extraction":
        return stop_run(folder)
    status(folder)  # whose parts lie in it, or it says so
    return stop_training(folder)


def read_log(folder: Path, *, worker: int | None = None, num_lines: int = 50) -> list[str]:
    """Return the last lines of the log of a run, a training or a sweep; or of a run's worker."""
    return last_lines(_log_of(folder, worker), num_lines)


def follow_log(folder: Path, *, worker: int | None = None) -> Iterator[str]:
    """Yield new lines of a log as they come, until nobody works in the folder any more."""
    is_run = kind_of(folder) == "extraction"
    return follow_lines(
        _log_of(folder, worker),
        lambda: holder_of(folder) is None if is_run else not is_held(folder),
    )


def _log_of(folder: Path, worker: int | None) -> Path:
    kind = kind_of(folder)
    if kind == "extraction":
        Manifest.read(folder)  # is it one?
        return log_path(folder, worker)
    if worker is not None:
        raise ConfigError(f"{folder} is a {kind}; only the workers of extract have logs of theirs")
    status(folder)  # whose parts lie in it, or it says so
    return folder / LOG_NAME
