"""What the tests of `fit` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import posemill

QUIET: dict[str, Any] = {
    "parallel": "single", "precision": "fp32", "workers": 0, "progress": False, "log_every": 1,
    "tensorboard": False, "figures": False, "eval_every": 1, "save_every": 1, "epochs": 2,
}  # fmt: skip
Fit = Callable[..., Any]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs without `out` go below the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def line() -> TensorDataset:
    """Points of the line 3 x - 1."""
    x = torch.linspace(-1, 1, 20)[:, None]
    return TensorDataset(x, 3 * x - 1)


@pytest.fixture
def fit() -> Fit:
    """`posemill.fit`, quiet and quick, with the squared error."""

    def run(model: Any, train_set: Any, val_set: Any = None, **options: Any) -> Any:
        return posemill.fit(model, train_set, val_set, **{**QUIET, "loss": nn.MSELoss(), **options})

    return run
