from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import posemill
from posemill.errors import ConfigError, RunError
from posemill.training.config.train_config import TrainConfig
from posemill.training.launch.start import fit, load_model, train
from posemill.training.runs.run_folder import RunFolder
from posemill.training.tasks.building import build_workload

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


def test_data_without_splits_end_with_an_accuracy_of_a_share_set_aside(
    settings: Settings, clips_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    shutil.copy(clips_folder / "train_keypoints.npz", tmp_path / "data" / "all_keypoints.npz")
    lines = (clips_folder / "labels.csv").read_text().splitlines()
    (tmp_path / "labels.csv").write_text("\n".join(line.rpartition(",")[0] for line in lines))
    fields = settings(data=str(tmp_path / "data"), labels=str(tmp_path / "labels.csv"),
                      progress=True, patience=5)  # fmt: skip
    result = train(fields)
    assert list(result.scores) == ["dev"]
    note = (
        f"no dev split in {tmp_path / 'data'}: 4 of 28 training clips are set aside for it "
        "(share 0.15, split_seed 0); --dev-fraction sets the share, 0 keeps them all"
    )
    assert result.summary["notes"] == [note]
    assert note in " ".join(capsys.readouterr().err.split())
    toml = (result.out / "config.toml").read_text()
    assert re.search("dev_fraction = 0.15 +# machine: no dev split in the data", toml)
    again = posemill.evaluate(result.out, split="val")
    assert again["accuracy"] == pytest.approx(result.scores["dev"]["accuracy"])
    assert again["num_clips"] == 4
    whole = posemill.evaluate(result.out, split="train", data=str(clips_folder),
                              labels=str(clips_folder / "labels.csv"))  # fmt: skip
    assert whole["num_clips"] == 28, "nothing of other data was set aside"


def test_without_any_dev_split_it_is_said_that_nothing_is_scored(
    settings: Settings, clips_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    shutil.copy(clips_folder / "train_keypoints.npz", tmp_path / "data")
    result = train(settings(data=str(tmp_path / "data"), dev_fraction=0.0, patience=2, epochs=1))
    assert result.scores == {}
    assert result.summary["notes"] == [
        "no dev split: nothing is scored during the training, and the last weights count",
        "--patience 2 has no effect: there is no dev split to stop by",
    ]


def test_where_another_split_picks_the_best_no_clips_are_set_aside(
    settings: Settings, clips_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    for split in ("train", "test"):
        shutil.copy(clips_folder / f"{split}_keypoints.npz", tmp_path / "data")
    fields = settings(data=str(tmp_path / "data"), val_split="test")
    workload = build_workload(TrainConfig(**fields))
    assert (len(workload.train), workload.notes) == (28, ())
