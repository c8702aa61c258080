import json
import shutil

import pytest
from made_up_trainings import write_sweep, write_training
from starlette.testclient import TestClient

from posemill.errors import RunError
from posemill.web import actions
from posemill.web.actions import act
from posemill.web.app import make_app
from posemill.web.describing import read_curves
from posemill.web.library import Library

pytest.importorskip("torch", reason="the extra 'train' is not installed")


@pytest.fixture
def trained(tmp_path, runs):
    """Two trainings and a sweep of two, of which one waits."""
    write_training(tmp_path / "one", data=str(runs / "prepared"))
    write_training(tmp_path / "two", steps=80)
    changes = [{"lr": 0.001, "batch_size": 8}, {"lr": 0.01, "batch_size": 8}]
    first, _ = write_sweep(tmp_path / "sweep", changes)
    write_training(first)
    for name in ("config.toml", "log.txt"):  # as a sweep leaves them beside the training
        (first.parent / name).write_text("")
    return tmp_path


def test_a_training_shows_curves_time_advice_and_what_was_confused(trained, runs):
    with TestClient(make_app([trained, runs])) as client:
        rows = {row["name"]: row for row in client.get("/api/runs").json()["runs"]}
        assert rows["one"]["state"] == "finished"
        run = client.get(f"/api/runs/{rows['one']['key']}").json()
        assert run["curves"]["loss"][0] == [10, 0.5]
        assert run["curves"]["scores"] == {"accuracy": [[50, 0.75]]}
        assert run["timing_seconds"]["data"] == 80
        assert any("waits for data" in each["evidence"] for each in run["advice"])
        chinese = {"accept-language": "zh"}
        said = client.get(f"/api/runs/{rows['one']['key']}", headers=chinese).json()["advice"]
        assert any("的时间在等待数据" in each["evidence"] for each in said)
        assert run["classes"] == ["no", "yes"]
        assert sorted(run["confusions"]["dev"]) == [[0, 0, 2], [1, 0, 1], [1, 1, 1]]
        assert run["data_key"] == rows["prepared"]["key"]
        question = {"split": "dev", "label": "yes", "predicted": "no"}
        cell = client.get(f"/api/runs/{rows['one']['key']}/predictions", params=question).json()
        assert [row["clip_id"] for row in cell] == ["b"]


def test_a_relative_path_means_the_data_beside_the_training_and_not_of_another_project(
    tmp_path, runs
):
    for name in ("a_other", "mine"):
        shutil.copytree(runs / "prepared", tmp_path / name / "data")
        write_training(tmp_path / name / "runs" / "first", data="data")
    write_training(tmp_path / "lost" / "first", data="data")
    with TestClient(make_app([tmp_path])) as client:
        rows = {row["name"]: row["key"] for row in client.get("/api/runs").json()["runs"]}

        def data_of(name):
            return str(client.get(f"/api/runs/{rows[name]}").json()["data_key"])

        assert data_of("mine/runs/first") == rows["mine/data"]
        assert data_of("a_other/runs/first") == rows["a_other/data"]
        assert data_of("lost/first") == ""


def test_a_sweep_is_a_row_for_each_training_with_the_key_of_its_page(trained):
    with TestClient(make_app([trained])) as client:
        rows = {row["name"]: row for row in client.get("/api/runs").json()["runs"]}
        first, second = client.get(f"/api/runs/{rows['sweep']['key']}").json()["trainings"]
        assert (first["state"], first["lr"], first["best_accuracy"]) == ("done", 0.001, 0.75)
        assert first["key"] == rows["sweep/000-0123abcd/run"]["key"]
        assert (second["state"], second["key"]) == ("waiting", "")


def test_curves_of_a_long_training_are_thinned_and_numbers_that_are_none_are_left_out(tmp_path):
    lines = [
        {"event": "train", "step": step, "loss": float("nan"), "lr": 1} for step in range(5000)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    loss = read_curves(tmp_path)["loss"]
    assert len(loss) <= 801
    assert loss[-1] == (4999, None)


def test_hostile_files_of_a_training_are_its_reason(trained):
    (trained / "one" / "metrics.jsonl").write_text('{"step": "x"}\n')
    (trained / "two" / "summary.json").unlink()
    (trained / "two" / "summary.json").symlink_to("/etc/passwd")
    (trained / "sweep" / "sweep.json").write_text(
        '{"kind": "posemill-sweep", "trainings": [{"name": "../x"}]}'
    )
    with TestClient(make_app([trained])) as client:
        rows = {row["name"]: row for row in client.get("/api/runs").json()["runs"]}
        assert "is a link" in rows["two"]["reason"]
        assert "is not what posemill wrote" in rows["sweep"]["reason"]
        answer = client.get(f"/api/runs/{rows['one']['key']}")
        assert answer.status_code == 404
        assert "lines that are not of a training" in answer.json()["reason"]


def test_a_training_is_continued_from_the_page_or_says_why_not(trained, monkeypatch):
    monkeypatch.setattr(actions, "_START_SECONDS", 60.0)  # a busy machine takes its time
    library = Library([trained])
    library.look()
    entries = {entry.name: entry for entry in library.entries()}
    assert act(entries["one"], "stop") == "nobody works on it"
    with pytest.raises(RunError, match=r"it did not start: posemill: .*label"):
        act(entries["one"], "resume")
    own = json.dumps({"kind": "posemill-training", "identity": {"kind": "own"}})
    (trained / "two" / "run.json").write_text(own)
    with pytest.raises(RunError, match="by a script of your own"):
        act(entries["two"], "resume")
