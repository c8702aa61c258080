from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import posemill
from posemill.errors import ConfigError, RunError
from posemill.training.launch.start import fit, load_model, train
from posemill.training.runs.run_folder import RunFolder

Settings = Callable[..., dict[str, Any]]
QUIET: dict[str, Any] = {"precision": "fp32", "num_workers": 0, "progress": False, "log_every": 1,
                         "tensorboard": False, "figures": False, "eval_every": 1}  # fmt: skip


@pytest.fixture
def line() -> TensorDataset:
    """Points of the line 3 x - 1."""
    x = torch.linspace(-1, 1, 20)[:, None]
    return TensorDataset(x, 3 * x - 1)


def test_a_model_of_ones_own_is_trained_in_place(line: TensorDataset) -> None:
    model = nn.Linear(1, 1)
    result = posemill.fit(model, line, line, loss=nn.MSELoss(), mode="single", epochs=60, lr=0.1,
                          batch_size=6, **QUIET)  # fmt: skip
    assert model.weight.item() == pytest.approx(3, abs=0.05)
    assert model.bias.item() == pytest.approx(-1, abs=0.05)
    assert result.scores["dev"]["loss"] < 1e-3


def test_processes_fit_the_same_model_as_one(line: TensorDataset, tmp_path: Path) -> None:
    models = []
    for mode, processes in (("single", 0), ("multi_process", 2)):
        torch.manual_seed(0)
        models.append(nn.Linear(1, 1))
        # 20 samples over two ranks in batches of 9: the last step has one sample on each.
        fit(models[-1], line, line, loss=nn.MSELoss(), mode=mode, processes=processes, epochs=1,
            batch_size=9, out=str(tmp_path / mode), metric=minus_error, **QUIET)  # fmt: skip
    logs = [RunFolder(tmp_path / mode).read_metrics() for mode in ("single", "multi_process")]
    assert [row["loss"] for row in logs[1]] == pytest.approx([r["loss"] for r in logs[0]], abs=1e-5)
    torch.testing.assert_close(models[0].weight, models[1].weight, atol=1e-5, rtol=1e-5)


minus_error = nn.CosineSimilarity(dim=0)  # any picklable function of output and target


def test_a_loss_may_give_its_own_sum_and_number(line: TensorDataset) -> None:
    def loss(output: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, int]:
        return (output - target).square().sum(), len(target)

    one, other = nn.Linear(1, 1), nn.Linear(1, 1)
    other.load_state_dict(one.state_dict())
    fit(one, line, loss=loss, mode="single", epochs=2, batch_size=7, **QUIET)
    fit(other, line, loss=nn.MSELoss(), mode="single", epochs=2, batch_size=7, **QUIET)
    torch.testing.assert_close(one.weight, other.weight)


def test_the_metric_chooses_the_best(line: TensorDataset, tmp_path: Path) -> None:
    def metric(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return -(output - target).abs().mean()

    result = fit(nn.Linear(1, 1), line, line, loss=nn.MSELoss(), metric=metric, mode="single",
                 epochs=3, out=str(tmp_path / "run"), **QUIET)  # fmt: skip
    assert result.summary["chosen_by"] == "metric"
    assert "metric" in result.scores["dev"]
    with pytest.raises(ConfigError, match=r"trained by fit.* with a model of your own"):
        load_model(tmp_path / "run")


def test_wrong_arguments_are_named(line: TensorDataset) -> None:
    model = nn.Linear(1, 1)
    with pytest.raises(TypeError, match=r"train_set: expected len\(\) and \[index\], got int"):
        fit(model, 3, loss=nn.MSELoss())
    with pytest.raises(ValueError, match="val_set: expected samples, got none"):
        fit(model, line, [], loss=nn.MSELoss())
    with pytest.raises(ValueError, match="expected weights to train, got none"):
        fit(nn.ReLU(), line, loss=nn.MSELoss())
    with pytest.raises(ValueError, match=r"loss: expected the mean .* got \(20, 1\)"):
        fit(model, line, loss=nn.MSELoss(reduction="none"), mode="single", **QUIET)
    with pytest.raises(ConfigError, match="unknown setting 'epoch'; did you mean 'epochs'"):
        fit(model, line, loss=nn.MSELoss(), epoch=3)


def test_a_training_needs_data_and_a_folder(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="out: expected the folder of the run"):
        train(settings(out=""))
    with pytest.raises(ConfigError, match="data: expected the folder `posemill prepare` wrote"):
        train(settings(data=""))
    with pytest.raises(RunError, match="is not the folder of a training"):
        load_model(tmp_path)
