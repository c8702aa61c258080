import json
import re
import shutil
from pathlib import Path

import pytest
from small_sets import held_by_another

import posemill
from posemill.errors import ConfigError, RunError
from posemill.training.config.resolve import Resolved
from posemill.training.config.train_config import TrainConfig
from posemill.training.front import train
from posemill.training.launch import rank, start
from posemill.training.launch.start import run_training
from posemill.training.loop.passes import Evaluation
from posemill.training.record.run_folder import RunFolder
from posemill.training.runtime import Runtime
from posemill.training.tasks.workload import build_workload


def test_a_training_needs_data(settings):
    with pytest.raises(ConfigError, match="data: expected the folder `posemill prepare` or"):
        train(settings(data=""))


def test_who_continues_takes_the_lock_before_it_reads_anything(settings, run, tmp_path):
    fields = settings(epochs=1)
    # The moment in which the other process has removed the checkpoint that `last` named.
    for checkpoint in (run / "checkpoints").glob("step-*"):
        shutil.rmtree(checkpoint)
    (run / "run.json").write_text("{")
    with held_by_another(run):
        for changes in ({}, {"data": str(tmp_path / "nowhere")}, {"tune": "speed"}):
            with pytest.raises(RunError, match="is being trained by another process"):
                train(fields | {"resume": True} | changes)
    with pytest.raises(RunError, match=r"run\.json cannot be read"):
        train(fields | {"resume": True})


def test_a_training_that_began_while_the_data_were_read_is_not_overwritten(settings, tmp_path):
    fields = settings(epochs=1)
    resolved = Resolved.of(TrainConfig(**fields))

    def make_late(config):
        if not (tmp_path / "run").exists():
            train(fields | {"seed": 7})
        return build_workload(config)

    with pytest.raises(RunError, match="already holds a training; add resume=True"):
        run_training(make_late, resolved)
    assert "seed = 7" in (tmp_path / "run" / "config.toml").read_text()


def test_data_without_splits_end_with_an_accuracy_of_a_share_set_aside(
    settings, clips_folder, tmp_path, capsys
):
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
        "(share 0.15, split_seed=0); dev_fraction sets the share, 0 keeps them all"
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


def test_without_any_dev_split_it_is_said_that_nothing_is_scored(settings, clips_folder, tmp_path):
    (tmp_path / "data").mkdir()
    shutil.copy(clips_folder / "train_keypoints.npz", tmp_path / "data")
    result = train(settings(data=str(tmp_path / "data"), dev_fraction=0.0, patience=2, epochs=1,
                            workers=1, pin_memory=True))  # fmt: skip
    assert result.scores == {}
    assert result.summary["notes"] == [
        "no dev split: nothing is scored during the training, and the last weights count",
        "pin_memory=True has no effect: there is no GPU",
        "patience=2 has no effect: there is no dev split to stop by",
    ]


def test_a_run_finds_its_data_from_any_folder(settings, tmp_path, clips_folder, monkeypatch):
    monkeypatch.chdir(clips_folder.parent)
    fields = settings(
        data=clips_folder.name, labels=f"{clips_folder.name}/labels.csv", epochs=1, cache="none"
    )
    result = train(fields)
    monkeypatch.chdir(tmp_path)
    scores = posemill.evaluate(result.out, split="test")
    assert scores["accuracy"] == result.scores["test"]["accuracy"]
    monkeypatch.chdir(clips_folder.parent)
    again = train({**fields, "resume": True, "epochs": 2})
    assert not any("it began with data" in note for note in again.summary["notes"])


def test_patience_waits_for_a_better_score_not_for_a_lower_loss(settings, monkeypatch):
    losses = iter(range(100, 0, -1))
    monkeypatch.setattr(
        "posemill.training.loop.trainer.evaluate_split",
        lambda *_, **__: Evaluation({"accuracy": 0.0, "loss": float(next(losses))}, []),
    )
    result = train(settings(epochs=10, patience=3, test_split=""))
    assert result.summary["epochs"] == 4
    assert result.summary["best_step"] == 16, "of equal scores the one with the lowest loss"
    assert "no better accuracy in 3 evaluations" in result.summary["last_words"][0]


@pytest.mark.parametrize("cut", [False, True])
def test_plateau_lowers_the_learning_rate_where_the_score_stands_still(settings, monkeypatch, cut):
    accuracies = iter([0.1, 0.2, 0.2, 0.2, 0.3, 0.3, 0.3, 0.3])
    monkeypatch.setattr(
        "posemill.training.loop.trainer.evaluate_split",
        lambda *_, **__: Evaluation({"accuracy": next(accuracies), "loss": 1.0}, []),
    )
    fields = settings(epochs=7, scheduler="plateau", step_gamma=0.5, plateau_patience=2, lr=0.01,
                      warmup_epochs=0, test_split="", val_split="dev", ema_decay=0.0)  # fmt: skip
    monkeypatch.setattr("posemill.training.launch.rank._final_scores", lambda _: {})
    if cut:
        train({**fields, "epochs": 3})
        fields |= {"resume": True}
    result = train(fields)
    lines = [json.loads(line) for line in (result.out / "metrics.jsonl").read_text().splitlines()]
    by_epoch = {line["epoch"]: line["lr"] for line in lines if line["event"] == "train"}
    assert list(by_epoch.values()) == pytest.approx([0.01] * 4 + [0.005] * 3)


def test_a_resumed_training_counts_the_time_before(settings):
    first = train(settings(epochs=2)).summary["timing_seconds"]
    (Path(settings()["out"]) / "summary.json").unlink()  # killed after its last step
    second = train(settings(epochs=2, resume=True)).summary["timing_seconds"]
    assert second["forward"] >= first["forward"] > 0


def test_ranks_of_torchrun_read_a_run_only_after_the_first_one_has_locked_it(
    settings, run, monkeypatch
):
    class SecondRank(Runtime):
        """A process whose first one has found the run in use."""

        def gather(self, value):
            assert value is None, "the second one takes no lock"
            return [RunError("{folder} is being trained by another process", folder="run"), None]

    world = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    for name, value in world.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(rank, "join_processes", lambda *_, **__: SecondRank(rank=1, size=2))
    monkeypatch.setattr(RunFolder, "read_facts", lambda _: pytest.fail("read without the lock"))
    monkeypatch.setattr(start, "build_workload", lambda _: pytest.fail("began to train"))
    with pytest.raises(RunError, match="is being trained by another process"):
        train(settings(epochs=1, resume=True))
