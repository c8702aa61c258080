import csv
import json
import os
import re

import numpy as np
import pytest
from cli_runner import CliRunner, call, said_by
from cli_runner import said_by as run

from posemill.commands.line import main, run_line
from posemill.training.config.run_settings import preset_values
from posemill.training.config.train_config import FIELDS
from posemill.training.launch import sweep


def test_every_field_is_a_flag(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = run("train", "--help")
    for name in FIELDS:
        assert f"--{name.replace('_', '-')}" in text
    text = " ".join(text.split())
    assert "(default: 2, by the preset)" in text
    for name, value in preset_values("balanced", kind="video").items():
        if value != FIELDS[name].default and name != "model":
            assert re.search(rf"{FIELDS[name].default}[,;] {value} of video\)", text), name
    assert (
        "One of: mlp, tcn_bilstm, stgcn, transformer, tsn, tsm, slowfast, r2plus1d, two_streams."
        in text
    )


def test_show_config_says_where_each_value_came_from(tmp_path):
    config = tmp_path / "c.toml"
    config.write_text("epochs = 7\n")
    flags = "--batch_size 5 --no-figures --model-options width=8 --step-epochs 2,3".split()
    text = run("train", config, "--preset", "extreme", "--show-config", *flags)
    lines = {line.split(" = ")[0]: line for line in text.splitlines() if " = " in line}
    assert lines["epochs"].endswith("# file")
    assert lines["batch_size"].split() == ["batch_size", "=", "5", "#", "flag"]
    assert lines["figures"].split() == ["figures", "=", "false", "#", "flag"]
    assert lines["prefetch_factor"].split() == ["prefetch_factor", "=", "4", "#", "preset"]
    assert "# machine: " in lines["workers"]
    assert lines["seed"].endswith("# default")
    assert 'options = { "width" = 8 }' in lines["options"]
    assert "[2.0, 3.0]" in lines["step_epochs"]
    rows = json.loads(run("train", config, "--show-config", "--json"))
    assert {"group": "optimisation", "name": "epochs", "value": 7, "source": "file"} in rows


def test_the_flags_of_the_first_version_mean_what_they_meant():
    words = ("--mode", "multi_thread", "--num_workers", "2", "--decoder=beam", "--show-config")
    result = call("train", *words)
    assert result.exit_code == 0, result.output
    for line in ('parallel = "multi_thread"', "workers = 2 ", 'ctc_decoder = "beam"'):
        assert line in result.stdout
    assert not result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--parallel", "fast"], "parallel: expected auto"),
        (["--model-options", "width"], "expected name=value"),
        (["--step-epochs", "two"], "--step-epochs: expected a number, got 'two'"),
        (["absent.toml"], "no config file absent.toml"),
    ],
)
def test_wrong_settings_end_with_code_2_and_a_sentence(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["train", *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_a_taken_folder_and_missing_labels_are_said_before_torch_is_loaded(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("posemill.training.front.train", pytest.fail)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("mine")
    data = ["--data", str(tmp_path), "--data-kind", "keypoints"]
    for flags, message in (
        (["--out", str(tmp_path / "taken")], "not a training of posemill"),
        (["--out", str(tmp_path / "run"), "--labels", str(tmp_path / "no.csv")], "no labels at"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(["train", *data, *flags])
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err


def test_train_evaluate_and_predict_from_the_command_line(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    rows = [("video_id", "label")]
    for split in ("train", "dev", "test"):
        ids = [f"{split}{index}" for index in range(6)]
        points = [np.full((4, 5, 2), index % 2 + 1) + rng.normal(size=(4, 5, 2)) * 0.01
                  for index in range(6)]  # fmt: skip
        np.savez(tmp_path / f"{split}_keypoints.npz",
                 keypoints=np.concatenate(points).astype(np.float32),
                 video_ids=np.repeat(ids, 4))  # fmt: skip
        rows += [(name, "ab"[index % 2]) for index, name in enumerate(ids)]
    with (tmp_path / "labels.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows(rows)
    config = tmp_path / "config.toml"
    config.write_text(
        f'data = "{tmp_path}"\nlabels = "{tmp_path / "labels.csv"}"\nmodel = "mlp"\n'
        f'out = "{tmp_path / "run"}"\nnormalize = "none"\ntensorboard = false\n'
        'epochs = 20\n[speed]\nmode = "single"\nprecision = "fp32"\nnum_workers = 0\n'
    )
    train = ["train", str(config), "--no-figures", "--eval-every", "10"]
    watched = CliRunner().invoke(run_line, train, color=True)
    assert watched.stderr.startswith("loading torch and the data …\n")
    assert watched.stderr.endswith("scoring the best checkpoint …\n")
    text = watched.stdout
    assert "test" in text
    assert "samples/s" in text
    assert 97 <= sum(map(int, re.findall(r" (\d+)%", text))) <= 103, text  # where the time went
    for flag, begin in (("--json", ""), ("--split=test", "loading the model and the data …\n")):
        watched = CliRunner().invoke(
            run_line, ["evaluate", str(tmp_path / "run"), flag], color=True
        )
        assert watched.stderr == begin
    scores = json.loads(run("evaluate", tmp_path / "run", "--split", "test", "--json"))
    assert scores["accuracy"] == 1.0
    assert "accuracy" in run("evaluate", tmp_path / "run")
    found = json.loads(run("predict", tmp_path / "run", tmp_path / "test_keypoints.npz", "--json"))
    assert [entry["label"] for entry in found] == ["a", "b"] * 3
    words = ["predict", tmp_path / "run", tmp_path / "test_keypoints.npz"]
    assert "test5" in run(*words)
    picture = tmp_path / "seen" / "test5.png"
    picture.parent.mkdir()
    picture.write_bytes(b"mine")
    run(*words, "--pictures", tmp_path / "seen", "--overwrite")
    assert picture.read_bytes().startswith(b"\x89PNG")
    again = json.loads(run("train", config, "--no-figures", "--resume", "--json"))
    assert again["scores"]["test"]["accuracy"] == 1.0
    english = run("logs", tmp_path / "run")
    monkeypatch.setenv("POSEMILL_LANG", "zh")
    assert run("logs", tmp_path / "run") == english
    status = run("status", tmp_path / "run")
    assert f"{tmp_path / 'run'}：已完成\n轮次 20/20，步数 20/20 (100.0%)，" in status
    assert re.search(r"^  \S+T\S+ finished: 20 steps, best at \d+$", status, re.MULTILINE), status
    ended = run("train", config, "--no-figures", "--resume")
    assert re.search(r"^时间 +数据 \d+%，传输 \d+%，前向 ", ended, re.MULTILINE)


@pytest.mark.parametrize(
    ("wrote", "said"),
    [
        ({}, "had not begun: give the same command again"),
        ({"run.json"}, "has no checkpoint yet, it begins anew with: posemill train {}/config.toml"),
        (
            {"run.json", "checkpoints/last.json"},
            "the checkpoint of step 40 is safe, go on with: posemill train {}/config.toml --resume",
        ),
    ],
)
def test_an_interrupted_training_says_how_it_goes_on(tmp_path, monkeypatch, capsys, wrote, said):
    contents = {
        "run.json": '{"identity": {"model": "mlp"}}',
        "checkpoints/last.json": '{"step": 40}',
        "config.toml": f'out = "{tmp_path}/run"',
    }

    def interrupt(_):
        (tmp_path / "run" / "checkpoints").mkdir(parents=True)
        for name in {"config.toml", *wrote}:
            (tmp_path / "run" / name).write_text(contents[name])
        raise KeyboardInterrupt

    monkeypatch.setattr("posemill.training.front.train", interrupt)
    with pytest.raises(SystemExit) as ended:
        main(["train", "--data", str(tmp_path), "--out", str(tmp_path / "run")])
    assert ended.value.code == 130
    assert said.format(tmp_path / "run") in capsys.readouterr().err


def test_threads_that_wait_sleep_unless_the_user_chose(monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    run("train", "--show-config")
    assert os.environ["OMP_WAIT_POLICY"] == "active"
    monkeypatch.delenv("OMP_WAIT_POLICY")
    run("train", "--show-config")
    assert os.environ["OMP_WAIT_POLICY"] == "passive"


def test_a_dry_run_lists_the_trainings_as_json(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(f'out = "{tmp_path}/out"\n[grid]\nlr = [0.1, 0.2]\n')
    found = json.loads(said_by("sweep", path, "--dry-run", "--json"))
    assert [row["lr"] for row in found["trainings"]] == [0.1, 0.2]
    assert {row["state"] for row in found["trainings"]} == {"waiting"}
    assert not (tmp_path / "out").exists()
    assert "waiting" in said_by("sweep", path, "--dry-run")


def test_means_are_shown_where_several_trainings_share_one(tmp_path, monkeypatch):
    states = ("done", "done", "waiting")
    monkeypatch.setattr(sweep, "tabulate", lambda *_: [{"state": state} for state in states])
    (tmp_path / "sweep.toml").write_text(f'out = "{tmp_path}/out"\n[grid]\nlr = [0.1, 0.2]\n')
    for num_means in (1, 2):
        monkeypatch.setattr(sweep, "summarize", lambda _, n=num_means: [{"mean": 1}] * n)
        said = said_by("sweep", tmp_path / "sweep.toml", "--dry-run")
        assert ("mean" in said) == (num_means == 1)


def test_a_synthetic_corpus_is_written(tmp_path):
    said = said_by("synthetic-corpus", tmp_path / "c", "--glosses", 4, "--train", 3)
    assert "train  3 clips" in said
    assert len(list((tmp_path / "c" / "keypoints").iterdir())) == 3
