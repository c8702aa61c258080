import json
import shutil
from pathlib import Path

import pytest
import torch
from small_sets import NO_DROPOUT, assert_same_run, killed_at, losses_of

from posemill.errors import RunError, TrainingError
from posemill.training.front import train
from posemill.training.record.run_folder import RunFolder
from posemill.training.runs.inference import load_model


def weights_of(run, name="last"):
    return dict(RunFolder(run).checkpoints.load(name).weights)


def test_deterministic_reruns_are_bit_equal(settings, tmp_path):
    fields = settings(deterministic=True, augment_rotate=10.0, augment_noise=0.01)
    train(fields | {"out": str(tmp_path / "a")})
    train(fields | {"out": str(tmp_path / "b")})
    train(fields | {"out": str(tmp_path / "c"), "seed": 1})
    assert_same_run(tmp_path / "a", tmp_path / "b")
    assert losses_of(tmp_path / "c") != losses_of(tmp_path / "a")
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_finished_training_is_not_trained_again(settings, tmp_path):
    fields = settings()
    first = train(fields)
    again = train(fields | {"resume": True})
    assert again.scores == first.scores
    assert again.summary == json.loads(json.dumps(first.summary)), "its timing stays, too"


def test_a_start_killed_before_its_first_checkpoint_begins_its_log_anew(settings, run):
    shutil.rmtree(run / "checkpoints")
    (run / "summary.json").unlink()
    train(settings(epochs=1, resume=True))
    rows = RunFolder(run).read_metrics()
    assert [row["step"] for row in rows if row["event"] == "train"] == [1, 2, 3, 4]


def test_a_training_that_patience_ended_goes_on_with_more_patience_only(settings, tmp_path, capsys):
    fields = settings(epochs=4, lr=0.0, patience=1)
    assert train(fields).summary["steps"] == 8, "two of four epochs: lr 0 makes nothing better"
    before = (tmp_path / "run" / "timing.json").read_bytes()
    assert train(fields | {"resume": True, "epochs": 5, "progress": True}).summary["steps"] == 8
    assert (tmp_path / "run" / "timing.json").read_bytes() == before
    said = " ".join(capsys.readouterr().err.split())
    assert "no better score in 1 evaluation (patience=1); a larger patience, or 0, goes" in said
    assert train(fields | {"resume": True, "patience": 2}).summary["steps"] == 12
    assert train(fields | {"resume": True, "patience": 0}).summary["steps"] == 16


def test_what_is_learned_otherwise_from_here_on_is_said(settings, run):
    result = train(settings(resume=True, lr=0.02, cache="none", save_every=2))
    assert "it began with lr=0.01, and goes on with 0.02" in result.summary["notes"]
    assert not any("cache" in note or "save_every" in note for note in result.summary["notes"])
    assert result.summary["steps"] == 12


def test_a_training_goes_on_only_with_its_model_classes_steps_and_optimizer(
    settings, run, tmp_path
):
    fields = settings(epochs=1)
    before = {name: (run / name).read_text() for name in ("config.toml", "run.json")}
    labels = tmp_path / "renamed.csv"
    labels.write_text(Path(fields["labels"]).read_text().replace(",class", ",new_class"))
    larger = {"width": 32, "num_layers": 1, "num_heads": 2}
    for changes, message in (
        ({"batch_size": 4, "micro_batch": 4},
         r"has taken 4 steps in 1 epoch, which would be 7 now: the "),
        ({"model": "mlp", "model_options": {}}, r"is of another model: it has .*model .* instead"),
        ({"model_options": larger}, "is of another model: it has options"),
        ({"labels": str(labels)}, r"has learned the classes class0, .*these data have new_cl"),
        ({"optimizer": "sgd"}, "written by optimizer AdamW, this training has SGD"),
        ({"ema_decay": 0.5}, "has no moving average: continue with ema_decay=0"),
    ):  # fmt: skip
        with pytest.raises((RunError, TrainingError), match=message):
            train(fields | {"resume": True, "epochs": 3, **changes})
        if not {"optimizer", "ema_decay"} & set(changes):  # its command still works
            assert before == {name: (run / name).read_text() for name in before}


def test_without_a_validation_split_or_an_evaluation_the_last_weights_are_the_best(
    settings, tmp_path
):
    result = train(settings(val_split="", out=str(tmp_path / "no_dev")))
    assert torch.equal(*(weights_of(result.out, n)["head.weight"] for n in ("last", "best")))
    assert set(result.scores) == {"test"}
    fields = settings(save_every_steps=1, eval_every=3)
    with killed_at(2):
        train(fields)
    result = train(fields | {"resume": True, "max_steps": 1})
    assert result.summary["steps"] == 2
    assert result.scores["test"]


def test_training_learns_and_leaves_all_files(settings):
    result = train(settings(epochs=12, tensorboard=True))
    folder = RunFolder(result.out)
    assert result.scores["dev"]["accuracy"] == 1
    assert result.scores["test"]["accuracy"] >= 0.75
    assert losses_of(result.out)[-1] < losses_of(result.out)[0] / 2
    assert list((folder.path / "tensorboard").glob("events*"))
    timing = folder.read_summary()["timing_seconds"]
    assert {part for part, seconds in timing.items() if seconds > 0} == {
        "data", "transfer", "forward", "backward", "optimizer", "evaluation", "checkpoint",
    }  # fmt: skip
    assert folder.read_facts()["class_names"] == ["class0", "class1", "class2"]
    best = weights_of(result.out, "best")
    loaded = load_model(result.out).state_dict()
    assert all(torch.equal(best[name], loaded[name]) for name in best)


def test_the_best_checkpoint_holds_the_moving_average_and_evaluations_keep_their_cadence(settings):
    result = train(settings(ema_decay=0.9, epochs=5, eval_every=2, save_every=3))
    evals = [r["epoch"] for r in RunFolder(result.out).read_metrics() if r["event"] == "eval"]
    assert evals == [1, 3, 4]
    trained, averaged = weights_of(result.out, "best"), load_model(result.out).state_dict()
    assert any(not torch.equal(trained[name], averaged[name]) for name in trained)


def test_presets_take_the_same_steps(settings, tmp_path):
    fields = settings(epochs=1, batch_size=16, model_options=NO_DROPOUT)
    for name in ("micro_batch", "eval_every", "save_every"):
        del fields[name]
    for preset in ("balanced", "high-performance", "memory-limited", "extreme"):
        train(fields | {"out": str(tmp_path / preset), "preset": preset})
        expected = losses_of(tmp_path / "balanced")
        assert losses_of(tmp_path / preset) == pytest.approx(expected, abs=1e-5), preset
