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


class InPlace(nn.Module):
    """Overwrites what the backward pass needs."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.inner(x).exp()
        y += 1
        return y


LINE = nn.Linear(1, 1)


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
        (LINE, "line", {"loss": nn.MSELoss(reduction="none")},
         r"loss: expected the mean \(one number\) or \(sum, number\), got \(20, 1\)"),
        (LINE, "line", {"loss": lambda o, t: (o - t).detach().mean()},
         "the loss does not depend on the model's weights"),
        (LINE, "line", {"loss": lambda o, t: (o - t).sum() / 0},
         "the loss of the first batch is -?inf with output float32"),
        (LINE, "line", {"loss": lambda o, t: ((o - t).sum(), 0)},
         "loss: expected a number of samples above 0, got 0"),
        (LINE, "line", {"metrics": {"iou": fails}},
         r"metric 'iou' failed with output float32 \(20, 1\), .*: IndexError: out of it"),
        (LINE, "line", {"metrics": {"iou": lambda o, t: torch.ones(3)}},
         r"metric 'iou': expected one number, .* of the 20 samples, got \(3,\)"),
        (LINE, "line", {"draw_sample": draws_wrong, "figures": True},
         r"draw_sample\(axes, sample, output\) failed on the first batch of val_set"),
        (LINE, Lengths(), {},
         r"train_set: its first samples do not make a batch: RuntimeError: stack expects"),
        (LINE, Broken(), {}, "train_set: its first samples do not .* KeyError: 'mask'"),
        (LINE, [torch.ones(1)], {},
         r"train_set: expected samples \(input, …, target\) or a dict, got a batch of float32"),
        (LINE, [{"image": torch.ones(1)}], {},
         "the model's forward needs 'input', and a batch has 'image': name them alike"),
        (LINE, "line", {"optimizer": lambda model: 3}, "optimizer: expected one of"),
        (LINE, "line", {"scheduler": ReduceLROnPlateau, "val_set": None},
         "ReduceLROnPlateau goes by scores: give a val_set"),
        (InPlace(), "line", {}, "the backward pass failed: RuntimeError: one of the var"),
        (nn.ReLU(), "line", {}, "expected weights to train, got none"),
        ("resnet", "line", {}, "model: expected a torch.nn.Module, got str"),
        (LINE, "line", {"loss": "mse"}, "loss: expected a function, got str"),
        (LINE, "line", {"metrics": [fails]},
         "metrics: expected a dict of functions by name, got list"),
        (LINE, "line", {"metrics": {"a": 3}},
         r"metrics\['a'\]: expected a function, or \(function, 'max' or 'min'\), got 3"),
        (LINE, "line", {"metrics": {"a": (fails, "up")}},
         r"metrics\['a'\]: expected a function"),
        (LINE, "line", {"metrics": {"loss": fails}},
         "metrics: expected names other than 'loss', got 'loss'"),
        (LINE, "line", {"metrics": {"a": fails}, "metric": fails},
         "metric and metrics say the same thing"),
        (LINE, "line", {"metrics": {"a": fails, "b": fails}, "choose_by": "c"},
         "choose_by: expected one of a, b, loss, got 'c'"),
        (LINE, "line", {"metrics": {"a": fails}, "val_set": None},
         "metrics are of the val_set: give one, or leave a out"),
    ],
)  # fmt: skip
def test_wrong_use_is_one_sentence_before_the_first_step(fit, line, model, data, options, message):
    data = line if isinstance(data, str) else data
    usual = {"on_step": lambda moment: pytest.fail("a step was taken"), "val_set": line}
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        fit(model, data, **usual | options)
    assert "\n" not in str(caught.value)


def test_the_trial_does_not_change_the_model(fit, line):
    net = nn.Sequential(nn.Linear(1, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 1))
    seen: list[int] = []
    fit(net, line, on_step=lambda moment: seen.append(int(moment.model[1].num_batches_tracked)))
    assert seen == [1, 2], "the batch of the trial is not in the running statistics"
