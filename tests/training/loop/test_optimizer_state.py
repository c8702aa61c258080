from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from posemill.errors import TrainingError
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.loaders import EpochLoader
from posemill.training.loop.distributed import World
from posemill.training.loop.optimizer_state import pack_optimizer, unpack_optimizer
from posemill.training.loop.precision import Precision
from posemill.training.loop.stepping import Stepper
from posemill.training.loop.timing import Clock
from posemill.training.tasks.building import build_workload

CPU = torch.device("cpu")
Settings = Callable[..., dict[str, Any]]


def make_stepper(settings: Settings, steps: int, **changes: Any) -> Stepper:
    """Return a stepper after so many steps."""
    config = TrainConfig(**settings(model="mlp", model_options={}, ema_decay=0.9, **changes))
    workload = build_workload(config)
    stepper = Stepper(workload, config, device=CPU, precision=Precision("fp32", "", "cpu"),
                      world=World(), clock=Clock(CPU))  # fmt: skip
    batches = EpochLoader(workload.train, config, World(), shuffle=True).batches()
    for _ in range(steps):
        stepper.take(batches, 1, 1e-3)
    return stepper


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
def test_all_that_a_stepper_remembers_comes_back_bit_equal(
    optimizer: str, settings: Settings
) -> None:
    trained = make_stepper(settings, 3, optimizer=optimizer)
    tensors, packed = pack_optimizer(trained)
    packed = json.loads(json.dumps(packed))  # as in the file of a checkpoint
    fresh = make_stepper(settings, 0, optimizer=optimizer)
    unpack_optimizer(fresh, tensors, packed)
    ours, theirs = (one.optimizer.state_dict() for one in (fresh, trained))
    assert json.dumps(ours["param_groups"]) == json.dumps(theirs["param_groups"])
    assert ours["state"].keys() == theirs["state"].keys() != set()
    for index, entries in theirs["state"].items():
        assert ours["state"][index].keys() == entries.keys()
        for name, value in entries.items():
            found = ours["state"][index][name]
            assert torch.equal(found, value) if torch.is_tensor(value) else found == value
    assert fresh.average is not None
    assert trained.average is not None
    assert any((one != 0).any() for one in trained.average.shadow)
    for one, other in zip(fresh.average.shadow, trained.average.shadow, strict=True):
        assert torch.equal(one, other)


def test_names_say_what_a_tensor_is(settings: Settings) -> None:
    stepper = make_stepper(settings, 1)
    tensors, packed = pack_optimizer(stepper)
    assert packed["kind"] == "AdamW"
    assert packed["groups"][0]["lr"] == 1e-3
    assert "optimizer.0.exp_avg" in tensors
    assert stepper.average is not None
    assert {name for name in tensors if name.startswith("average.")} == {
        f"average.{name}" for name in stepper.average.names
    }


def test_another_optimizer_and_a_missing_average_are_refused(settings: Settings) -> None:
    tensors, packed = pack_optimizer(make_stepper(settings, 1))
    other = make_stepper(settings, 0, optimizer="sgd")
    with pytest.raises(TrainingError, match=r"written by optimizer AdamW, this training has SGD"):
        unpack_optimizer(other, tensors, packed)
    without = {name: t for name, t in tensors.items() if not name.startswith("average.")}
    with pytest.raises(TrainingError, match="has no moving average: continue with --ema-decay 0"):
        unpack_optimizer(make_stepper(settings, 0), without, packed)
