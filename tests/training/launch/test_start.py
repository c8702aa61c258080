from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import posemill
from posemill.errors import ConfigError, RunError
from posemill.training.config.train_config import TrainConfig
from posemill.training.launch.start import load_model, train
from posemill.training.tasks.building import build_workload

Settings = Callable[..., dict[str, Any]]
QUIET: dict[str, Any] = {"precision": "fp32", "num_workers": 0, "progress": False, "log_every": 1,
                         "tensorboard": False, "figures": False, "eval_every": 1}  # fmt: skip


def test_a_training_needs_data_and_a_folder(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="out: expected the folder of the run"):
        train(settings(out=""))
    with pytest.raises(ConfigError, match="data: expected the folder `posemill prepare` or"):
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
