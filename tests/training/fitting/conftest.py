import pytest
import torch
from small_sets import QUIET
from torch import nn
from torch.utils.data import TensorDataset

import posemill

OFTEN = {**QUIET, "log_every": 1, "eval_every": 1, "save_every": 1, "epochs": 2}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Runs without `out` go below the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def line():
    """Points of the line 3 x - 1."""
    x = torch.linspace(-1, 1, 20)[:, None]
    return TensorDataset(x, 3 * x - 1)


@pytest.fixture
def fit():
    """`posemill.fit`, quiet and quick, with the squared error."""

    return lambda *given, **options: posemill.fit(
        *given, **{**OFTEN, "loss": nn.MSELoss(), **options}
    )
