import os
import time
from types import SimpleNamespace

import pytest
import torch
from small_sets import BareClips

from posemill.errors import TrainingError
from posemill.machine.live_files import read_live
from posemill.messages import Message
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.keypoint_clips import KeypointClips
from posemill.training.front import train
from posemill.training.loggers import say
from posemill.training.loop.reporting import Reporter, readable_errors, score_that_chooses
from posemill.training.loop.timing import Clock
from posemill.training.loop.trainer import TrainState
from posemill.training.record.run_folder import RunFolder
from posemill.training.runtime import Runtime
from posemill.training.tasks.task import Classify
from posemill.training.tasks.workload import Workload


def test_a_loss_that_is_not_a_number_stops_the_training(settings):
    with pytest.raises(TrainingError, match=r"the loss became .*lower lr \(now 1e\+18\)"):
        train(settings(lr=1e18, clip_grad_norm=0, optimizer="sgd", warmup_epochs=0.0))


NO_COMPILER = type("InductorError", (RuntimeError,), {"__module__": "torch._inductor.exc"})
NO_MEMORY = r"out of memory with micro_batch=8: try micro_batch=4"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), NO_MEMORY),
        (torch.OutOfMemoryError("CUDA out of memory"), NO_MEMORY),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), NO_MEMORY),
        (NO_COMPILER("InvalidCxxCompiler: no working C++ compiler found"),
         r"torch.compile failed \(InvalidCxx.*compile=.off"),
    ],
)  # fmt: skip
def test_memory_and_compilers_that_fail_name_the_setting(error, message):
    with pytest.raises(TrainingError, match=message), readable_errors(TrainConfig(micro_batch=8)):
        raise error


def test_a_loader_process_that_dies_is_named(settings):
    fields = settings(workers=1, epochs=50)
    plain = KeypointClips.__getitems__

    def die(self, draws):
        if draws[0].epoch == 1:
            os._exit(1)
        return plain(self, draws)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeypointClips, "__getitems__", die)
        with pytest.raises(TrainingError, match=r"a loader process died .*lower workers"):
            train(fields)


def test_without_a_dev_split_the_lowest_loss_chooses_and_other_processes_are_silent(
    tmp_path, capsys
):
    workload = SimpleNamespace(val=None, task=Classify())
    assert score_that_chooses(workload) == ("loss", False)
    workload.val = object()
    assert score_that_chooses(workload) == ("accuracy", True)
    folder = write_log(tmp_path, rank=1, progress=True)
    assert (folder.metrics_path.exists(), capsys.readouterr().err) == (False, "")


VALUES = {"loss": 0.5, "lr": 0.1, "samples_per_second": 20.0, "data_wait": 0.25}


class SteadyClock(Clock):
    """Of 0.1 s between two looks, a quarter waited for data."""

    def read(self):
        self._seconds["data"] += 0.025
        self._seconds["forward"] += 0.075
        return dict(self._seconds)


def make_reporter(folder, *, rank=0, progress=False):
    clips = BareClips(1)
    model = None
    return Reporter(
        Workload(model, clips, clips, Classify(), {}),
        TrainConfig(progress=progress, tensorboard=False),
        runtime=Runtime(rank, 1 + rank),
        folder=folder,
        clock=SteadyClock(torch.device("cpu")),
    )


def write_log(path, *, rank=0, progress):
    folder = RunFolder(path)
    reporter = make_reporter(folder, rank=rank, progress=progress)
    reporter.start(TrainState(step=1), 4)
    reporter.advance(0)
    reporter.report_loss(TrainState(step=2), 0.5, 2, lr=0.1)
    reporter.report_scores(TrainState(step=2, epoch=1), {"loss": 0.25, "accuracy": 1.0})
    reporter.say("[note] as it is")
    reporter.stop()
    return folder


def test_lines_go_to_the_file_and_evaluations_are_said(tmp_path, capsys):
    folder = write_log(tmp_path, progress=True)
    line, scores = folder.read_metrics()
    where = {"event": line.pop("event"), "step": line.pop("step"), "epoch": line.pop("epoch")}
    assert where == {"event": "train", "step": 2, "epoch": 0}
    assert line == pytest.approx(VALUES)
    assert scores == {**where, "event": "eval", "loss": 0.25, "accuracy": 1.0}
    said = capsys.readouterr()
    assert said.err.splitlines() == ["epoch 1: loss 0.2500  accuracy 1.0000", "[note] as it is"]
    assert said.out == ""
    write_log(tmp_path, progress=False)
    assert len(folder.read_metrics()) == 4, "a training that continues appends"
    assert capsys.readouterr().err == said.err, "without the bar, that is all it leaves out"


def test_the_log_has_the_loss_every_ten_seconds_and_the_note_the_step_every_second(
    tmp_path, monkeypatch
):
    now = 100.0
    clock = SimpleNamespace(monotonic=lambda: now, perf_counter=time.perf_counter)
    monkeypatch.setattr("posemill.training.loop.reporting.time", clock)
    reporter = make_reporter(RunFolder(tmp_path))
    reporter.start(TrainState(), 9)
    steps, lines = [], []
    for seconds in (100.0, 101.0, 101.25, 110.0, 110.25, 111.25, 120.25, 120.5):
        now = seconds
        reporter.advance(0)
        reporter.report_loss(TrainState(step=1), 0.5, 2, lr=0.1)
        steps.append(read_live(tmp_path)["step"])
        lines.append(len((tmp_path / "log.txt").read_text().splitlines()))
    reporter.stop()
    assert steps == [0, 0, 3, 4, 4, 6, 7, 7]
    assert lines == [1, 1, 1, 1, 2, 2, 2, 3]


def test_a_chinese_reader_is_told_in_chinese_and_the_log_stays_english(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("POSEMILL_LANG", "zh")
    monkeypatch.setenv("COLUMNS", "150")
    write_log(tmp_path, progress=True)
    say(Message("precision {name}: {reason}", name="fp32", reason=Message("asked for")))
    assert capsys.readouterr().err.splitlines() == [
        "第 1 轮：损失 0.2500  准确率 1.0000", "[note] as it is", "精度 fp32：由用户指定",
    ]  # fmt: skip
    assert "epoch 1: loss 0.2500" in (tmp_path / "log.txt").read_text(encoding="utf-8")
    monkeypatch.setenv("FORCE_COLOR", "1")
    write_log(tmp_path, progress=True)
    said = capsys.readouterr().err
    assert "第 1 轮" in said
    assert "损失 0.5000  20 样本/秒  等待数据 25%" in said
