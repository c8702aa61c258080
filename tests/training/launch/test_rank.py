from __future__ import annotations

import errno
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import posemill
from posemill.errors import TrainingError
from posemill.training.config.train_config import TrainConfig
from posemill.training.launch.rank import train_rank
from posemill.training.record.run_folder import RunFolder
from posemill.training.runtime import Runtime
from posemill.training.tasks.workload import Workload, build_workload


def test_a_training_leaves_its_facts_and_its_summary(
    settings: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    config = TrainConfig(**settings(epochs=1, threads=1))
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir(parents=True, exist_ok=True)
    workload = build_workload(config)
    summary = train_rank(lambda: workload, config, folder, Runtime())
    assert {name: summary[name] for name in ("mode", "processes", "threads", "precision")} == {
        "mode": "single", "processes": 1, "threads": 1, "precision": "fp32",
    }  # fmt: skip
    assert (summary["device"], summary["head"]) == ("cpu", "")
    assert list(summary["scores"]) == ["dev", "test"]
    assert all(set(scores) == {"loss", "accuracy"} for scores in summary["scores"].values())
    assert folder.read_summary() == json.loads(json.dumps(summary))
    assert not (folder.path / "figures").exists()
    facts = folder.read_facts()
    weights = sum(weight.numel() for weight in workload.model.parameters())
    assert facts.pop("torch") == torch.__version__
    assert facts == {
        "kind": "posemill-training", "posemill": posemill.__version__,
        "python": platform.python_version(), "mode": "single", "processes": 1, "threads": 1,
        "precision": "fp32", "num_parameters": weights, "identity": dict(workload.identity),
        "class_names": ["class0", "class1", "class2"], "skeleton_name": None, "recipe": {},
    }  # fmt: skip
    with pytest.raises(TrainingError, match="No space left"):
        train_rank(_no_disk, config, folder, Runtime())


def _no_disk() -> Workload:
    raise OSError(errno.ENOSPC, "No space left on device")
