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
from posemill.training.loop.distributed import World
from posemill.training.loop.rank import _with_head, numeric_settings, train_rank, use_device
from posemill.training.runs.run_folder import RunFolder
from posemill.training.tasks.building import build_workload
from posemill.training.tasks.scorers import ClassScorer, CtcScorer
from posemill.training.tasks.workload import Split, Workload, equal_lengths


def read() -> tuple[int, bool, bool]:
    return (
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.benchmark,
    )


def test_threads_and_determinism_are_set_for_the_block_only() -> None:
    before = read()
    with numeric_settings(TrainConfig(threads=2, deterministic=True, cudnn_benchmark=True)):
        assert read() == (2, True, False), "a benchmark may choose another algorithm each time"
    assert read() == before
    with numeric_settings(TrainConfig(cudnn_benchmark=True)):
        assert read() == (before[0], False, True)
    with pytest.raises(KeyError), numeric_settings(TrainConfig(threads=3)):
        raise KeyError
    assert read() == before


def test_a_training_leaves_its_facts_and_its_summary(
    settings: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    config = TrainConfig(**settings(epochs=1, threads=1))
    folder = RunFolder(tmp_path / "run")
    folder.make()
    workload = build_workload(config)
    summary = train_rank(lambda: workload, config, folder, World())
    assert {name: summary[name] for name in ("mode", "processes", "threads", "precision")} == {
        "mode": "single", "processes": 1, "threads": 1, "precision": "fp32",
    }  # fmt: skip
    assert (summary["device"], summary["head"]) == ("cpu", "")
    assert list(summary["scores"]) == ["dev", "test"]
    assert all(set(scores) == {"loss", "accuracy"} for scores in summary["scores"].values())
    assert folder.read_summary() == json.loads(json.dumps(summary))
    assert not folder.figures.exists()
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
        train_rank(_no_disk, config, folder, World())


def _no_disk() -> Workload:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_glosses_of_the_test_split_are_read_from_the_head_that_dev_chose() -> None:
    config = TrainConfig(task="ctc", ctc_decoder="beam", beam_width=7)
    split: Any = Split(None, equal_lengths(1), CtcScorer([[1, 2]]))  # type: ignore[arg-type]
    for head, used in (("conv", "conv"), ("", "sequence")):
        scorer = _with_head(split, head, config).scorer
        assert isinstance(scorer, CtcScorer)
        assert (scorer.head, scorer.decoder, scorer.beam_width) == (used, "beam", 7)
        assert scorer.targets == [[1, 2]]
    split.scorer = ClassScorer([1])
    assert _with_head(split, "conv", config) is split


@pytest.mark.parametrize(("size", "expected"), [(1, "cuda:1"), (2, "cuda:0")])
def test_the_gpu_that_was_asked_for_is_the_current_one(
    monkeypatch: pytest.MonkeyPatch, size: int, expected: str
) -> None:
    seen: list[torch.device] = []
    monkeypatch.setattr("posemill.training.loop.rank.choose_device", torch.device)
    monkeypatch.setattr(torch.cuda, "set_device", seen.append)
    device = use_device("cuda:1", World(size=size))
    assert seen == [device] == [torch.device(expected)]
    assert use_device("cpu", World()) == torch.device("cpu")
    assert len(seen) == 1
