from __future__ import annotations

from typing import Any

import pytest
import torch
from small_sets import assert_same_state

from posemill.training.bf16 import try_bf16
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.loaders import EpochLoader
from posemill.training.loop.stepping import Stepper, uses_compile
from posemill.training.loop.timing import Clock
from posemill.training.precision import Precision
from posemill.training.record.checkpoints import copy_state
from posemill.training.runtime import Runtime
from posemill.training.tasks.workload import build_workload

CPU = torch.device("cpu")


def stepper_of(config: TrainConfig) -> tuple[Stepper, EpochLoader]:
    workload = build_workload(config)
    runtime = Runtime(precision=Precision(config.precision, ""))
    stepper = Stepper(workload, config, runtime=runtime, clock=Clock(CPU))
    return stepper, EpochLoader(workload.train, config, Runtime(), shuffle=True)


def take_steps(config: TrainConfig, count: int) -> tuple[Stepper, list[float]]:
    stepper, loader = stepper_of(config)
    stepper.model.train()
    batches, losses = loader.batches(), []
    for step in range(count):
        stepper.take(batches, loader.sampler.num_micro_batches(step), 1e-3)
        losses.append(stepper.read_totals()[0])
    return stepper, losses


SMALL: dict[str, dict[str, Any]] = {
    "transformer": {"width": 16, "num_layers": 1, "num_heads": 2},
    "tcn_bilstm": {"width": 16},
    "stgcn": {"widths": [8, 8], "strides": [1, 2]},
    "mlp": {"hidden": [16]},
}


@pytest.mark.parametrize("model", SMALL)
def test_accumulation_of_four_equals_the_whole_batch_for_unequal_lengths(model, settings):
    options = {**SMALL[model], "dropout": 0.0}
    fields = settings(model=model, model_options=options, batch_size=16, clip_grad_norm=0)
    whole, losses = take_steps(TrainConfig(**fields | {"micro_batch": 16}), 1)
    parts, part_losses = take_steps(TrainConfig(**fields | {"micro_batch": 4}), 1)
    assert part_losses == pytest.approx(losses, abs=1e-5)
    for one, other in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-5)


def test_a_short_last_step_is_divided_by_its_own_number(settings):
    options = {**SMALL["transformer"], "dropout": 0.0}
    config = TrainConfig(**settings(batch_size=16, model_options=options))
    stepper, loader = stepper_of(config)
    workload = stepper.workload
    stepper.model.train()
    last = list(loader.batches(start_step=1))  # 28 clips: the second step has 12
    assert sum(len(batch) for batch in last) == 12
    total = sum(
        workload.task.loss(workload.task.call(stepper.model, batch), batch)[0] for batch in last
    )
    expected = torch.autograd.grad(total / 12, list(stepper.model.parameters()), allow_unused=True)
    config = config.replace(clip_grad_norm=0)
    stepper.config = config
    stepper.take(iter(last), len(last), 0.0)
    for parameter, gradient in zip(stepper.model.parameters(), expected, strict=True):
        if gradient is not None and parameter.grad is not None:
            torch.testing.assert_close(parameter.grad, gradient, atol=1e-5, rtol=1e-4)
    assert stepper.read_totals()[1] == 12


def test_a_step_reads_nothing_back_from_the_device(settings, monkeypatch):
    config = TrainConfig(**settings(model="mlp", model_options={}, ema_decay=0.9))
    stepper, loader = stepper_of(config)
    batches = loader.batches()
    first = [next(batches)]

    def refuse(*_: object) -> None:
        raise AssertionError("the hot loop waits for the device")

    for name in ("item", "tolist", "__float__", "__int__", "__bool__", "numpy"):
        monkeypatch.setattr(torch.Tensor, name, refuse)
    # Fused optimizers and the clipping of torch itself stay within this, too.
    stepper.take(iter(first), 1, 1e-3)


def test_gradients_are_clipped_to_the_norm_asked_for(settings):
    stepper, _ = take_steps(TrainConfig(**settings(clip_grad_norm=1e-3)), 1)
    norms = [p.grad.norm() for p in stepper.model.parameters() if p.grad is not None]
    assert torch.stack(norms).norm() == pytest.approx(1e-3, rel=1e-3)


def test_bf16_trains_close_to_fp32(settings):
    fields = settings(model_options={**SMALL["transformer"], "dropout": 0.0})
    if not try_bf16().works:
        pytest.skip("bf16 does not work in this process")
    _, exact = take_steps(TrainConfig(**fields), 2)
    _, rounded = take_steps(TrainConfig(**fields | {"precision": "bf16"}), 2)
    assert rounded == pytest.approx(exact, rel=0.03)
    assert rounded != exact


def test_compile_is_for_gpus_with_a_fast_preset_or_when_asked_for():
    gpu = torch.device("cuda")
    assert uses_compile(TrainConfig(preset="extreme"), gpu)
    assert not uses_compile(TrainConfig(preset="extreme"), CPU)
    assert not uses_compile(TrainConfig(preset="balanced"), gpu)
    assert uses_compile(TrainConfig(compile="on"), CPU)
    assert not uses_compile(TrainConfig(compile="off", preset="extreme"), gpu)


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
def test_all_that_a_stepper_remembers_comes_back_bit_equal(optimizer, settings):
    fields = settings(model="mlp", model_options={}, ema_decay=0.9, optimizer=optimizer)
    trained, _ = take_steps(TrainConfig(**fields), 3)
    fresh, _ = take_steps(TrainConfig(**fields), 0)
    state = copy_state(trained.state_dict())
    assert state["optimizer"]["state"].keys() != set()
    assert any((average != 0).any() for average in state["average"].values())
    fresh.load_state_dict(state)
    assert_same_state(copy_state(fresh.state_dict()), state)
