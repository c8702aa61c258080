import sys
import types

import pytest
import torch
from small_sets import QUIET
from torch import nn
from torch.utils.data import TensorDataset

import posemill
from posemill.errors import MissingExtraError
from posemill.training.loggers import MlflowLogger, TensorBoardLogger, WandbLogger, make_loggers

SAMPLES = TensorDataset(torch.ones(4, 1), torch.ones(4, 1))
EVERY_STEP = {**QUIET, "epochs": 2, "log_every": 1, "eval_every": 1}


class Listed:
    """A logger of one's own that keeps all it is told."""

    def __init__(self):
        self.told = []

    def start(self, out, settings, step):
        self.told.append(("start", out, settings["epochs"], step))

    def log(self, values, step):
        self.told.append((step, sorted(values)))

    def close(self):
        self.told.append("close")


def test_a_logger_of_ones_own_gets_every_line(tmp_path):
    listed = Listed()
    posemill.fit(nn.Linear(1, 1), SAMPLES, SAMPLES, loss=nn.MSELoss(), loggers=[listed],
                 out=str(tmp_path / "run"), **EVERY_STEP)  # fmt: skip
    train = ["train/data_wait", "train/loss", "train/lr", "train/samples_per_second"]
    assert listed.told == [
        ("start", tmp_path / "run", 2, 0),
        (1, train), (1, ["eval/loss"]), (2, train), (2, ["eval/loss"]), "close",
    ]  # fmt: skip


def test_tensorboard_by_name_is_the_one_that_is_on_by_itself(tmp_path):
    for loggers, number in ((["tensorboard"], 1), ([], 1), (["tensorboard"], 0)):
        out = tmp_path / f"{len(loggers)}{number}"
        posemill.fit(nn.Linear(1, 1), SAMPLES, loss=nn.MSELoss(), loggers=loggers, out=str(out),
                     **{**EVERY_STEP, "tensorboard": bool(number)})  # fmt: skip
        assert len(list((out / "tensorboard").iterdir())) == 1


class Recorder(types.ModuleType):
    """A module that writes every call down: its name, and what it was given."""

    def __init__(self, name):
        super().__init__(name)
        self.calls = []

    def __getattr__(self, name):
        return lambda *given, **options: self.calls.append((name, *given, options)) or self


def test_wandb_and_mlflow_get_settings_and_numbers(monkeypatch, tmp_path):
    wandb, mlflow = Recorder("wandb"), Recorder("mlflow")
    for module in (wandb, mlflow):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    for logger in (WandbLogger(project="signs"), MlflowLogger("signs", run_name="first")):
        logger.close()  # never started: nothing to end
        logger.start(tmp_path, {"lr": 0.1}, 0)
        logger.log({"train/loss": 2.0}, 5)
        logger.close()
    assert wandb.calls == [
        ("init", {"dir": str(tmp_path), "config": {"lr": 0.1}, "project": "signs"}),
        ("log", {"train/loss": 2.0}, {"step": 5}), ("finish", {}),
    ]  # fmt: skip
    assert mlflow.calls == [
        ("set_experiment", "signs", {}), ("start_run", {"run_name": "first"}),
        ("log_params", {"lr": 0.1}, {}), ("log_metrics", {"train/loss": 2.0}, {"step": 5}),
        ("end_run", {}),
    ]  # fmt: skip
    mlflow.calls.clear()
    MlflowLogger(run_id="7").start(tmp_path, {"lr": 0.1}, 40)
    assert mlflow.calls == [("start_run", {"run_id": "7"})], "which has its parameters"


def test_loggers_are_known_by_name_and_wrong_ones_named(monkeypatch):
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
