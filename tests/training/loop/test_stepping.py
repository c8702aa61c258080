import copy

import pytest
import torch
from small_sets import NO_DROPOUT, assert_same_state
from torch import nn

from posemill.training.bf16 import try_bf16
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.loaders import EpochLoader
from posemill.training.loop.passes import evaluate_split
from posemill.training.loop.stepping import (
    Stepper,
    WeightAverage,
    build_optimizer,
    checkpoint_blocks,
    uses_compile,
)
from posemill.training.loop.timing import Clock
from posemill.training.precision import Precision
from posemill.training.record.checkpoints import copy_state
from posemill.training.runtime import Runtime
from posemill.training.tasks.workload import build_workload

CPU = torch.device("cpu")


def stepper_of(config):
    workload = build_workload(config)
    runtime = Runtime(precision=Precision(config.precision, ""))
    stepper = Stepper(workload, config, runtime=runtime, clock=Clock(CPU))
    return stepper, EpochLoader(workload.train, config, Runtime(), shuffle=True)


def take_steps(config, count):
    stepper, loader = stepper_of(config)
    stepper.model.train()
    batches, losses = loader.batches(), []
    for step in range(count):
        stepper.take(batches, loader.sampler.num_micro_batches(step), 1e-3)
        losses.append(stepper.read_totals()[0])
    return stepper, losses


SMALL = {
    "transformer": NO_DROPOUT,
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
    config = TrainConfig(**settings(batch_size=16, model_options=NO_DROPOUT))
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
    first = [next(loader.batches())]

    def refuse(*_):
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
    fields = settings(model_options=NO_DROPOUT)
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


@pytest.mark.parametrize(
    ("name", "kind", "momentum"),
    [("adamw", torch.optim.AdamW, 0.9), ("adam", torch.optim.Adam, 0.9),
     ("sgd", torch.optim.SGD, 0.0), ("sgd", torch.optim.SGD, 0.5)],
)  # fmt: skip
def test_biases_and_norms_are_not_decayed_and_sgd_looks_ahead_with_momentum(name, kind, momentum):
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    config = TrainConfig(optimizer=name, weight_decay=0.5, momentum=momentum)
    optimizer = build_optimizer(model, config, CPU)
    assert type(optimizer) is kind
    decayed, plain = optimizer.param_groups
    assert [p.ndim for p in decayed["params"]] == [2]
    assert [p.ndim for p in plain["params"]] == [1, 1, 1]
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.5, 0.0)
    assert decayed["fused"]
    if name == "sgd":
        assert (decayed["momentum"], decayed["nesterov"]) == (momentum, momentum > 0)
    for weights in (model[0].bias, *model[1].parameters()):
        weights.requires_grad_(False)
    assert len(build_optimizer(model, config, CPU).param_groups) == 1, "frozen ones are left out"


@pytest.mark.parametrize(("device", "fused"), [("cpu", True), ("cuda", True), ("meta", False)])
def test_the_step_is_fused_where_torch_has_it(device, fused, monkeypatch):
    given = {}
    monkeypatch.setattr(torch.optim, "AdamW", lambda _, **options: given.update(options))
    build_optimizer(nn.Linear(2, 2), TrainConfig(lr=0.3), torch.device(device))
    assert given == {"lr": 0.3, "fused": fused}


def test_the_average_follows_the_weights_and_gives_them_back():
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    average = WeightAverage(model, 0.5)
    nn.init.ones_(model.weight)
    average.update(0)  # warmed up: min(0.5, 1 / 10)
    assert average.shadow["weight"].item() == pytest.approx(0.9)
    average.update(100)  # 0.5
    expected = 0.9 * 0.5 + 0.5
    with average.in_place():
        assert model.weight.item() == pytest.approx(expected)
    assert model.weight.item() == 1
    assert average.shadow["weight"].item() == pytest.approx(expected)


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.GELU(), nn.Dropout(0.5))
            for _ in range(3)
        )

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


def backward(model):
    torch.manual_seed(0)
    model(torch.randn(8, 4)).square().sum().backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def test_a_copy_computes_with_its_own_weights():
    model = Blocks()
    checkpoint_blocks(model)
    twin = copy.deepcopy(model)
    assert checkpoint_blocks(twin) == 3
    expected = backward(copy.deepcopy(twin))
    with torch.no_grad():
        for weights in model.parameters():
            weights.zero_()
    for one, other in zip(expected, backward(twin), strict=True):
        torch.testing.assert_close(one, other)
    assert all(weights.grad is None for weights in model.parameters())


def test_blocks_are_computed_twice_in_training_and_once_in_evaluation():
    model = Blocks()
    calls = []
    model.blocks[0][0].register_forward_hook(lambda *_: calls.append(1))
    checkpoint_blocks(model)
    backward(model)
    assert len(calls) == 2
    model.eval()
    backward(model)
    assert len(calls) == 3


def test_stages_of_a_sequential_are_blocks_and_plain_layers_are_not():
    stages = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Linear(2, 2))
    assert checkpoint_blocks(stages) == 1
    assert checkpoint_blocks(nn.Sequential(nn.Linear(2, 2), nn.ReLU())) == 0


def test_scores_are_of_all_samples_whatever_the_batches(settings):
    config = TrainConfig(**settings(batch_size=3, micro_batch=3))
    workload = build_workload(config)
    workload.model.train()
    split = workload.val

    def evaluate(batch):
        loader = EpochLoader(
            split, config.replace(batch_size=batch, micro_batch=batch), Runtime(), shuffle=False
        )
        return evaluate_split(workload, loader, Runtime())

    found = evaluate(3)  # 8 samples: 3, 3 and 2
    assert [row.sample for row in found.rows] == list(range(8))
    whole = evaluate(8)
    assert found.scores == pytest.approx(whole.scores, abs=1e-6)
    workload.model.eval()
    (batch,) = EpochLoader(
        split, config.replace(batch_size=8, micro_batch=8), Runtime(), shuffle=False
    ).batches()
    with torch.no_grad():
        total, count = workload.task.loss(workload.task.call(workload.model, batch), batch)
    assert found.scores["loss"] == pytest.approx(float(total) / float(count), abs=1e-6)
    assert 0 <= found.scores["accuracy"] <= 1
