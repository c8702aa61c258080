from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from posemill.machine.live_files import read_live
from posemill.messages import Message
from posemill.training.config.train_config import TrainConfig
from posemill.training.loggers import say
from posemill.training.record.logs import TrainingLog
from posemill.training.record.run_folder import RunFolder

VALUES = {"loss": 0.5, "lr": 0.1, "samples_per_second": 20.0, "data_wait": 0.25}


def write_log(path: Path, *, is_first: bool, progress: bool) -> RunFolder:
    folder = RunFolder(path)
    folder.path.mkdir(exist_ok=True)
    config = TrainConfig(progress=progress, tensorboard=False)
    log = TrainingLog(config, folder, is_first=is_first)
    log.start(4, done=1)
    log.advance(0)
    log.record("train", 2, 0, VALUES)
    log.record("eval", 2, 0, {"loss": 0.25, "accuracy": 1.0})
    log.say("[note] as it is")
    log.close()
    return folder


def test_lines_go_to_the_file_and_evaluations_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_log(tmp_path, is_first=True, progress=True)
    assert folder.read_metrics() == [
        {"event": "train", "step": 2, "epoch": 0, **VALUES},
        {"event": "eval", "step": 2, "epoch": 0, "loss": 0.25, "accuracy": 1.0},
    ]
    said = capsys.readouterr()
    assert said.err.splitlines() == ["epoch 1: loss 0.2500  accuracy 1.0000", "[note] as it is"]
    assert said.out == ""
    write_log(tmp_path, is_first=True, progress=False)
    assert len(folder.read_metrics()) == 4, "a training that continues appends"
    assert capsys.readouterr().err == said.err, "without the bar, that is all it leaves out"


def test_other_processes_are_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_log(tmp_path, is_first=False, progress=True)
    assert not folder.metrics_path.exists()
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_loss_speed_and_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "150")
    write_log(tmp_path, is_first=True, progress=True)
    said = capsys.readouterr().err
    assert "epoch 1" in said
    assert "2/4" in said
    assert "loss 0.5000  20 samples/s  data wait 25%" in said


def test_a_line_is_said_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    say("[bold]x[/bold] 1")
    assert capsys.readouterr().err == "[bold]x[/bold] 1\n"


def test_the_log_has_the_loss_every_ten_seconds_and_the_note_the_step_every_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr("posemill.training.record.logs.time", clock)
    folder = RunFolder(tmp_path)
    log = TrainingLog(TrainConfig(progress=False, tensorboard=False), folder, is_first=True)
    log.start(9)
    steps, lines = [], []
    for seconds in (100.0, 101.0, 101.25, 110.0, 110.25, 111.25, 120.25, 120.5):
        now = seconds
        log.advance(0)
        log.record("train", 1, 0, VALUES)
        steps.append(read_live(tmp_path)["step"])
        lines.append(len((tmp_path / "log.txt").read_text().splitlines()))
    log.close()
    assert steps == [1, 1, 3, 4, 4, 6, 7, 7]
    assert lines == [1, 1, 1, 1, 2, 2, 2, 3]


def test_a_chinese_reader_is_told_in_chinese_and_the_log_stays_english(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POSEMILL_LANG", "zh")
    monkeypatch.setenv("COLUMNS", "150")
    write_log(tmp_path, is_first=True, progress=True)
    asked = Message("asked for")
    say(Message("precision {name}: {reason}", name="fp32", reason=asked))
    assert capsys.readouterr().err.splitlines() == [
        "第 1 轮：loss 0.2500  accuracy 1.0000", "[note] as it is", "精度 fp32：由用户指定",
    ]  # fmt: skip
    assert "epoch 1: loss 0.2500" in (tmp_path / "log.txt").read_text(encoding="utf-8")
    monkeypatch.setenv("FORCE_COLOR", "1")
    write_log(tmp_path, is_first=True, progress=True)
    said = capsys.readouterr().err
    assert "第 1 轮" in said
    assert "loss 0.5000  20 样本/秒  等待数据 25%" in said
