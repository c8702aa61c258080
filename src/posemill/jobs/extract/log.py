"""The coordinator's log: one line per event, with the time, for `posemill logs`."""

from __future__ import annotations

from pathlib import Path

from posemill.machine.live_files import LogFile
from posemill.runs.manifest import LOGS_NAME

COORDINATOR_LOG = "coordinator.log"


class RunLog(LogFile):
    """The log of a run; `folder` has those of its workers as well."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / LOGS_NAME
        self.folder.mkdir(parents=True, exist_ok=True)
        super().__init__(log_path(folder))


def log_path(folder: Path, worker: int | None = None) -> Path:
    """Return where the coordinator's log of a run is, or a worker's."""
    name = COORDINATOR_LOG if worker is None else f"worker-{worker}.log"
    return folder / LOGS_NAME / name
