from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from posemill.errors import TrainingError
from posemill.training.data.keypoint_clips import KeypointClips
from posemill.training.front import train
from posemill.training.loop.reporting import score_that_chooses
from posemill.training.loop.stepping import Stepper
from posemill.training.tasks.task import Classify

Settings = Callable[..., dict[str, Any]]


def test_a_loss_that_is_not_a_number_stops_the_training(settings: Settings) -> None:
    with pytest.raises(TrainingError, match=r"the loss became .*lower lr \(now 1e\+18\)"):
        train(settings(lr=1e18, clip_grad_norm=0, optimizer="sgd", warmup_epochs=0.0))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"),
    ],
)
def test_out_of_memory_says_what_to_lower(
    error: Exception, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Stepper, "take", fail)
    with pytest.raises(TrainingError, match=r"out of memory with micro_batch=8: try micro_batch=4"):
        train(settings())


def test_a_failed_compilation_names_the_setting(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type("InductorError", (RuntimeError,), {"__module__": "torch._inductor.exc"})

    def fail(*_: object) -> None:
        raise kind("InvalidCxxCompiler: no working C++ compiler found")

    monkeypatch.setattr(Stepper, "take", fail)
    with pytest.raises(TrainingError, match=r"torch.compile failed \(InvalidCxx.*compile=.off"):
        train(settings())


def test_a_loader_process_that_dies_is_named(settings: Settings) -> None:
    fields = settings(num_workers=1, epochs=50)
    plain = KeypointClips.__getitems__

    def die(self: KeypointClips, draws: Any) -> Any:
        if draws[0].epoch == 1:
            os._exit(1)
        return plain(self, draws)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeypointClips, "__getitems__", die)
        with pytest.raises(TrainingError, match=r"a loader process died .*lower workers"):
            train(fields)


def test_other_runtime_errors_are_not_taken_for_memory(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(Stepper, "take", fail)
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        train(settings())


def test_without_a_dev_split_the_lowest_loss_chooses() -> None:
    workload: Any = SimpleNamespace(val=None, task=Classify())
    assert score_that_chooses(workload) == ("loss", False)
    workload.val = object()
    assert score_that_chooses(workload) == ("accuracy", True)
