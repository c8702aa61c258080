"""`posemill.status`: how far a run is; apart from `extract`, whose imports would take longer."""

from __future__ import annotations

from posemill.api.arguments import AnyPath, run_of
from posemill.jobs.extract.status import Status, read_status


def status(run: AnyPath) -> Status:
    """Return how far a run is: during it, after a crash, after its end.

    Args:
        run: The run's folder, or the file beside it that `extract` was told to write.
    """
    return read_status(run_of(run))
