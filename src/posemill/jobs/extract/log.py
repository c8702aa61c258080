"""The coordinator's log: one line per event, with the time, for `posemill logs`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from posemill.files import open_plain
from posemill.stores.lock import holder_of
from posemill.stores.manifest import LOGS_NAME, now_text

COORDINATOR_LOG = "coordinator.log"


class RunLog:
    """Appends lines; a full disk silences it, the run itself says so elsewhere."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / LOGS_NAME
        self.folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._descriptor = open_plain(self.folder / COORDINATOR_LOG, flags)

    def write(self, text: str) -> None:
        """Append a line with the time in front."""
        line = f"{now_text()} {text}\n"
        with suppress(OSError):
            os.write(self._descriptor, line.encode("utf-8", "backslashreplace"))

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def read_logs(folder: Path, *, worker: int | None = None, num_lines: int = 50) -> list[str]:
    """Return the last lines of the coordinator's log, or of a worker's."""
    name = COORDINATOR_LOG if worker is None else f"worker-{worker}.log"
    try:
        with os.fdopen(open_plain(folder / LOGS_NAME / name), "rb") as handle:
            size = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, size - 400 * num_lines))
            return handle.read().decode("utf-8", "replace").splitlines()[-num_lines:]
    except FileNotFoundError:
        return []


def follow_log(folder: Path, *, worker: int | None = None) -> Iterator[str]:
    """Yield new lines of a log as they come, until nobody works on the run any more."""
    path = folder / LOGS_NAME / (COORDINATOR_LOG if worker is None else f"worker-{worker}.log")
    position = path.stat().st_size if path.exists() else 0
    while True:
        is_over = holder_of(folder) is None
        if path.exists():
            with os.fdopen(open_plain(path), "rb") as handle:
                handle.seek(position)
                lines = handle.read().splitlines(keepends=True)
            for line in lines:
                if line.endswith(b"\n") or is_over:
                    position += len(line)
                    yield line.decode("utf-8", "replace").rstrip("\n")
        if is_over:
            return
        time.sleep(0.2)
