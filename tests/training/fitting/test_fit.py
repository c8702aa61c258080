import csv
from typing import Any

import numpy as np
import pytest
import torch
from small_sets import killed_at, losses_of
from torch import nn
from torch.optim import SGD
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler

import posemill
from posemill.errors import ConfigError, TrainingError
from posemill.training.record.run_folder import RunFolder
from posemill.training.runs.status import read_train_status

squared = nn.MSELoss()


def worst(output, target):
    return (output - target).abs().max()


def error(output, target):
    return (output - target).abs()[:, 0]


def build(model):
    return SGD(model.parameters(), lr=0.05, momentum=0.9)


def halve(optimizer):
    return StepLR(optimizer, 1, gamma=0.5)


def never(moment):
    return False


def linear():
    torch.manual_seed(0)
    return nn.Linear(1, 1)


class Named(nn.Module):
    """Takes its input by name."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Linear(1, 1)

    def forward(self, x):
        return self.inner(x)


class Stream(IterableDataset[Any]):
    """The line, sample by sample."""

    def __init__(self, line):
        self.samples = list(line)

    def __len__(self):
        return len(self.samples)

    def __iter__(self):
        return iter(self.samples)


def test_without_out_everything_that_is_returned_stays(fit, line, tmp_path):
    first, second = fit(linear(), line, epochs=1), fit(linear(), line, epochs=1)
    assert (first.out, second.out) == (tmp_path / "runs/fit1", tmp_path / "runs/fit2")
    assert (first.out / "summary.json").is_file()
    assert isinstance(posemill.load_model(first, model=nn.Linear(1, 1)), nn.Linear)
    with pytest.raises(ValueError, match="the model cannot take a batch"):
        fit(nn.Linear(3, 1), line)
    assert not (tmp_path / "runs/fit3").exists(), "nothing began"


def test_a_folder_that_cannot_be_made_and_torchrun_ask_for_out(fit, line, tmp_path, monkeypatch):
    (tmp_path / "runs").touch()
    with pytest.raises(ConfigError, match=r"out: cannot make .*fit1 .*; give the folder of the"):
        fit(linear(), line)
    monkeypatch.setattr("posemill.training.launch.fit.under_torchrun", lambda: True)
    with pytest.raises(ConfigError, match="the processes of torchrun have to agree on it"):
        fit(linear(), line)


def test_dicts_streams_loaders_and_collate_functions_give_the_same_model(fit, line):
    def collate(samples):
        return torch.stack([x for x, _ in samples]), torch.stack([y for _, y in samples])

    dicts = [{"x": x, "target": y, "file": "a.png"} for x, y in line]  # one more than is taken
    runs = {
        "list": fit(linear(), DataLoader(line, batch_size=6), line),
        "stream": fit(linear(), Stream(line), Stream(line), batch_size=6),
        "micro": fit(linear(), Stream(line), line, batch_size=6, micro_batch=2),
        "dict": fit(Named(), DataLoader(dicts, batch_size=6), dicts),
        "forward": fit(linear(), DataLoader(dicts, batch_size=6), dicts,
                       forward=lambda model, batch: model(batch["x"])),
        "as it is": fit(linear(), DataLoader(line, batch_sampler=[list(range(at, min(at + 6, 20)))
                                                                  for at in (0, 6, 12, 18)]), line),
        "collate": fit(linear(), Stream(line), line, collate_fn=collate, batch_size=6),
    }  # fmt: skip
    expected = losses_of(runs["list"].out)
    assert len(expected) == 8
    for name, result in runs.items():
        assert losses_of(result.out) == pytest.approx(expected, abs=1e-6), name
        assert result.scores["dev"] == pytest.approx(runs["list"].scores["dev"], abs=1e-6), name
    toml = (runs["list"].out / "config.toml").read_text()
    assert "batch_size = 6" in toml, "the loader's"


@pytest.mark.usefixtures("warm_children")
def test_processes_fit_the_same_model_as_one(fit, line):
    models, results = [], []
    for mode in ("single", "multi_process"):
        models.append(linear())
        # 20 samples over two ranks in batches of 9: the last step has one sample on each.
        results.append(
            fit(models[-1], line, line, loss=squared, parallel=mode, epochs=1, batch_size=9,
                processes=2 if mode == "multi_process" else 0, optimizer=build, scheduler=halve,
                metrics={"error": (error, "min"), "worst": (worst, "min")}, on_step=never)
        )  # fmt: skip
    assert losses_of(results[1].out) == pytest.approx(losses_of(results[0].out), abs=1e-5)
    torch.testing.assert_close(models[0].weight, models[1].weight, atol=1e-5, rtol=1e-5)
    assert results[1].scores["dev"]["error"] == pytest.approx(results[0].scores["dev"]["error"])
    rows = [(r.out / "samples.csv").read_text().splitlines() for r in results]
    assert len(rows[0]) == len(rows[1]) == 21


def test_a_loader_with_an_order_of_its_own_is_not_divided(fit, line):
    loader = DataLoader(line, batch_size=4, sampler=WeightedRandomSampler([1.0] * 20, 20))
    with pytest.raises(ConfigError, match="an order of its own, which several processes cannot"):
        fit(linear(), loader, parallel="multi_process", processes=2)
    result = fit(linear(), loader, line)
    assert "the DataLoader of train_set is used as it is" in result.summary["notes"][0]
    assert result.summary["steps"] == 10
    auto = fit(linear(), loader, parallel="auto")
    assert "several processes cannot share it" in auto.summary["mode_reason"]


def test_a_loss_may_give_its_own_sum_and_number(fit, line):
    one, other = linear(), linear()
    fit(one, line, loss=lambda y, t: ((y - t).square().sum(), len(t)), batch_size=7)
    fit(other, line, batch_size=7)
    torch.testing.assert_close(one.weight, other.weight)


def test_each_metric_has_its_direction_and_one_chooses(fit, line):
    metrics = {"worst": (worst, "min"), "error": (error, "min"), "minus": lambda o, t: -worst(o, t)}
    result = fit(linear(), line, line, metrics=metrics, epochs=4, lr=0.1)
    assert result.summary["chosen_by"] == "worst"
    evals = [r for r in RunFolder(result.out).read_metrics() if r["event"] == "eval"]
    assert result.scores["dev"]["worst"] == pytest.approx(min(row["worst"] for row in evals))
    assert result.scores["dev"]["minus"] == pytest.approx(-result.scores["dev"]["worst"])
    with (result.out / "samples.csv").open() as handle:
        rows = list(csv.DictReader(handle))
    assert [int(row["index"]) for row in rows] == list(range(20))
    mean = np.mean([float(row["error"]) for row in rows])
    assert result.scores["dev"]["error"] == pytest.approx(mean)
    for name in ("minus", "loss"):
        chosen = fit(linear(), line, line, metrics=metrics, choose_by=name, epochs=1)
        assert chosen.summary["chosen_by"] == name


def test_own_optimizers_and_schedulers_are_used_and_their_settings_said(fit, line):
    result = fit(linear(), line, optimizer=build, scheduler=halve, epochs=3, lr=0.7)
    assert [row["lr"] for row in RunFolder(result.out).read_metrics()] == [0.05, 0.025, 0.0125]
    assert any("lr=0.7 has no effect: fit() is given its opt" in n for n in result.summary["notes"])
    model = linear()
    optimizer = build(model)
    fit(model, line, optimizer=optimizer, scheduler=halve(optimizer), epochs=3)
    expected = linear()
    fit(expected, line, optimizer=build, scheduler=halve, epochs=3)
    assert torch.equal(model.weight, expected.weight)
    assert optimizer.param_groups[0]["lr"] == 0.05, "the user's own is not touched"
    by_name = fit(linear(), line, optimizer="sgd", scheduler="constant", warmup_epochs=0.0, lr=0.3)
    assert {row["lr"] for row in RunFolder(by_name.out).read_metrics()} == {0.3}


@pytest.mark.parametrize("kind", ["stream", "loader"])
def test_a_training_that_goes_on_is_equal_to_an_unbroken_one(fit, line, tmp_path, kind):
    loader = DataLoader(line, batch_size=6, sampler=WeightedRandomSampler([1.0] * 20, 20))
    data = {"stream": Stream(line), "loader": loader}[kind]
    same = {"optimizer": build, "scheduler": halve, "batch_size": 6, "epochs": 3,
                            "save_every_steps": 1}  # fmt: skip
    whole, broken = linear(), linear()
    fit(whole, data, line, out=str(tmp_path / "whole"), **same)
    with killed_at(7):
        fit(broken, data, line, out=str(tmp_path / "cut"), **same)
    fit(broken, data, line, out=str(tmp_path / "cut"), resume=True, **same)
    assert torch.equal(whole.weight, broken.weight)
    assert losses_of(tmp_path / "cut") == losses_of(tmp_path / "whole")


def test_callbacks_are_told_where_the_training_is_and_may_end_it(fit, line):
    told = []
    result = fit(linear(), line, line, batch_size=10, epochs=5, metric=worst,
                 on_step=lambda m: told.append(("step", m.step, m.epoch, m.loss)),
                 on_evaluate=lambda m: told.append(("evaluate", m.epoch, sorted(m.scores))),
                 on_epoch=lambda m: told.append(("epoch", m.epoch)) or m.epoch == 2)  # fmt: skip
    assert [entry[0] for entry in told] == ["step", "step", "evaluate", "epoch"] * 2
    assert [entry[1:3] for entry in told if entry[0] == "step"] == [(1, 0), (2, 0), (3, 1), (4, 1)]
    assert told[2] == ("evaluate", 1, ["loss", "metric"])
    assert [t[3] for t in told if t[0] == "step"] == pytest.approx(losses_of(result.out))
    assert (result.summary["steps"], result.summary["is_stopped_early"]) == (4, True)
    cut = fit(linear(), line, line, batch_size=10, epochs=5, patience=1, metric=worst,
              on_step=lambda m: m.step == 3)  # fmt: skip
    assert cut.summary["steps"] == 3
    assert cut.summary["last_words"] == ["a callback ended the training after step 3"]
    last = fit(linear(), line, line, epochs=5, on_evaluate=lambda m: m.scores["loss"] < 100)
    assert last.summary["epochs"] == 1


def test_a_model_of_ones_own_is_trained_in_place_and_its_run_scores_and_predicts(fit, line):
    model, metrics = nn.Linear(1, 1), {"error": (error, "min")}
    result = fit(model, line, line, epochs=60, lr=0.1, batch_size=6, eval_every=30, save_every=60,
                 metrics=metrics)  # fmt: skip
    assert (model.weight.item(), model.bias.item()) == pytest.approx((3, -1), abs=0.05)
    assert result.scores["dev"]["loss"] < 1e-3
    loaded = posemill.load_model(result.out, model=nn.Linear(1, 1))
    assert torch.equal(loaded.weight, model.weight)
    assert not loaded.training
    given = {"model": nn.Linear(1, 1), "data": line, "metrics": metrics}
    scores = posemill.evaluate(result.out, loss=nn.MSELoss(), **given)
    assert scores["error"] == pytest.approx(result.scores["dev"]["error"], abs=1e-6)
    assert scores["loss"] == pytest.approx(result.scores["dev"]["loss"], abs=1e-6)
    assert "loss" not in posemill.evaluate(result.out, **given)
    for data in (line, DataLoader(line, batch_size=6)):
        said = posemill.predict(result.out, data, model=nn.Linear(1, 1))
        assert torch.allclose(torch.stack(said), model(line.tensors[0]).detach(), atol=1e-6)
    assert read_train_status(result.out).next_command() == (
        f"posemill.evaluate({str(result.out)!r}, model=…, data=…)"
    )
    for call, message in (
        (lambda: posemill.load_model(result.out),
         r"trained by fit.* \(torch.*Linear\): build it and give"),
        (lambda: posemill.predict(result.out, line), r"as model=… of load_model, evaluate or pred"),
        (lambda: posemill.evaluate(result.out, data="somewhere"), r"as model=… of load_model"),
        (lambda: posemill.predict(result.out, line, model=nn.Linear(1, 1), pictures="seen"),
         r"only predictions of runs of train.* are drawn"),
        (lambda: posemill.load_model(result.out, model=nn.Linear(2, 1)),
         "is of another model: 1 tensors are missing, new or"),
    ):  # fmt: skip
        with pytest.raises((ConfigError, TrainingError), match=message):
            call()


def test_figures_show_curves_confusion_and_samples(fit):
    torch.manual_seed(0)
    points = torch.randn(30, 2)
    data = TensorDataset(points, (points[:, 0] > 0).long())
    drawn = []

    def draw(axes, sample, output):
        drawn.append((tuple(sample[0].shape), int(sample[1]), tuple(output.shape)))
        axes.set_title(f"{int(sample[1])}")

    result = fit(nn.Linear(2, 2), data, data, loss=nn.CrossEntropyLoss(), figures=True,
                 draw_sample=draw, class_names=["left", "right"], epochs=3)  # fmt: skip
    names = sorted(path.name for path in (result.out / "figures").iterdir())
    assert names == ["confusion.png", "curves.png", "per_class.png", "samples.png"]
    assert len(drawn) == 9, "one in the trial, eight at the end"
    assert drawn[-1][::2] == ((2,), (2,))
    assert [entry[1] for entry in drawn[1:]] == data.tensors[1][:8].tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epoch": 3}, "unknown setting 'epoch'; did you mean 'epochs'"),
        ({"scheduler": "cosin"}, r"scheduler: .*; did you mean 'cosine'\?"),
        ({"optimizer": "sgdd"}, r"optimizer: .*; did you mean 'sgd'\?"),
        ({"loggers": "tensorbord"}, r"loggers: .*; did you mean 'tensorboard'\?"),
        ({"optimizer": build, "scheduler": "cosine"},
         r"scheduler=.cosine. goes with an optimizer by name"),
        ({"on_epoch": 3}, "on_epoch: expected a function, got int"),
        ({"out": "a.pt"}, r"a\.pt: a run is a folder, and \.pt is the ending of"),
        ({"resume": True, "out": ""}, "resume=True continues the run in out, which is"),
    ],
)  # fmt: skip
def test_wrong_settings_are_named_before_anything_is_made(fit, line, tmp_path, settings, message):
    with pytest.raises((ConfigError, TypeError, ValueError), match=message):
        fit(linear(), line, **settings)
    assert not list(tmp_path.iterdir())


class InPlace(nn.Module):
    """Overwrites what the backward pass needs."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(1, 1)

    def forward(self, x):
        y = self.inner(x).exp()
        y += 1
        return y


LINE = nn.Linear(1, 1)


def fails(output, target):
    raise IndexError("out of it")


def draws_wrong(axes, sample, output):
    axes.imshow(sample[0].reshape(2, 3))


@pytest.mark.parametrize(
    ("model", "data", "options", "message"),
    [
        (nn.Linear(3, 1), "line", {},
         r"the model cannot take a batch of \(float32 \(20, 1\), float32 \(20, 1\)\): Runtime"),
        (nn.Linear(1, 2), "line", {"loss": nn.CrossEntropyLoss()},
         r"loss\(output, target\) failed with output float32 \(20, 2\), target float32 \(20, 1\)"),
        (LINE, "line", {"loss": lambda o, t: (o - t).detach().mean()},
         "the loss does not depend on the model's weights"),
        (LINE, "line", {"loss": lambda o, t: (o - t).sum() / 0},
         "the loss of the first batch is -?inf with output float32"),
        (LINE, "line", {"loss": lambda o, t: ((o - t).sum(), 0)},
         "loss: expected a number of samples above 0, got 0"),
        (LINE, "line", {"metrics": {"iou": fails}},
         r"metric 'iou' failed with output float32 \(20, 1\), .*: IndexError: out of it"),
        (LINE, "line", {"draw_sample": draws_wrong, "figures": True},
         r"draw_sample\(axes, sample, output\) failed on the first batch of val_set"),
        (LINE, [(torch.ones(n + 1), 0) for n in range(3)], {},
         r"train_set: its first samples do not make a batch: RuntimeError: stack expects"),
        (LINE, dict.fromkeys("abc"), {}, "train_set: its first samples do not .* KeyError: "),
        (LINE, [torch.ones(1)], {},
         r"train_set: expected samples \(input, …, target\) or a dict, got a batch of float32"),
        (LINE, [{"image": torch.ones(1)}], {},
         "the model's forward needs 'input', and a batch has 'image': name them alike"),
        (LINE, "line", {"scheduler": ReduceLROnPlateau, "val_set": None},
         "ReduceLROnPlateau goes by scores: give a val_set"),
        (InPlace(), "line", {}, "the backward pass failed: RuntimeError: one of the var"),
        (nn.ReLU(), "line", {}, "expected weights to train, got none"),
        ("resnet", "line", {}, "model: expected a torch.nn.Module, got str"),
        (LINE, "line", {"loss": "mse"}, "loss: expected a function, got str"),
        (LINE, "line", {"metrics": [fails]},
         "metrics: expected a dict of functions by name, got list"),
        (LINE, "line", {"metrics": {"a": 3}},
         r"metrics\['a'\]: expected a function, or \(function, 'max' or 'min'\), got 3"),
        (LINE, "line", {"metrics": {"a": (fails, "up")}},
         r"metrics\['a'\]: expected a function"),
        (LINE, "line", {"metrics": {"loss": fails}},
         "metrics: expected names other than 'loss', got 'loss'"),
        (LINE, "line", {"metrics": {"a": fails}, "metric": fails},
         "metric and metrics say the same thing"),
        (LINE, "line", {"metrics": {"a": fails, "b": fails}, "choose_by": "c"},
         "choose_by: expected one of a, b, loss, got 'c'"),
        (LINE, "line", {"metrics": {"a": fails}, "val_set": None},
         "metrics are of the val_set: give one, or leave a out"),
    ],
)  # fmt: skip
def test_wrong_use_is_one_sentence_before_the_first_step(fit, line, model, data, options, message):
    data = line if isinstance(data, str) else data
    usual = {"on_step": lambda moment: pytest.fail("a step was taken"), "val_set": line}
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        fit(model, data, **usual | options)
    assert "\n" not in str(caught.value)


def test_the_trial_does_not_change_the_model(fit, line):
    net = nn.Sequential(nn.Linear(1, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 1))
    seen = []
    fit(net, line, on_step=lambda moment: seen.append(int(moment.model[1].num_batches_tracked)))
    assert seen == [1, 2], "the batch of the trial is not in the running statistics"
