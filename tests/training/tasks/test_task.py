"""Losses as sums and counts, what a model says of samples, and the scores of all of them."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from posemill.training.config.train_config import TrainConfig
from posemill.training.data.batches import Draw
from posemill.training.data.keypoint_clips import Sample, collate
from posemill.training.models.base import CtcOutput
from posemill.training.tasks.metrics import decode_beam
from posemill.training.tasks.task import Classify, Ctc, Row, beats, can_spell, make_task


def loss_of(task, *, label_smoothing=0.0, **options):
    """Return the loss of a task as settings name it."""
    config = TrainConfig(task=task, label_smoothing=label_smoothing, loss_options=options)
    return make_task(config).loss


def make_batch(targets, weights=None):
    """Return a batch of clips 4, 5, … with six frames each."""
    points, mask = np.ones((6, 2, 2), np.float32), np.ones((6, 2), bool)
    samples = [Sample(points, mask, np.array(target)) for target in targets]
    draws = [Draw(4 + i, 0, w) for i, w in enumerate(weights or [1.0] * len(targets))]
    return collate(samples, draws)


def test_cross_entropy_is_a_sum_and_a_count_of_clips_that_do_not_fill_up():
    logits = torch.randn(4, 3)
    batch = make_batch([0, 2, 1, 1])
    total, count = loss_of("classify", label_smoothing=0.1)(logits, batch)
    assert count == 4
    expected = F.cross_entropy(logits, batch.targets, label_smoothing=0.1)
    torch.testing.assert_close(total / count, expected)
    total, count = loss_of("classify")(logits, make_batch([0, 2, 1, 1], [1, 0, 1, 0]))
    assert count == 2
    losses = F.cross_entropy(logits, batch.targets, reduction="none")
    torch.testing.assert_close(total, losses[0] + losses[2])


def test_the_parts_of_a_batch_add_up_to_the_whole():
    loss = loss_of("ctc")
    targets = [[1, 2], [3], [2, 2, 1]]
    logits = torch.randn(3, 6, 4)
    lengths = torch.tensor([6, 4, 6])
    whole, count = loss(CtcOutput(logits, lengths), make_batch(targets))
    parts = [
        loss(CtcOutput(logits[i : i + 1], lengths[i : i + 1]), make_batch([targets[i]]))
        for i in range(3)
    ]
    torch.testing.assert_close(whole, torch.stack([part[0] for part in parts]).sum())
    assert count == sum(part[1] for part in parts) == 3


def test_both_heads_and_their_divergence_are_added_which_teaches_the_conv_head_only():
    batch = make_batch([[1, 2]])
    logits, conv = (torch.randn(1, 6, 4, requires_grad=True) for _ in range(2))
    lengths = torch.tensor([5])
    one, _ = loss_of("ctc")(CtcOutput(logits, lengths), batch)
    other, _ = loss_of("ctc")(CtcOutput(conv, lengths), batch)
    both, _ = loss_of("ctc", conv_weight=0.5)(CtcOutput(logits, lengths, conv), batch)
    torch.testing.assert_close(both, one + 0.5 * other)
    with_kl, _ = loss_of("ctc", conv_weight=0.5, distill_weight=10.0)(
        CtcOutput(logits, lengths, conv), batch
    )
    student = (conv[0, :5] / 8).log_softmax(-1)
    expected = F.kl_div(student, (logits[0, :5] / 8).softmax(-1), reduction="batchmean")
    torch.testing.assert_close(with_kl - both, 10 * expected, rtol=1e-3, atol=1e-5)
    (before,) = torch.autograd.grad(one, logits, retain_graph=True)
    (after,) = torch.autograd.grad(with_kl, logits)
    torch.testing.assert_close(before, after)


def test_the_loss_of_a_clip_is_that_of_a_gloss_and_padding_has_no_part_in_it():
    batch = make_batch([[1, 2]])
    logits, conv = torch.randn(1, 6, 4), torch.randn(1, 6, 4)
    scores = logits.log_softmax(-1).transpose(0, 1)
    lengths = torch.tensor([5])
    expected = F.ctc_loss(scores, batch.targets, lengths, torch.tensor([2]), reduction="sum") / 2
    total, _ = loss_of("ctc")(CtcOutput(logits, lengths), batch)
    torch.testing.assert_close(total, expected)
    distils = loss_of("ctc", distill_weight=3.0)
    before, _ = distils(CtcOutput(logits, lengths, conv), batch)
    logits[:, 5], conv[:, 5] = 50.0, torch.tensor([9.0, 0, 0, 0])
    after, _ = distils(CtcOutput(logits, lengths, conv), batch)
    torch.testing.assert_close(before, after)


def test_a_clip_without_glosses_is_all_blank():
    logits = torch.randn(1, 6, 4)
    batch = make_batch([np.zeros(0, np.int64)])
    total, count = loss_of("ctc")(CtcOutput(logits, torch.tensor([6])), batch)
    torch.testing.assert_close(total, -logits.log_softmax(-1)[0, :, 0].sum())
    assert count == 1


def test_clips_too_short_for_their_glosses_do_not_hide_as_a_loss_of_nothing():
    # Two equal glosses need a blank between them: three steps.
    targets = [[1, 2], [2, 2], [1, 2, 3, 1]]
    steps, logits = torch.tensor([2, 2, 3]), torch.randn(3, 3, 4)
    batch = make_batch(targets)
    assert can_spell(steps, batch.targets, batch.target_lengths).tolist() == [True, False, False]
    assert can_spell(steps + 1, batch.targets, batch.target_lengths).all()
    total, count = loss_of("ctc")(CtcOutput(logits, steps), batch)
    alone, _ = loss_of("ctc")(CtcOutput(logits[:1], steps[:1]), make_batch(targets[:1]))
    assert count == 1
    torch.testing.assert_close(total, alone)


def test_higher_or_lower_is_better_as_the_score_says_and_between_equals_a_lower_loss():
    high, low = {"wer": 0.5, "loss": 1.0}, {"wer": 0.2, "loss": 2.0}
    assert beats(high, low, "wer", is_higher=True)
    assert not beats(high, low, "wer", is_higher=False)
    assert beats(low, high, "wer", is_higher=False)
    later = {"wer": 0.5, "loss": 0.8}
    assert beats(later, high, "wer", is_higher=True)
    assert not beats(high, later, "wer", is_higher=True)
    assert not beats(high, high, "wer", is_higher=True)


def test_the_likeliest_class_is_said_with_its_chance_by_clips_that_count():
    task = Classify()
    output = torch.tensor([[0.0, 3.0], [1.0, 0.0], [2.0, 0.0]])
    rows = task.observe(output, make_batch([1, 0, 1], [1, 0, 1]))
    assert [(row.sample, row.said, row.true) for row in rows] == [(4, 1, 1), (6, 0, 1)]
    assert rows[0].chance == pytest.approx(1 / (1 + math.exp(-3.0)))
    assert task.score(rows) == {"accuracy": 0.5}
    assert (task.main, task.higher_is_better) == ("accuracy", True)
    assert [task.is_right(row) for row in rows] == [True, False]
    assert task.describe(rows[1], ("yes", "no"))[:2] == ("yes", "no")
    answer = task.answer(output[:1], ("yes", "no"), "a")
    assert (answer.label, [name for name, _ in answer.top]) == ("no", ["no", "yes"])
    assert answer.probability == pytest.approx(rows[0].chance, abs=1e-6)


def spelled(*path):
    """Return logits `(1, steps, 4)` whose likeliest label of each step is given."""
    return torch.eye(4)[list(path)][None] * 9


def test_glosses_are_read_from_every_head_up_to_the_end_of_a_clip():
    logits = torch.cat([spelled(1, 0, 2, 3), spelled(2, 2, 0, 3), spelled(3, 3, 3, 3)])
    conv = torch.cat([spelled(0, 0, 0, 3), spelled(1, 2, 3, 3), spelled(3, 3, 3, 3)])
    lengths = torch.tensor([4, 3, 4])
    targets = [[1, 2, 3], [2, 1], [0]]
    task = Ctc()
    both = task.observe(CtcOutput(logits, lengths, conv), make_batch(targets, [1, 1, 0]))
    assert both == [
        Row(4, {"sequence": [1, 2, 3], "conv": [3]}, [1, 2, 3]),
        Row(5, {"sequence": [2], "conv": [1, 2, 3]}, [2, 1]),
    ]
    assert (task.main, task.higher_is_better) == ("wer", False)
    assert [task.is_right(row) for row in both] == [True, False]
    rates = {"wer_sequence": 1 / 5, "wer_conv": 4 / 5}
    assert task.score(both) == pytest.approx({"wer": 1 / 5, **rates})
    chosen = Ctc(head="conv")
    assert chosen.score(both) == pytest.approx({"wer": 4 / 5, **rates})
    assert chosen.score(both[:1]) == pytest.approx(
        {"wer": 2 / 3, "wer_sequence": 0, "wer_conv": 2 / 3}
    )
    assert chosen.describe(both[0], ("", "a", "b", "c"))[:2] == ("c", "a b c")
    alone = task.observe(CtcOutput(logits, lengths), make_batch(targets))
    assert [list(row.said) for row in alone] == [["sequence"]] * 3


def test_the_decoder_asked_for_is_used_once_a_head_is_chosen():
    # Blank is likeliest at each step, but 1 has more ways to come about.
    output = CtcOutput(torch.tensor([[[0.6, 0.4], [0.6, 0.4]]]).log(), torch.tensor([2]))

    def said(**options):
        return Ctc(**options).observe(output, make_batch([[1]]))[0].said["sequence"]

    assert said() == said(head="sequence") == said(decoder="beam") == []
    assert said(decoder="beam", head="sequence") == [1]
    assert said(decoder="beam", head="sequence", beam_width=1) == []
    torch.manual_seed(5)
    loud = torch.randn(1, 6, 4) * 3  # no probabilities yet: steps differ in their sum
    output = CtcOutput(loud, torch.tensor([6]))
    expected = decode_beam(loud[0].log_softmax(-1).numpy())
    assert said(decoder="beam", head="sequence") == expected == [1]
    assert Ctc(decoder="beam", head="sequence").answer(output, ("", "a"), "clip").label == "a"


def test_the_head_of_fewest_errors_on_dev_is_chosen():
    config = TrainConfig(task="ctc", ctc_decoder="beam", beam_width=7)
    task = make_task(config)
    assert (task.head, task.decoder, task.beam_width) == ("", "beam", 7)
    for scores, head in (
        ({"wer": 0.1, "wer_sequence": 0.3, "wer_conv": 0.2}, "conv"),
        ({"wer_sequence": 0.2, "wer_conv": 0.3}, "sequence"),
        ({"wer_conv": 0.3}, "conv"),
        ({}, "sequence"),
    ):
        chosen = task.choose_head(scores)
        assert (chosen.head, chosen.decoder, chosen.beam_width) == (head, "beam", 7)
    assert task.head == "", "which was chosen for a copy"
    assert make_task(config, head="conv").head == "conv"
    classes = make_task(TrainConfig())
    assert classes.choose_head({"accuracy": 1.0}) is classes
    assert (classes.head, classes.is_own) == ("", False)
