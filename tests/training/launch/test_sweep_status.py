"""How a sweep stands, from outside."""

from __future__ import annotations

import json
import sys

import pytest
from cli_runner import CliRunner

import posemill
from posemill.commands.line import run_line
from posemill.commands.printing import without_constants
from posemill.commands.runs import read_log
from posemill.errors import RunError
from posemill.machine.live_files import write_live
from posemill.training.launch.sweep import read_sweep
from posemill.training.launch.sweep_runner import run_sweep, write_record
from posemill.training.record.live import hold
from posemill.training.runs.status import read_sweep_status

# Stands in for a training: writes the files of one, or fails, by its learning rate.
TRAINING = """
import json, sys
from pathlib import Path
from posemill.training.config.resolve import read_config
config = read_config(Path(sys.argv[1]))
if config["lr"] > 0.15:
    print("posemill: no such data"); sys.exit(2)
run = Path(config["out"]); run.mkdir(parents=True, exist_ok=True)
(run / "run.json").write_text('{"kind": "posemill-training"}')
(run / "live.json").write_text(json.dumps({"step": 8, "total_steps": 8, "epoch": 2, "epochs": 2,
    "best": 0.75, "best_step": 4, "chosen_by": "accuracy"}))
(run / "summary.json").write_text(json.dumps({"steps": 8, "scores": {"dev": {"accuracy": 0.75}}}))
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(f'out = "{tmp_path}/out"\n[grid]\nlr = [0.1, 0.2]\n')
    return path


def test_a_sweep_shows_its_trainings_and_why_one_failed(file, tmp_path):
    found = read_sweep(file)
    run_sweep(found, command=(sys.executable, "-c", TRAINING))
    status = posemill.status(tmp_path / "out")
    assert status.state == "stopped"
    first, second = status.trainings
    assert first == {
        "job": found.jobs[0].name, "lr": 0.1, "state": "done", "epoch": "2/2", "step": "8/8",
        "best_accuracy": 0.75, "dev_accuracy": 0.75,
    }  # fmt: skip
    assert second == {
        "job": found.jobs[1].name, "lr": 0.2, "state": "failed",
        "reason": "exit code 2: posemill: no such data",
    }  # fmt: skip
    result = CliRunner().invoke(run_line, ["status", str(tmp_path / "out")])
    assert "has ended\n1/2 trainings done, 1 failed\n" in result.stdout
    assert "exit code 2: posemill: no such data" in result.stdout
    assert f"next: posemill sweep {file} --out {tmp_path}/out" in result.stdout
    result = CliRunner().invoke(run_line, ["status", str(tmp_path / "out"), "--json"])
    assert json.loads(result.stdout)["trainings"][1]["state"] == "failed"
    lines = read_log(tmp_path / "out")
    assert f"{first['job']} done" in lines[2]
    assert "failed: exit code 2: posemill: no such data" in lines[-1]
    # The folder of one of its trainings stands for the training.
    assert posemill.status(tmp_path / "out" / first["job"]).state == "finished"


def test_a_sweep_at_work_is_seen_and_a_second_one_kept_out(file, tmp_path):
    found = read_sweep(file)
    found.out.mkdir()
    with hold(found.out, what="sweep"):
        write_record(found, 2)
        status = read_sweep_status(found.out)
        assert (status.state, status.describe()) == ("running", "0/2 trainings done, 2 waiting")
        assert status.next_command() == f"posemill status {found.out} --watch"
        with pytest.raises(RunError, match=r"is being trained by another process"):
            run_sweep(found)
    assert read_sweep_status(found.out).next_command().endswith("--workers 2")


@pytest.mark.parametrize(
    "trainings",
    ["null", "[3]", '[{"name": "../../secret", "changes": {}}]', '[{"name": "0-00000000"}]',
     '[{"name": "0-00000000", "changes": {"model_options": [1]}}]'],
)  # fmt: skip
def test_a_strangers_record_is_refused(tmp_path, trainings):
    (tmp_path / "sweep.json").write_text(f'{{"kind": "posemill-sweep", "trainings": {trainings}}}')
    with pytest.raises(RunError, match=r"sweep.json is not what posemill wrote"):
        posemill.status(tmp_path)


def test_the_folder_of_a_training_that_is_a_link_is_refused(file, tmp_path):
    found = read_sweep(file)
    found.out.mkdir()
    write_record(found, 1)
    write_live(found.out, {"pid": "x"})
    (tmp_path / "elsewhere" / "run").mkdir(parents=True)
    found.jobs[0].folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match=r"is a link, expected a folder"):
        read_sweep_status(found.out)


def test_what_all_trainings_have_alike_is_said_once(tmp_path):
    file = tmp_path / "sweep.toml"
    file.write_text(f'out = "{tmp_path}/out"\n[grid]\nlr = [0.1, 0.2]\nepochs = [2]\n')
    found = read_sweep(file)
    found.out.mkdir()
    write_record(found, 1)
    said = CliRunner().invoke(run_line, ["status", str(tmp_path / "out")]).stdout
    assert "the same in all: epochs 2\n" in said
    heading = next(line for line in said.splitlines() if line.startswith("job"))
    assert heading.split() == ["job", "lr", "state"]
    only = {"job": "a", "lr": 1.0}
    assert without_constants([only], keep=("job",)) == ({}, [only])
