import copy

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import (
    LambdaLR,
    MultiStepLR,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)

from posemill.training.config.train_config import TrainConfig
from posemill.training.fitting.optimizers import make_optimizer_maker
from posemill.training.record.checkpoints import copy_state

CPU = torch.device("cpu")


def make(model, optimizer = None, scheduler = None, by = "epoch",
         **settings):  # fmt: skip
    """Return the optimizers for a copy of the model, as a training has them."""
    maker = make_optimizer_maker(model, optimizer, scheduler, by)
    return maker(copy.deepcopy(model), TrainConfig(**settings), CPU)


def step(optimizers):
    """Take a step with gradients of 1."""
    for group in optimizers.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.ones_like(parameter)
    optimizers.step()


def test_an_optimizer_that_is_made_trains_the_copy_and_not_the_model():
    model = nn.Linear(2, 1)
    before = copy.deepcopy(model.state_dict())
    given = SGD(model.parameters(), lr=0.5)
    made = make(model, given, StepLR(given, 1, gamma=0.1))
    trained = made.param_groups[0]["params"][0]
    assert trained is not model.weight
    step(made)
    torch.testing.assert_close(trained, before["weight"] - 0.5)
    assert torch.equal(model.weight, before["weight"])
    made.end_epoch()
    assert made.param_groups[0]["lr"] == pytest.approx(0.05)
    assert given.param_groups[0]["lr"] == 0.5


def test_several_optimizers_step_together_and_their_state_is_one():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))

    def build(model):
        return [SGD(model[0].parameters(), lr=0.5, momentum=0.9), Adam(model[1].parameters())]

    def schedules(optimizers):
        return [StepLR(optimizers[0], 1), MultiStepLR(optimizers[1], [1, 3])]

    one, other = (make(model, build, schedules) for _ in range(2))
    assert one.name == "SGD+Adam"
    for _ in range(3):
        step(one)
        one.end_epoch()
    assert [group["lr"] for group in one.param_groups] == pytest.approx([0.0005, 1e-5])
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    for mine, theirs in zip(one.param_groups, other.param_groups, strict=True):
        for p, q in zip(mine["params"], theirs["params"], strict=True):
            q.data.copy_(p.data)
    for _ in range(2):
        for optimizers in (one, other):
            step(optimizers)
            optimizers.end_epoch()
    for mine, theirs in zip(one.param_groups, other.param_groups, strict=True):
        assert mine["lr"] == theirs["lr"]
        for p, q in zip(mine["params"], theirs["params"], strict=True):
            assert torch.equal(p, q)
    one.zero_grad()
    assert all(p.grad is None for group in one.param_groups for p in group["params"])


def test_a_scheduler_moves_by_step_by_epoch_or_by_score():
    model = nn.Linear(1, 1)
    by_step = make(model, lambda m: SGD(m.parameters(), 1.0), lambda o: StepLR(o, 1, 0.5), "step")
    step(by_step)
    by_step.end_epoch()
    assert by_step.param_groups[0]["lr"] == 0.5
    plateau = make(model, None, lambda o: ReduceLROnPlateau(o, patience=0), lr=0.2)
    assert plateau.param_groups[0]["lr"] == 0.2, "the optimizer of the settings"
    for value in (1.0, 2.0):
        step(plateau)
        plateau.end_epoch()
        plateau.end_evaluation(value)
    assert plateau.param_groups[0]["lr"] == pytest.approx(0.02)
    assert make_optimizer_maker(model, None, None, "epoch") is None


@pytest.mark.parametrize(
    "build",
    [
        lambda o: OneCycleLR(o, 0.1, total_steps=20),
        lambda o: SequentialLR(o, [StepLR(o, 1), StepLR(o, 2)], [2]),
        lambda o: LambdaLR(o, lambda epoch: 1 / (epoch + 1)),
    ],
)
def test_states_of_schedulers_go_into_a_checkpoint_and_back(build):
    model = nn.Linear(1, 1)
    one, other = (make(model, lambda m: SGD(m.parameters(), 0.1), build) for _ in range(2))
    for _ in range(3):
        step(one)
        one.end_epoch()
    other.load_state_dict(copy_state(one.state_dict()))
    for optimizers in (one, other):
        step(optimizers)
        optimizers.end_epoch()
    assert one.param_groups[0]["lr"] == other.param_groups[0]["lr"]


class Strange(StepLR):
    """Keeps what cannot be written down."""

    def __init__(self, optimizer):
        super().__init__(optimizer, 1)
        self.thing = object()


@pytest.mark.parametrize(
    ("optimizer", "scheduler", "message"),
    [
        ("made", "other", "scheduler: StepLR moves another optimizer than the one given"),
        (lambda m: 3, None, "optimizer: expected one of torch, several, or .* got int"),
        (lambda m: [], None, "optimizer: expected one of torch, .* got none"),
        (None, lambda o: o, "scheduler: expected one of torch, .* got AdamW"),
        (None, "made", "scheduler: a scheduler that is made already belongs to an optimizer"),
        (lambda m: SGD(nn.Linear(1, 1).parameters(), 0.1), None,
         "optimizer: 2 parameters of SGD are not of the model"),
        (lambda m: torch.optim.LBFGS(m.parameters()), None, "LBFGS calls the loss several times"),
        (lambda m: SGD([{"params": m.parameters(), "why": object()}], 0.1), None,
         r"the settings of SGD cannot be .* checkpoint \(it has a value of type object\)"),
        (None, Strange, r"the state of Strange cannot be .* checkpoint \(it .* of type object\)"),
    ],
)  # fmt: skip
def test_wrong_optimizers_and_schedulers_are_named(optimizer, scheduler, message):
    model = nn.Linear(1, 1)
    made = SGD(model.parameters(), lr=0.1)
    if optimizer == "made":
        optimizer = made
    if scheduler in ("made", "other"):
        scheduler = StepLR(made if scheduler == "made" else SGD(model.parameters(), 0.1), 1)
    with pytest.raises((TypeError, ValueError), match=message):
        make(model, optimizer, scheduler)
    with pytest.raises(ValueError, match="scheduler_by: expected epoch or step, got 'hour'"):
        make(model, made, None, "hour")
