"""Steps timed on a copy of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from posemill.errors import TrainingError
from posemill.training import precision
from posemill.training.config.train_config import TrainConfig
from posemill.training.launch import rank
from posemill.training.runtime import Runtime
from posemill.training.tasks.building import build_workload
from posemill.training.tuning import probe
from posemill.training.tuning.probe import TimedSteps, bf16_gain, measure_in_turn

Settings = Callable[..., dict[str, Any]]
CPU = torch.device("cpu")


def test_steps_leave_the_model_and_the_random_state_as_they_were(settings: Settings) -> None:
    config = TrainConfig(**settings())
    workload = build_workload(config)
    before = [weights.clone() for weights in workload.model.parameters()]
    state = torch.get_rng_state()
    assert measure_in_turn(workload, {"a": config}, CPU)["a"] > 0
    assert all(map(torch.equal, before, workload.model.parameters()))
    assert torch.equal(state, torch.get_rng_state())


def test_one_step_is_too_few(settings: Settings) -> None:
    config = TrainConfig(**settings())
    steps = TimedSteps(build_workload(config), config, Runtime())
    steps.take()
    with pytest.raises(TrainingError, match="the probe took too few steps to measure"):
        _ = steps.seconds


def test_bf16_is_measured_only_where_the_hardware_has_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def fake(_: Any, configs: dict[str, TrainConfig], device: torch.device) -> dict[str, float]:
        asked.append([config.precision for config in configs.values()])
        return {"fp32": 3.0, "bf16": 2.0}

    monkeypatch.setattr(probe, "measure_in_turn", fake)
    config = TrainConfig(**settings(precision="fp32"))
    workload = build_workload(config)
    monkeypatch.setattr(precision, "cpu_has_fast_bf16", lambda: True)
    assert bf16_gain(workload, config, CPU) == 1.5
    assert asked == [["fp32", "bf16"]]
    assert bf16_gain(workload, config.replace(precision="bf16"), CPU) is None
    assert bf16_gain(workload, config.replace(deterministic=True), CPU) is None
    monkeypatch.setattr(precision, "cpu_has_fast_bf16", lambda: False)
    assert bf16_gain(workload, config, CPU) is None
    assert len(asked) == 1


def test_a_long_training_in_fp32_is_told_what_bf16_takes(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank, "bf16_gain", lambda *_: 1.5)

    class Long:
        """A trainer as far as it is asked."""

        workload = config = reporter = None
        runtime, state = Runtime(), rank.Trainer.__init__.__globals__["TrainState"](step=500)

        class clock:
            read = staticmethod(lambda: {"forward": 60.0})

    Long.reporter = type("Reporter", (), {"bf16_gain": None})()
    rank._measure_bf16(Long)  # type: ignore[arg-type]
    assert Long.reporter.bf16_gain == 1.5
    for short in ({"step": 499, "seconds": 60.0}, {"step": 500, "seconds": 59.0}):
        Long.reporter.bf16_gain, Long.state.step = None, int(short["step"])
        Long.clock.read = staticmethod(lambda short=short: {"forward": short["seconds"]})
        rank._measure_bf16(Long)  # type: ignore[arg-type]
        assert Long.reporter.bf16_gain is None
