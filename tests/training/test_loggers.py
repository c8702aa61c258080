from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import posemill
from posemill.errors import MissingExtraError
from posemill.training.loggers import MlflowLogger, TensorBoardLogger, WandbLogger, make_loggers

SAMPLES = TensorDataset(torch.ones(4, 1), torch.ones(4, 1))
QUIET: dict[str, Any] = {"parallel": "single", "precision": "fp32", "workers": 0, "epochs": 2,
                         "progress": False, "tensorboard": False, "figures": False, "log_every": 1,
                         "eval_every": 1}  # fmt: skip


class Listed:
    """A logger of one's own that keeps all it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def start(self, out: Path, settings: Any, step: int) -> None:
        self.told.append(("start", out, settings["epochs"], step))

    def log(self, values: Any, step: int) -> None:
        self.told.append((step, sorted(values)))

    def close(self) -> None:
        self.told.append("close")


def test_a_logger_of_ones_own_gets_every_line(tmp_path: Path) -> None:
    listed = Listed()
    posemill.fit(nn.Linear(1, 1), SAMPLES, SAMPLES, loss=nn.MSELoss(), loggers=[listed],
                 out=str(tmp_path / "run"), **QUIET)  # fmt: skip
    train = ["train/data_wait", "train/loss", "train/lr", "train/samples_per_second"]
    assert listed.told == [
        ("start", tmp_path / "run", 2, 0),
        (1, train), (1, ["eval/loss"]), (2, train), (2, ["eval/loss"]), "close",
    ]  # fmt: skip


def test_tensorboard_by_name_is_the_one_that_is_on_by_itself(tmp_path: Path) -> None:
    for loggers, number in ((["tensorboard"], 1), ([], 1), (["tensorboard"], 0)):
        out = tmp_path / f"{len(loggers)}{number}"
        posemill.fit(nn.Linear(1, 1), SAMPLES, loss=nn.MSELoss(), loggers=loggers, out=str(out),
                     **{**QUIET, "tensorboard": bool(number)})  # fmt: skip
        assert len(list((out / "tensorboard").iterdir())) == 1


def fake_wandb(calls: list[Any]) -> Any:
    """The three calls of W&B that matter, written down."""
    run = types.SimpleNamespace(
        log=lambda values, step: calls.append(("log", values, step)),
        finish=lambda: calls.append("finish"),
    )
    module: Any = types.ModuleType("wandb")
    module.init = lambda **options: calls.append(("init", options)) or run
    return module


def fake_mlflow(calls: list[Any]) -> Any:
    """The five calls of MLflow that matter, written down."""
    module: Any = types.ModuleType("mlflow")
    module.set_experiment = lambda name: calls.append(("experiment", name))
    module.start_run = lambda **options: calls.append(("start", options))
    module.log_params = lambda values: calls.append(("params", values))
    module.log_metrics = lambda values, step: calls.append(("metrics", values, step))
    module.end_run = lambda: calls.append("end")
    return module


def test_wandb_gets_settings_and_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[Any] = []
    monkeypatch.setitem(sys.modules, "wandb", fake_wandb(calls))
    logger = WandbLogger(project="signs")
    logger.close()  # never started: nothing to end
    logger.start(tmp_path, {"lr": 0.1}, 0)
    logger.log({"train/loss": 2.0}, 5)
    logger.close()
    assert calls == [
        ("init", {"dir": str(tmp_path), "config": {"lr": 0.1}, "project": "signs"}),
        ("log", {"train/loss": 2.0}, 5), "finish",
    ]  # fmt: skip


def test_mlflow_gets_settings_once_and_numbers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[Any] = []
    monkeypatch.setitem(sys.modules, "mlflow", fake_mlflow(calls))
    logger = MlflowLogger("signs", run_name="first")
    logger.close()
    logger.start(tmp_path, {"lr": 0.1}, 0)
    logger.log({"train/loss": 2.0}, 5)
    logger.close()
    assert calls == [
        ("experiment", "signs"), ("start", {"run_name": "first"}), ("params", {"lr": 0.1}),
        ("metrics", {"train/loss": 2.0}, 5), "end",
    ]  # fmt: skip
    calls.clear()
    MlflowLogger(run_id="7").start(tmp_path, {"lr": 0.1}, 40)
    assert calls == [("start", {"run_id": "7"})], "a run that goes on has its parameters"


def test_loggers_are_known_by_name_and_wrong_ones_named(monkeypatch: pytest.MonkeyPatch) -> None:
    (board,) = make_loggers("tensorboard")
    assert isinstance(board, TensorBoardLogger)
    with pytest.raises(ValueError, match="loggers: expected tensorboard, wandb, mlflow or an obj"):
        make_loggers(["comet"])
    with pytest.raises(TypeError, match="loggers: object has no start, log, close; a logger has"):
        make_loggers([object()])
    for name in ("wandb", "mlflow", "tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(MissingExtraError, match=f"needs '{name}'.* pip install {name}"):
            make_loggers([name])
