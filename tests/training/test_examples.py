from __future__ import annotations

from pathlib import Path

import pytest

from posemill.training.config.resolve import resolve_config
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.options import DataOptions
from posemill.training.launch.sweep import read_sweep
from posemill.training.models import build_model

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*.toml"))
SWEEPS = [path for path in FILES if "config =" in path.read_text()]


@pytest.mark.parametrize("path", [f for f in FILES if f not in SWEEPS], ids=lambda path: path.stem)
def test_an_example_config_is_valid_and_its_model_can_be_built(path: Path) -> None:
    config: TrainConfig = resolve_config(path).config
    DataOptions.of(config)
    build_model(
        config.model.name, num_points=21, num_dims=2, num_classes=3, task=config.task,
        **config.model.options,
    )  # fmt: skip
    assert config.data.path.startswith("data/")
    assert config.out == f"runs/{path.stem}"


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_an_example_sweep_is_valid(path: Path) -> None:
    sweep = read_sweep(path)
    assert len(sweep.jobs) >= 3
    assert str(sweep.out) == f"runs/{path.stem}"
