"""Trainings of strangers and disks that fail: one sentence, and nothing outside is touched."""

import errno
import json
import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from posemill.commands.line import main
from posemill.errors import RunError, TrainingError
from posemill.training.front import train
from posemill.training.launch.sweep import read_sweep, tabulate
from posemill.training.record.checkpoints import CheckpointFolder
from posemill.training.runs.inference import config_of, evaluate, load_model

DEEP = "[" * 100_000


@pytest.fixture
def outside(run):
    """A folder beside the training that is not its own."""
    best = CheckpointFolder(run / "checkpoints").find("best")
    return Path(shutil.copytree(best, run.parent / "outside"))


@pytest.mark.parametrize(
    "content",
    [
        {"folder": "{outside}"},
        {"folder": "../../outside"},
        {"folder": "step-1/../../../outside"},
        {"folder": 5},
        {},
    ],
    ids=["absolute", "above", "through", "number", "none"],
)
def test_a_checkpoint_outside_of_the_run_is_not_read(run, outside, content):
    pointer = run / "checkpoints" / "best.json"
    pointer.write_text(json.dumps(content).replace("{outside}", str(outside)))
    with pytest.raises(TrainingError, match=r"best\.json names .*, which is not a checkpoint of"):
        load_model(run)


def test_a_checkpoint_that_is_a_link_is_neither_read_nor_written(run, outside, settings):
    folder = CheckpointFolder(run / "checkpoints").find("best")
    shutil.rmtree(folder)
    folder.symlink_to(outside)
    before = {path: path.read_bytes() for path in outside.iterdir()}
    with pytest.raises(TrainingError, match="nothing outside of a training is read or changed"):
        train(settings(epochs=2, resume=True))
    assert before == {path: path.read_bytes() for path in outside.iterdir()}


@pytest.mark.parametrize("name", ["checkpoints", "figures", "metrics.jsonl", "config.toml"])
def test_a_part_that_is_a_link_is_refused_before_anything_is_written(name, run, outside, settings):
    target = outside if "." not in name else run.parent / "precious.txt"
    if "." in name:
        target.write_text("precious")
    part = run / name
    if part.is_dir():
        shutil.rmtree(part)
    part.unlink(missing_ok=True)
    part.symlink_to(target)
    with pytest.raises(RunError, match=f"{name} is a link, expected a f"):
        train(settings(epochs=2, resume=True))
    with pytest.raises(RunError, match=f"{name} is a link, expected a f"):
        evaluate(run)
    assert target.is_dir() or target.read_text() == "precious"


def test_the_cache_folder_that_a_run_names_is_not_written_to(run):
    elsewhere = run.parent / "elsewhere"
    config = run / "config.toml"
    text = config.read_text().replace('cache_folder = ""', f'cache_folder = "{elsewhere}"')
    assert str(elsewhere) in text
    config.write_text(text)
    assert config_of(run).cache_folder == ""
    assert evaluate(run)["num_clips"] == 8
    assert not elsewhere.exists()


@pytest.mark.parametrize("content", ["{}", '{"identity": 5}', DEEP, '{"kind": "x"'])
def test_an_odd_file_of_a_run_is_one_sentence_and_code_2(content, run, capsys):
    (run / "run.json").write_text(content)
    with pytest.raises(SystemExit) as info:
        main(["evaluate", str(run)])
    assert info.value.code == 2
    said = capsys.readouterr().err.strip()
    assert "run.json" in said
    assert "\n" not in said


def test_a_model_that_cannot_be_built_is_said(run):
    facts = json.loads((run / "run.json").read_text())
    facts["identity"] = {"kind": "keypoints", "model": "transformer", "width": "wide"}
    (run / "run.json").write_text(json.dumps(facts))
    with pytest.raises(RunError, match=r"run\.json describes a model that cannot be built"):
        load_model(run)


def test_an_odd_checkpoint_is_said_when_it_is_continued(run, settings):
    path = CheckpointFolder(run / "checkpoints").find("last") / "state.pt"
    state = torch.load(path, weights_only=True)
    random_states = state.pop("random")
    torch.save(state, path)
    with pytest.raises(TrainingError, match=r"is not what posemill wrote .KeyError.'random'"):
        train(settings(epochs=2, resume=True))
    remembered = state["optimizer"]["state"][0]
    torch.save({**state, "random": random_states}, path)
    remembered["exp_avg"] = remembered["exp_avg"].flatten()[:1].clone()
    torch.save({**state, "random": random_states}, path)
    with pytest.raises(TrainingError, match=r"is not what posemill wrote .*exp_avg of AdamW has"):
        train(settings(epochs=2, resume=True))
    path.write_text(DEEP)
    with pytest.raises(TrainingError, match=r"state\.pt: it is not a file of torch\.save"):
        train(settings(epochs=2, resume=True))


def test_a_pipe_in_a_run_is_not_waited_on(run):
    if not hasattr(os, "mkfifo"):
        pytest.skip("pipes with names are of Unix")
    pointer = run / "checkpoints" / "best.json"
    pointer.unlink()
    os.mkfifo(pointer)
    with pytest.raises(TrainingError, match="no best checkpoint"):
        load_model(run)
    (run / "run.json").unlink()
    os.mkfifo(run / "run.json")
    with pytest.raises(RunError, match=r"run\.json is something else, expected a file"):
        load_model(run)


def test_deep_toml_is_said(tmp_path, capsys):
    path = tmp_path / "deep.toml"
    path.write_text("x = " + DEEP)
    with pytest.raises(SystemExit) as info:
        main(["train", str(path)])
    assert info.value.code == 2
    assert f"{path} is nested too deep to be read" in capsys.readouterr().err


def test_an_odd_summary_in_a_sweep_is_named(tmp_path):
    file = tmp_path / "sweep.toml"
    file.write_text(f'out = "{tmp_path}/out"\n[grid]\nlr = [0.1]\n')
    sweep = read_sweep(file)
    for content, said in ((DEEP, "nested too deep"), ("[]", "expected an object")):
        sweep.jobs[0].run_folder.mkdir(parents=True, exist_ok=True)
        (sweep.jobs[0].run_folder / "summary.json").write_text(content)
        with pytest.raises(RunError, match=said):
            tabulate(sweep, {})


@contextmanager
def files_of_at_most(num_bytes):
    """No file may be larger, as on a disk without room."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of processes are of Unix")
def test_a_training_without_room_says_what_is_left_of_it(settings, tmp_path):
    quick = settings(epochs=1, cache="none")
    with files_of_at_most(8000), pytest.raises(TrainingError) as info:
        train(quick)
    assert f"no room left to write to {tmp_path / 'run'}" in str(info.value)
    again = "make room and run the same command with resume=True"
    assert f"no checkpoint was written yet: {again}" in str(info.value)
    other = quick | {"out": str(tmp_path / "other"), "resume": True}
    for num_bytes in (0, 100, 2000, 5000):
        with files_of_at_most(num_bytes), pytest.raises(TrainingError, match="no room left"):
            train(other)
    train(other)
    step = train(quick | {"resume": True}).summary["steps"]
    with files_of_at_most(8000), pytest.raises(TrainingError) as info:
        train(quick | {"epochs": 2, "resume": True})
    assert f"the checkpoint of step {step} is safe: {again}" in str(info.value)
    assert train(quick | {"epochs": 2, "resume": True}).summary["steps"] == 2 * step


def test_a_file_system_without_locks_is_said(settings, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("posemill.training.record.live.try_lock", refuse)
    said = "its file system cannot lock files .*; put the training on another disk"
    with pytest.raises(RunError, match=said):
        train(settings(epochs=1))
