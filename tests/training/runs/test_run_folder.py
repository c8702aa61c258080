from __future__ import annotations

import json
from pathlib import Path

import pytest

from posemill.errors import RunError
from posemill.training.config.train_config import TrainConfig
from posemill.training.runs.logs import TrainingLog
from posemill.training.runs.run_folder import RunFolder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "run")
    made.make()
    return made


def test_the_log_has_a_line_for_each_event(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    log = TrainingLog(TrainConfig(tensorboard=False), folder, is_first=True)
    log.start(total_steps=4)
    values = {"loss": 1.0, "lr": 0.1, "samples_per_second": 5.0, "data_wait": 0.5}
    log.record("train", 1, 0, values)
    log.record("eval", 2, 0, {"loss": 0.5, "accuracy": 0.25})
    log.close()
    rows = folder.read_metrics()
    assert rows[0] == {"event": "train", "step": 1, "epoch": 0, **values}
    assert "epoch 1: loss 0.5000  accuracy 0.2500" in capsys.readouterr().err


def test_other_processes_and_quiet_trainings_say_nothing(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    config = TrainConfig(tensorboard=False)
    for log in (
        TrainingLog(config, folder, is_first=False),
        TrainingLog(config.replace(progress=False), folder, is_first=True),
    ):
        log.start(1)
        log.say("hello")
        log.advance(0)
        log.close()
    assert capsys.readouterr() == ("", "")
    assert folder.read_metrics() == []


def test_a_line_cut_by_a_kill_is_left_out_and_later_ones_are_dropped(folder: RunFolder) -> None:
    lines = [json.dumps({"step": step, "loss": 1.0}) for step in (1, 2, 3)]
    folder.metrics_path.write_text("\n".join(lines) + '\n{"step": 4, "lo')
    assert [row["step"] for row in folder.read_metrics()] == [1, 2, 3]
    folder.cut_metrics(2)
    assert [row["step"] for row in folder.read_metrics()] == [1, 2]


def test_files_that_are_missing_or_broken_are_named(folder: RunFolder) -> None:
    with pytest.raises(RunError, match=r"is not the folder of a training \(no run.json\)"):
        folder.read_facts()
    with pytest.raises(RunError, match=r"has no summary.json: the training has not finished"):
        folder.read_summary()
    (folder.path / "run.json").write_text("{")
    with pytest.raises(RunError, match=r"run\.json is not JSON"):
        folder.read_facts()
    (folder.path / "run.json").write_text("[]")
    with pytest.raises(RunError, match=r"run\.json: expected an object"):
        folder.read_facts()


def test_the_lock_is_free_again_after_the_block(folder: RunFolder) -> None:
    with folder.locked():
        pass
    with folder.locked():
        assert (folder.path / ".lock").exists()
