"""Pictures of a finished training."""

from __future__ import annotations

from collections.abc import Mapping

from posemill.training.evaluation import Evaluation
from posemill.training.run_folder import RunFolder
from posemill.training.workload import Workload


def draw_training(folder: RunFolder, workload: Workload, results: Mapping[str, Evaluation]) -> None:
    """Write the PNGs of a training into its `figures` folder."""
