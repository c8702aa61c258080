import math

import numpy as np
import pytest
import torch
from torch import nn

from posemill.training.fitting.user_clips import make_user_batch
from posemill.training.fitting.user_task import Metric, UserTask, confusion_of


class ByName(nn.Module):
    """Takes two entries of a dict."""

    def forward(self, x, scale=2.0):
        return x * scale


class AnyName(nn.Module):
    """Takes whatever comes."""

    def forward(self, **entries):
        return sorted(entries)


def task_of(metrics=None, main="loss", **options):
    return UserTask(options.pop("loss", nn.L1Loss()), metrics, main, **options)


def mean(output, target):
    return output.mean()


def each(output, target):
    return output


def test_a_metric_is_the_mean_over_samples_not_over_batches():
    task = task_of({"metric": Metric(mean)}, "metric")
    rows = task.observe(torch.tensor([1.0, 1.0, 1.0]), make_user_batch((None,), [4, 5, 6]))
    rows += task.observe(torch.tensor([5.0]), make_user_batch((None,), [9]))
    assert task.observe(torch.tensor([99.0]), make_user_batch((None,), [0], counts=False)) == []
    assert [row.sample for row in rows] == [4, 9]
    assert task.score(rows) == {"metric": 2.0}
    assert math.isnan(task.score([])["metric"])
    assert task.sample_values(rows) == []
    assert task.confusion(rows) is None


def test_a_metric_of_each_sample_is_kept_and_nan_says_that_it_has_none():
    task = task_of({"error": Metric(each, False), "all": Metric(mean)}, "error")
    assert not task.higher_is_better
    rows = task.observe(torch.tensor([1.0, math.nan]), make_user_batch((None,), [3, 7]))
    rows += task.observe(torch.tensor([5.0]), make_user_batch((None,), [9]))
    assert task.score(rows)["error"] == 3.0
    values = task.sample_values(rows)
    assert [value["index"] for value in values] == [3, 7, 9]
    np.testing.assert_array_equal([value["error"] for value in values], [1, math.nan, 5])
    assert set(values[0]) == {"index", "error"}


@pytest.mark.parametrize(
    ("value", "got"), [(torch.zeros(2, 1), r"\(2, 1\)"), ("text", "str"), (None, "NoneType")]
)
def test_a_metric_gives_one_number_or_one_for_each_sample(value, got):
    task = task_of({"m": Metric(lambda output, target: value)}, "m")
    with pytest.raises(ValueError, match=f"metric 'm': expected one number.*2 samples, got {got}"):
        task.observe(None, make_user_batch((None,), [0, 1]))


def test_classes_of_samples_and_of_pixels_are_counted_without_those_to_ignore():
    output = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]])
    found = confusion_of(output, torch.tensor([0, 0, 1]))
    assert found.tolist() == [[1, 1], [0, 1]]
    named = {"label": torch.tensor([0, 0, 1]), "weight": torch.ones(3)}
    assert str(confusion_of(output, named)) == str(found)
    assert confusion_of(output, {**named, "other": named["label"]}) is None
    pixels = torch.zeros(1, 3, 2, 2)
    pixels[0, 2] = 1
    found = confusion_of(pixels, torch.tensor([[[2, 2], [0, 255]]]))
    assert found.tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 2]]
    task = task_of({}, "loss")
    batch = make_user_batch((0, torch.tensor([0, 0, 1])), [0, 1, 2])
    rows = task.observe(output, batch) + task.observe(output, batch)
    assert task.confusion(rows).tolist() == [[2, 2], [0, 2]]
    assert task.score(rows) == {}


@pytest.mark.parametrize(
    ("output", "target"),
    [
        (torch.zeros(3, 2), torch.zeros(3)), (torch.zeros(3, 1), torch.zeros(3).long()),
        (torch.zeros(3, 2), torch.zeros(3, 2).long()), (torch.zeros(3), torch.zeros(3).long()),
        (torch.zeros(3, 101), torch.zeros(3).long()), ({"x": 1}, torch.zeros(3).long()),
        (torch.zeros(3, 2).long(), torch.zeros(3).long()),
    ],
)  # fmt: skip
def test_other_outputs_are_not_taken_for_classes(output, target):
    assert confusion_of(output, target) is None


def test_a_mean_becomes_a_sum_and_what_fills_up_counts_nothing():
    values, output = (torch.tensor([1.0, 5.0]),), torch.zeros(2)
    batch = make_user_batch(values, [0, 1])

    def losses(function, batch):
        return [float(part) for part in task_of(loss=function).loss(output, batch)]

    assert losses(nn.L1Loss(), batch) == [6.0, 2.0]
    assert losses(lambda o, t: ((t - o).sum(), 7), batch) == [6.0, 7.0]
    assert losses(nn.L1Loss(), make_user_batch(values, [0, 1], counts=False)) == [0.0, 0.0]
    with pytest.raises(ValueError, match=r"loss: expected the mean .* got \(2,\)"):
        losses(nn.L1Loss(reduction="none"), batch)
    with pytest.raises(ValueError, match=r"loss: expected the mean .* got float"):
        losses(lambda o, t: 3.0, batch)


def test_the_model_gets_the_inputs_or_the_entries_it_names():
    x, model = torch.ones(2), ByName()

    def said(values, model=model, **options):
        return task_of(model=model, **options).call(model, make_user_batch(values, [0]))

    assert said((x, 3.0, "target")).tolist() == [3, 3]
    values = {"x": x, "target": x, "file": "a.png"}
    assert said(values).tolist() == [2, 2]
    assert said({**values, "scale": 5.0}).tolist() == [5, 5]
    assert said(values, AnyName()) == ["file", "x"]
    assert said(x).tolist() == [2, 2]
    own = said(values, forward=lambda model, values: model(values["x"], 7.0))
    assert own.tolist() == [7, 7]
    assert make_user_batch(values, [0]).targets is x
