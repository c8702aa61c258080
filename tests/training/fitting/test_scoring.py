from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from posemill.training.fitting.batches import UserBatch
from posemill.training.fitting.scoring import Metric, UserScorer, confusion_of, read_metrics


def mean(output: Any, target: Any) -> Any:
    return output.mean()


def each(output: Any, target: Any) -> Any:
    return output


def test_metrics_are_read_with_their_directions() -> None:
    found = read_metrics(None, {"iou": mean, "error": (each, "min"), "top": (each, "max")})
    assert [(n, m.is_higher_better) for n, m in found.items()] == [
        ("iou", True), ("error", False), ("top", True),
    ]  # fmt: skip
    assert read_metrics(mean, None) == {"metric": Metric(mean)}
    assert read_metrics(None, None) == {}


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ([mean], "metrics: expected a dict of functions by name, got list"),
        ({"a": 3}, r"metrics\['a'\]: expected a function, or \(function, 'max' or 'min'\), got 3"),
        ({"a": (mean, "up")}, r"metrics\['a'\]: expected a function"),
        ({"loss": mean}, "metrics: expected names other than 'loss', got 'loss'"),
    ],
)
def test_wrong_metrics_are_named(metrics: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        read_metrics(None, metrics)
    with pytest.raises(TypeError, match="metric and metrics say the same thing"):
        read_metrics(mean, {"a": mean})


def test_a_metric_is_the_mean_over_samples_not_over_batches() -> None:
    scorer = UserScorer({"metric": Metric(mean)}, "metric")
    rows = scorer.observe(torch.tensor([1.0, 1.0, 1.0]), UserBatch((None,), [4, 5, 6]))
    rows += scorer.observe(torch.tensor([5.0]), UserBatch((None,), [9]))
    assert scorer.observe(torch.tensor([99.0]), UserBatch((None,), [0], counts=False)) == []
    assert [index for index, _ in rows] == [4, 9]
    assert scorer.score(rows) == {"metric": 2.0}
    assert math.isnan(scorer.score([])["metric"])
    assert scorer.sample_values(rows) == []
    assert scorer.confusion(rows) is None


def test_a_metric_of_each_sample_is_kept_and_nan_says_that_it_has_none() -> None:
    scorer = UserScorer({"error": Metric(each, False), "all": Metric(mean)}, "error")
    assert not scorer.higher_is_better
    rows = scorer.observe(torch.tensor([1.0, math.nan]), UserBatch((None,), [3, 7]))
    rows += scorer.observe(torch.tensor([5.0]), UserBatch((None,), [9]))
    assert scorer.score(rows)["error"] == 3.0
    values = scorer.sample_values(rows)
    assert [value["index"] for value in values] == [3, 7, 9]
    np.testing.assert_array_equal([value["error"] for value in values], [1, math.nan, 5])
    assert set(values[0]) == {"index", "error"}


@pytest.mark.parametrize(
    ("value", "got"), [(torch.zeros(2, 1), r"\(2, 1\)"), ("text", "str"), (None, "NoneType")]
)
def test_a_metric_gives_one_number_or_one_for_each_sample(value: Any, got: str) -> None:
    scorer = UserScorer({"m": Metric(lambda output, target: value)}, "m")
    with pytest.raises(ValueError, match=f"metric 'm': expected one number.*2 samples, got {got}"):
        scorer.observe(None, UserBatch((None,), [0, 1]))


def test_classes_of_samples_and_of_pixels_are_counted_without_those_to_ignore() -> None:
    output = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]])
    found = confusion_of(output, torch.tensor([0, 0, 1]))
    assert found is not None
    assert found.tolist() == [[1, 1], [0, 1]]
    named = {"label": torch.tensor([0, 0, 1]), "weight": torch.ones(3)}
    assert str(confusion_of(output, named)) == str(found)
    assert confusion_of(output, {**named, "other": named["label"]}) is None
    pixels = torch.zeros(1, 3, 2, 2)
    pixels[0, 2] = 1
    found = confusion_of(pixels, torch.tensor([[[2, 2], [0, 255]]]))
    assert found is not None
    assert found.tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 2]]
    scorer = UserScorer({}, "loss")
    batch = UserBatch((0, torch.tensor([0, 0, 1])), [0, 1, 2])
    rows = scorer.observe(output, batch) + scorer.observe(output, batch)
    confusion = scorer.confusion(rows)
    assert confusion is not None
    assert confusion.tolist() == [[2, 2], [0, 2]]
    assert scorer.score(rows) == {}


@pytest.mark.parametrize(
    ("output", "target"),
    [
        (torch.zeros(3, 2), torch.zeros(3)), (torch.zeros(3, 1), torch.zeros(3).long()),
        (torch.zeros(3, 2), torch.zeros(3, 2).long()), (torch.zeros(3), torch.zeros(3).long()),
        (torch.zeros(3, 101), torch.zeros(3).long()), ({"x": 1}, torch.zeros(3).long()),
        (torch.zeros(3, 2).long(), torch.zeros(3).long()),
    ],
)  # fmt: skip
def test_other_outputs_are_not_taken_for_classes(output: Any, target: Any) -> None:
    assert confusion_of(output, target) is None
