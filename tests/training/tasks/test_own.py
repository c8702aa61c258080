from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from posemill.training.data.batches import Draw
from posemill.training.tasks.own import (
    LossOfSum,
    MetricScorer,
    UserBatch,
    UserBatches,
    make_user_workload,
)


class Samples(list[tuple[torch.Tensor, torch.Tensor]]):
    """Pairs that know how long they are."""

    lengths = (5, 7)


PAIRS = Samples((torch.tensor([x]), torch.tensor(x + 1)) for x in (1.0, 3.0))


def test_a_batch_is_inputs_and_the_target_last() -> None:
    batch = UserBatches(PAIRS).__getitems__([Draw(1), Draw(0)])
    assert [part.tolist() for part in batch.inputs] == [[[3.0], [1.0]]]
    assert batch.target.tolist() == [4.0, 2.0]
    assert (batch.indices, batch.counts, len(batch)) == ([1, 0], True, 2)
    assert not UserBatches(PAIRS)[Draw(0, weight=0.0)].counts


def test_everything_inside_a_batch_is_moved() -> None:
    one = torch.ones(1)
    batch = UserBatch(({"a": one, "b": [one, "text"]}, (one,)), one, [0], counts=False)
    moved = batch.to("meta")
    assert moved.inputs[0]["a"].device.type == moved.inputs[0]["b"][0].device.type == "meta"
    assert moved.inputs[0]["b"][1] == "text"
    assert moved.inputs[1][0].device.type == moved.target.device.type == "meta"
    assert (moved.indices, moved.counts) == ([0], False)


def test_a_mean_becomes_a_sum_and_what_fills_up_counts_nothing() -> None:
    batch = UserBatch((), torch.tensor([1.0, 5.0]), [0, 1])
    output = torch.zeros(2)
    total, count = LossOfSum(nn.L1Loss())(output, batch)
    assert (float(total), count) == (6.0, 2.0)
    total, count = LossOfSum(lambda o, t: ((t - o).sum(), 7))(output, batch)
    assert (float(total), count) == (6.0, 7)
    batch.counts = False
    total, count = LossOfSum(nn.L1Loss())(output, batch)
    assert (float(total), count) == (0.0, 0.0)
    with pytest.raises(ValueError, match=r"loss: expected the mean .* got \(2,\)"):
        LossOfSum(nn.L1Loss(reduction="none"))(output, batch)


def test_a_metric_is_the_mean_over_samples_not_over_batches() -> None:
    scorer = MetricScorer(lambda output, target: output.mean())
    rows = scorer.observe(torch.tensor([1.0, 1.0, 1.0]), UserBatch((), None, [4, 5, 6]))
    rows += scorer.observe(torch.tensor([5.0]), UserBatch((), None, [9]))
    assert scorer.observe(torch.tensor([99.0]), UserBatch((), None, [0], counts=False)) == []
    assert [index for index, _ in rows] == [4, 9]
    assert scorer.score(rows) == {"metric": 2.0}
    assert scorer.score([]) == {"metric": 0.0}


def test_a_workload_holds_a_copy_of_the_model_and_the_lengths_of_the_samples() -> None:
    model = nn.Linear(1, 1)
    workload = make_user_workload(model, PAIRS, val_set=list(PAIRS), loss=nn.MSELoss())
    assert workload.model is not model
    assert torch.equal(next(workload.model.parameters()), model.weight)
    np.testing.assert_array_equal(workload.train.lengths, [5, 7])
    assert workload.val is not None
    np.testing.assert_array_equal(workload.val.lengths, [1, 1])
    assert workload.val.scorer is None
    assert workload.identity == {"class": "torch.nn.modules.linear.Linear"}
    (batch,) = [workload.train.batches[Draw(0)]]
    assert torch.equal(workload.forward(workload.model, batch), workload.model(batch.inputs[0]))
