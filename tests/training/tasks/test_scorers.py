from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from posemill.training.models.base import CtcOutput
from posemill.training.tasks.ctc_decoding import decode_beam
from posemill.training.tasks.scorers import ClassScorer, CtcScorer, beats, best_head


def test_the_first_scores_are_the_best_so_far() -> None:
    assert beats({"accuracy": 0.1, "loss": 9.0}, {}, "accuracy", is_higher=True)


def test_higher_or_lower_is_better_as_the_score_says() -> None:
    high, low = {"wer": 0.5, "loss": 1.0}, {"wer": 0.2, "loss": 2.0}
    assert beats(high, low, "wer", is_higher=True)
    assert not beats(high, low, "wer", is_higher=False)
    assert beats(low, high, "wer", is_higher=False)


def test_between_equal_scores_the_lower_loss_decides() -> None:
    early, late = {"accuracy": 0.9, "loss": 1.0}, {"accuracy": 0.9, "loss": 0.8}
    assert beats(late, early, "accuracy", is_higher=True)
    assert not beats(early, late, "accuracy", is_higher=True)
    assert not beats(early, early, "accuracy", is_higher=True)


def test_a_loss_that_is_not_known_counts_as_none() -> None:
    assert not beats({"accuracy": 0.5}, {"accuracy": 0.5}, "accuracy", is_higher=True)
    assert beats({"accuracy": 0.5, "loss": -0.5}, {"accuracy": 0.5}, "accuracy", is_higher=True)
    assert beats({"accuracy": 0.5}, {"accuracy": 0.5, "loss": 0.5}, "accuracy", is_higher=True)


def batch_of(*weights: float) -> Any:
    indices = torch.arange(len(weights)) + 4
    return SimpleNamespace(indices=indices, weights=torch.tensor(weights))


def test_the_likeliest_class_is_said_with_its_chance_by_clips_that_count() -> None:
    scorer = ClassScorer([0] * 4 + [1, 0, 1])
    rows = scorer.observe(torch.tensor([[0.0, 3.0], [1.0, 0.0], [2.0, 0.0]]), batch_of(1, 0, 1))
    assert [(index, label) for index, (label, _) in rows] == [(4, 1), (6, 0)]
    chance = 1 / (1 + math.exp(-3.0))
    assert rows[0][1][1] == pytest.approx(chance)
    assert scorer.score(rows) == {"accuracy": 0.5}
    assert (scorer.main, scorer.higher_is_better) == ("accuracy", True)
    assert scorer.targets.dtype == np.int64


def spelled(*path: int) -> torch.Tensor:
    """Return logits `(1, steps, 4)` whose likeliest label of each step is given."""
    return torch.eye(4)[list(path)][None] * 9


def test_glosses_are_read_from_every_head_up_to_the_end_of_a_clip() -> None:
    logits = torch.cat([spelled(1, 0, 2, 3), spelled(2, 2, 0, 3), spelled(3, 3, 3, 3)])
    conv = torch.cat([spelled(0, 0, 0, 3), spelled(1, 2, 3, 3), spelled(3, 3, 3, 3)])
    lengths = torch.tensor([4, 3, 4])
    scorer = CtcScorer([[]] * 4 + [np.array([1, 2, 3]), [2, 1], [0]])
    both = scorer.observe(CtcOutput(logits, lengths, conv), batch_of(1, 1, 0))
    assert both == [
        (4, {"sequence": [1, 2, 3], "conv": [3]}), (5, {"sequence": [2], "conv": [1, 2, 3]}),
    ]  # fmt: skip
    assert scorer.targets[4] == [1, 2, 3]
    assert (scorer.main, scorer.higher_is_better) == ("wer", False)
    rates = {"wer_sequence": 1 / 5, "wer_conv": 4 / 5}
    assert scorer.score(both) == pytest.approx({"wer": 1 / 5, **rates})
    scorer.head = "conv"
    assert scorer.score(both) == pytest.approx({"wer": 4 / 5, **rates})
    assert scorer.score(both[:1]) == pytest.approx(
        {"wer": 2 / 3, "wer_sequence": 0, "wer_conv": 2 / 3}
    )
    alone = scorer.observe(CtcOutput(logits, lengths), batch_of(1, 1, 1))
    assert [list(value) for _, value in alone] == [["sequence"]] * 3


def test_the_decoder_is_the_one_asked_for() -> None:
    # Blank is likeliest at each step, but 1 has more ways to come about.
    logits = torch.tensor([[[0.6, 0.4], [0.6, 0.4]]]).log()
    output = CtcOutput(logits, torch.tensor([2]))

    def said(**options: Any) -> Any:
        return CtcScorer([], **options).observe(output, batch_of(1))[0][1]["sequence"]

    assert said() == said(decoder="greedy") == []
    assert said(decoder="beam") == [1]
    assert said(decoder="beam", beam_width=1) == []
    torch.manual_seed(5)
    loud = torch.randn(1, 6, 4) * 3  # no probabilities yet: steps differ in their sum
    output = CtcOutput(loud, torch.tensor([6]))
    assert said(decoder="beam") == decode_beam(loud[0].log_softmax(-1).numpy()) == [1]
    usual = CtcScorer([])
    assert (usual.head, usual.decoder, usual.beam_width) == ("", "greedy", 10)


def test_the_best_head_is_the_one_with_fewest_errors() -> None:
    assert best_head({"wer": 0.1, "wer_sequence": 0.3, "wer_conv": 0.2}) == "conv"
    assert best_head({"wer_sequence": 0.2, "wer_conv": 0.3}) == "sequence"
    assert best_head({"wer_conv": 0.3}) == "conv"
    assert best_head({"accuracy": 1.0}) == ""
