import json
from pathlib import Path

import numpy as np
import pytest
from cli_runner import call, said_by

from posemill.errors import ConfigError, RunError, TrainingError
from posemill.training.config.train_config import TrainConfig
from posemill.training.front import train
from posemill.training.launch.sweep import make_job
from posemill.training.runs.inference import evaluate
from posemill.training.runs.status import read_sweep_status

pytestmark = pytest.mark.usefixtures("warm_children")


@pytest.fixture
def people(tmp_path):
    """Clips of Ann, Bo and Cy: Cy alone says `odd`. The class is which of two points is higher."""
    rng = np.random.default_rng(0)
    lines = ["video_id,label,split,signer"]
    points = []
    ids = []
    for who, labels in (("ann", "ab" * 8), ("bo", "ab" * 8), ("cy", ["odd"] * 3)):
        for index, label in enumerate(labels):
            clip = rng.normal(size=(4, 2, 2)) * 0.05 + [[0, 0], [1, 1 if label == "a" else -1]]
            points.append(clip.astype(np.float32))
            ids += [f"{who}{index}"] * 4
            lines.append(f"{who}{index},{label},{'dev' if index == 0 else ''},{who}")
    np.savez(tmp_path / "all.npz", keypoints=np.concatenate(points), video_ids=ids)
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    return tmp_path


@pytest.fixture
def given(people, settings):
    return settings(data=str(people / "all.npz"), labels=str(people / "labels.csv"), model="mlp",
                    model_options={})  # fmt: skip


def test_each_person_is_scored_by_a_model_that_never_saw_them(people, tmp_path, monkeypatch):
    out = tmp_path / "left"
    flags = ["--data", people / "all.npz", "--labels", people / "labels.csv", "--model", "mlp",
             "--epochs", 12, "--lr", 0.02, "--no-figures", "--no-tensorboard", "--batch-size", 8,
             "--normalize", "none", "--workers", 0, "--leave-out", "signer",
             "--out", out]  # fmt: skip
    monkeypatch.setenv("COLUMNS", "200")
    result = call("train", *flags, catches=False)
    lines = [line.split() for line in result.stdout.splitlines() if line[0].isalpha()]
    assert [line[0] for line in lines] == ["without", "ann", "bo", "cy", "mean", "worst"]
    assert lines[1][1:5] == ["16", "of", "16", "1.0000"]
    assert lines[3][1:] == ["0", "of", "3"], "nobody else says odd: cy cannot be scored"
    assert lines[4][1] == "1.0000"
    assert "without signer ann: done" in result.stderr
    found = json.loads((out / "left_out.json").read_text())
    assert (found["score"], found["mean"], found["worst"]) == ("accuracy", 1.0, 1.0)
    run = Path(found["groups"][0]["run"])
    assert run.parent.name.startswith("signer=ann-"), "one finds it by who was left out"
    assert evaluate(run, split="test")["accuracy"] == 1.0, "the same clips again"
    ids = json.loads((run / "run.json").read_text())
    assert ids["identity"]["num_classes"] == 3, "the others' classes, odd among them"
    assert "2/2 trainings done" in said_by("status", out)
    for command in ("logs", "stop"):
        said_by(command, out)
    before = (run / "summary.json").stat().st_mtime_ns
    assert json.loads(said_by("train", *flags, "--json"))["mean"] == 1.0
    assert (run / "summary.json").stat().st_mtime_ns == before, "what is done is not run again"
    (run / "summary.json").unlink()
    again = read_sweep_status(out).next_command()
    assert again == f"posemill train {out}/leave_out.toml --out {out}"


def test_one_person_is_left_out_by_name(given):
    found = train(TrainConfig(**given | {"epochs": 1, "leave_out": "signer=bo"}))
    assert set(found.scores) == {"test"}, "no share of the same people is set aside"


def test_a_failed_training_names_the_person_and_its_log(given):
    wrong = given | {"leave_out": "signer", "model_options": {"hiden": [2]}}
    message = r"2 of 2 trainings failed, the first without signer (ann|bo): .*hiden.*log\.txt"
    with pytest.raises(TrainingError, match=message):
        train(TrainConfig(**wrong))


def test_a_file_of_the_user_where_the_sweep_would_be_written_is_left_alone(given, tmp_path):
    notes = tmp_path / "out" / "leave_out.toml"
    notes.parent.mkdir()
    notes.write_text("mine")
    with pytest.raises(RunError, match="is there and is no part of a sweep"):
        train(TrainConfig(**(given | {"out": str(notes.parent), "leave_out": "signer"})))
    assert notes.read_text() == "mine"


def test_processes_of_torchrun_do_not_start_a_sweep_each(given, monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "1")
    with pytest.raises(ConfigError, match="start it without torchrun"):
        train(TrainConfig(**given, leave_out="signer"))


def test_a_single_person_cannot_be_left_out(given):
    labels, given["leave_out"] = Path(given["labels"]), "signer"
    labels.write_text(labels.read_text().replace(",bo", ",ann").replace(",cy", ",ann"))
    with pytest.raises(TrainingError, match=r"all clips have the same 'signer' \(ann\): nobody"):
        train(TrainConfig(**given))
    with pytest.raises(ConfigError, match='folds=3 and leave_out="signer" both say'):
        TrainConfig(**(given | {"folds": 3}))


def test_a_folder_is_named_by_what_is_left_out_and_lies_in_its_sweep(tmp_path):
    names = [
        make_job(f"who={name}", {}, tmp_path, shared={}).folder
        for name in ("../../etc", "小 明", "x" * 90)
    ]
    assert all(folder.parent == tmp_path and len(folder.name) < 50 for folder in names)
    assert [folder.name.rpartition("-")[0] for folder in names[:2]] == [
        "who=.._.._etc",
        "who=小_明",
    ]
