from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau


class Lengths:
    """Samples of different length."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return torch.ones(index + 1), 0


class Broken:
    """Its samples cannot be read."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        raise KeyError("mask")


def fails(output: Any, target: Any) -> Any:
    raise IndexError("out of it")


def draws_wrong(axes: Any, sample: Any, output: Any) -> None:
    axes.imshow(sample[0].reshape(2, 3))


@pytest.mark.parametrize(
    ("model", "data", "options", "message"),
    [
        (nn.Linear(3, 1), "line", {},
         r"the model cannot take a batch of \(float32 \(20, 1\), float32 \(20, 1\)\): Runtime"),
        (nn.Linear(1, 2), "line", {"loss": nn.CrossEntropyLoss()},
         r"loss\(output, target\) failed with output float32 \(20, 2\), target float32 \(20, 1\)"),
        (nn.Linear(1, 1), "line", {"loss": nn.MSELoss(reduction="none")},
         r"loss: expected the mean \(one number\) or \(sum, number\), got \(20, 1\)"),
        (nn.Linear(1, 1), "line", {"loss": lambda o, t: (o - t).detach().mean()},
         "the loss does not depend on the model's weights"),
        (nn.Linear(1, 1), "line", {"loss": lambda o, t: (o - t).sum() / 0},
         "the loss of the first batch is -?inf with output float32"),
        (nn.Linear(1, 1), "line", {"loss": lambda o, t: ((o - t).sum(), 0)},
         "loss: expected a number of samples above 0, got 0"),
        (nn.Linear(1, 1), "line", {"metrics": {"iou": fails}},
         r"metric 'iou' failed with output float32 \(20, 1\), .*: IndexError: out of it"),
        (nn.Linear(1, 1), "line", {"metrics": {"iou": lambda o, t: torch.ones(3)}},
         r"metric 'iou': expected one number, .* of the 20 samples, got \(3,\)"),
        (nn.Linear(1, 1), "line", {"draw_sample": draws_wrong, "figures": True},
         r"draw_sample\(axes, sample, output\) failed on the first batch of val_set"),
        (nn.Linear(1, 1), Lengths(), {},
         r"train_set: its first samples do not make a batch: RuntimeError: stack expects"),
        (nn.Linear(1, 1), Broken(), {}, "train_set: its first samples do not .* KeyError: 'mask'"),
        (nn.Linear(1, 1), [torch.ones(1)], {},
         r"train_set: expected samples \(input, …, target\) or a dict, got a batch of float32"),
        (nn.Linear(1, 1), [{"image": torch.ones(1)}], {},
         "the model's forward needs 'input', and a batch has 'image': name them alike"),
        (nn.Linear(1, 1), "line", {"optimizer": lambda model: 3}, "optimizer: expected one of"),
    ],
)  # fmt: skip
def test_wrong_use_is_one_sentence_before_the_first_step(fit, line, model, data, options, message):
    data = line if isinstance(data, str) else data
    options = {"on_step": lambda moment: pytest.fail("a step was taken"), **options}
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        fit(model, data, line, **options)
    assert "\n" not in str(caught.value)


class InPlace(nn.Module):
    """Overwrites what the backward pass needs."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.inner(x).exp()
        y += 1
        return y


def test_a_backward_pass_that_fails_is_named(fit, line):
    with pytest.raises(ValueError, match="the backward pass failed: RuntimeError: one of the var"):
        fit(InPlace(), line)


def test_a_scheduler_that_goes_by_scores_needs_a_val_set(fit, line):
    with pytest.raises(ValueError, match="ReduceLROnPlateau goes by scores: give a val_set"):
        fit(nn.Linear(1, 1), line, scheduler=ReduceLROnPlateau)


def test_the_trial_changes_neither_the_model_nor_the_draws(fit, line):
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.inner = nn.Sequential(
                nn.Linear(1, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 1)
            )

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.inner(x)
            return y

    torch.manual_seed(5)
    before = torch.get_rng_state()
    net = Net()
    torch.set_rng_state(before)
    seen: list[Any] = []
    fit(
        net,
        line,
        on_step=lambda moment: seen.append(int(moment.model.inner[1].num_batches_tracked)),
    )
    assert seen == [1, 2], "the batch of the trial is not in the running statistics"
