"""What a training wrote about its time, read back by `posemill advise`."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from cli_runner import CliRunner

import posemill
from posemill.commands.line import run_line
from posemill.errors import RunError
from posemill.training.loop import reporting
from posemill.training.loop.timing import PARTS, Evidence, Wait, read_evidence, write_evidence
from posemill.training.record.live import write_object
from posemill.training.record.run_folder import RunFolder

WELL = dict.fromkeys(PARTS, 0.0) | {"forward": 60.0, "backward": 60.0, "optimizer": 5.0}


@pytest.fixture
def run(settings):
    return RunFolder(posemill.train(settings(epochs=1)).out)


def advise(run: RunFolder, *more: str, **environment: str) -> str:
    result = CliRunner().invoke(run_line, ["advise", str(run.path), *more], env=environment)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_all_that_was_measured_comes_back(run):
    evidence = Evidence(
        WELL, cores=4, ranks=2, num_evals=3, busy_share=0.9, is_gpu=True, padding_share=0.1,
        bf16_gain=1.2, waits=(Wait("a.py", 3, ".item()", 0.25),), num_videos=3, decoded_bytes=4,
        frame_side=112, free_bytes=5,
    )  # fmt: skip
    write_evidence(run.path, evidence)
    assert read_evidence(run.path) == evidence


def test_a_training_leaves_what_it_measured(run):
    found = read_evidence(run.path)
    assert dict(found.timing_seconds) == run.read_summary()["timing_seconds"]
    assert (found.ranks, found.num_evals, found.is_gpu) == (1, 1, False)
    assert 0 < found.padding_share < 0.3  # clips of 5 to 12 frames, sorted


def test_a_fault_is_named_on_the_command_line_in_json_and_in_chinese(run):
    write_evidence(run.path, Evidence({**WELL, "checkpoint": 125.0}, cores=4))
    assert "50% goes into checkpoints: try --save-every 2 (up to 1.33x)" in advise(run)
    (only,) = json.loads(advise(run, "--json"))["advice"]
    assert (only["setting"], only["change"]) == ("save_every", "save_every=2")
    assert "50% 的时间" in advise(run, POSEMILL_LANG="zh_CN")


def test_a_training_that_was_killed_has_advice(settings, monkeypatch, tmp_path):
    written: list[bool] = []
    real = reporting.Reporter.report_loss

    def killed(self: Any, *args: Any, **more: Any) -> None:
        real(self, *args, **more)
        written.append((tmp_path / "run" / "timing.json").is_file())
        raise KeyboardInterrupt

    monkeypatch.setattr(reporting.Reporter, "report_loss", killed)
    with pytest.raises(KeyboardInterrupt):
        posemill.train(settings())
    assert written == [True]
    assert not (tmp_path / "run" / "summary.json").exists()
    assert read_evidence(tmp_path / "run").seconds > 0
    posemill.advise(tmp_path / "run")


def test_what_cannot_be_advised_on_is_said(run, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match=r"empty is not the folder of a training \(no run.json\)"):
        posemill.advise(tmp_path / "empty")
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "sweep.json").write_text('{"kind": "posemill-sweep"}')
    with pytest.raises(RunError, match="is a sweep: ask for advice on one of the trainings in it"):
        posemill.advise(tmp_path / "sweep")
    write_object(
        run.path / "timing.json",
        dataclasses.asdict(Evidence(WELL, cores=2)) | {"waits": [{"file": "a.py"}]},
    )
    with pytest.raises(RunError, match=r"timing.json is not what posemill wrote: KeyError\('line"):
        posemill.advise(run.path)
    write_object(run.path / "timing.json", {})
    with pytest.raises(RunError, match="has measured nothing yet: wait until it has taken some"):
        posemill.advise(run.path)
