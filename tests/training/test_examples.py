import re
import runpy
from pathlib import Path

import pytest

from posemill.training.config.resolve import resolve_config
from posemill.training.launch.sweep import read_sweep
from posemill.training.models import build_model, input_of

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*.toml"))
SWEEPS = [path for path in FILES if "config =" in path.read_text()]


@pytest.mark.parametrize("path", [f for f in FILES if f not in SWEEPS], ids=lambda path: path.stem)
def test_an_example_config_is_valid_and_its_model_can_be_built(path):
    config = resolve_config(path).config
    shape = {"num_classes": 3, "task": config.task, **config.model.options}
    if input_of(config.model.name) == "video":
        build_model(config.model.name, num_frames=8, **shape)
    else:
        build_model(config.model.name, num_points=21, num_dims=2, **shape)
    assert config.data.path.startswith("data/")
    assert config.out == f"runs/{path.stem}"


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_an_example_sweep_is_valid(path):
    sweep = read_sweep(path)
    assert len(sweep.jobs) >= 3
    assert str(sweep.out) == f"runs/{path.stem}"


def test_the_example_of_fit_learns_masks_and_its_cache_pays(tmp_path):
    main = runpy.run_path(str(EXAMPLES / "segmentation_fit.py"))["main"]
    flags = ["--samples", "48", "--cache", str(tmp_path / "cache"), "--out"]
    result = main([*flags, str(tmp_path / "one"), "--epochs", "4"])
    assert result.summary["chosen_by"] == "overlap"
    assert result.scores["dev"]["overlap"] > 0.3
    assert result.scores["dev"]["edge_error"] < 0.5
    figures = {path.name for path in (tmp_path / "one" / "figures").iterdir()}
    assert figures == {"curves.png", "confusion.png", "per_class.png", "samples.png"}
    assert len((tmp_path / "one" / "samples.csv").read_text().splitlines()) == 13
    again = main([*flags, str(tmp_path / "two"), "--epochs", "1"])
    said = [note for note in again.summary["notes"] if note.startswith("cache")]
    assert len(said) == 2
    assert all("0 of them new" in note for note in said), "the second training found them all"


def test_the_example_of_fit_in_the_docs_runs(tmp_path, monkeypatch, capsys):
    page = (EXAMPLES.parent / "docs" / "training.md").read_text()
    (code,) = re.findall(r"```python\n(import torch.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "example.py").write_text(code)
    found = runpy.run_path(str(tmp_path / "example.py"))
    assert found["result"].summary["chosen_by"] == "accuracy"
    assert "'accuracy': " in capsys.readouterr().out
    assert found["again"] is found["model"]
    assert {"curves.png", "confusion.png", "samples.png"} <= {
        path.name for path in (tmp_path / "runs" / "colours" / "figures").iterdir()
    }
