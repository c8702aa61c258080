from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from posemill.errors import ConfigError
from posemill.training.data.batches import Batch, Draw, collate
from posemill.training.data.datasets import Sample
from posemill.training.models.base import CtcOutput
from posemill.training.tasks.losses import CrossEntropy, build_loss, can_spell


def make_batch(targets: list[Any], frames: int = 6, weights: list[float] | None = None) -> Batch:
    samples = [
        Sample(np.ones((frames, 2, 2), np.float32), np.ones((frames, 2), bool), target)
        for target in targets
    ]
    draws = [Draw(i, 0, w) for i, w in enumerate(weights or [1.0] * len(targets))]
    return collate(samples, draws)


def test_cross_entropy_is_a_sum_and_a_count() -> None:
    logits = torch.randn(4, 3)
    batch = make_batch([0, 2, 1, 1])
    total, count = build_loss("classify", label_smoothing=0.1)(logits, batch)
    assert count == 4
    expected = F.cross_entropy(logits, batch.targets, label_smoothing=0.1)
    torch.testing.assert_close(total / count, expected)


def test_clips_that_fill_up_do_not_count() -> None:
    logits = torch.randn(3, 4)
    total, count = build_loss("classify")(logits, make_batch([0, 1, 2], weights=[1, 0, 1]))
    assert count == 2
    each = F.cross_entropy(logits, torch.tensor([0, 1, 2]), reduction="none")
    torch.testing.assert_close(total, each[0] + each[2])


def test_the_parts_of_a_batch_add_up_to_the_whole() -> None:
    loss = build_loss("ctc")
    targets = [np.array([1, 2]), np.array([3]), np.array([2, 2, 1])]
    logits = torch.randn(3, 6, 4)
    lengths = torch.tensor([6, 4, 6])
    whole, count = loss(CtcOutput(logits, lengths), make_batch(targets))
    parts = [
        loss(CtcOutput(logits[i : i + 1], lengths[i : i + 1]), make_batch([targets[i]]))
        for i in range(3)
    ]
    torch.testing.assert_close(whole, torch.stack([part[0] for part in parts]).sum())
    assert count == sum(part[1] for part in parts) == 3


def test_both_heads_and_their_divergence_are_added() -> None:
    batch = make_batch([np.array([1, 2])])
    logits, conv = torch.randn(1, 6, 4), torch.randn(1, 6, 4)
    lengths = torch.tensor([5])
    one, _ = build_loss("ctc")(CtcOutput(logits, lengths), batch)
    other, _ = build_loss("ctc")(CtcOutput(conv, lengths), batch)
    both, _ = build_loss("ctc", conv_weight=0.5)(CtcOutput(logits, lengths, conv), batch)
    torch.testing.assert_close(both, one + 0.5 * other)
    with_kl, _ = build_loss("ctc", conv_weight=0.5, distill_weight=10.0)(
        CtcOutput(logits, lengths, conv), batch
    )
    student = (conv[0, :5] / 8).log_softmax(-1)
    teacher = (logits[0, :5] / 8).softmax(-1)
    expected = F.kl_div(student, teacher, reduction="batchmean")
    torch.testing.assert_close(with_kl - both, 10 * expected, rtol=1e-3, atol=1e-5)


def test_the_teacher_learns_nothing_from_the_divergence() -> None:
    logits = torch.randn(1, 6, 4, requires_grad=True)
    conv = torch.randn(1, 6, 4, requires_grad=True)
    batch = make_batch([np.array([1])])
    lengths = torch.tensor([6])
    plain, _ = build_loss("ctc", conv_weight=0.0)(CtcOutput(logits, lengths, conv), batch)
    (before,) = torch.autograd.grad(plain, logits)
    total, _ = build_loss("ctc", conv_weight=0.0, distill_weight=5.0)(
        CtcOutput(logits, lengths, conv), batch
    )
    after, student = torch.autograd.grad(total, [logits, conv])
    torch.testing.assert_close(before, after)
    assert student.abs().sum() > 0


def test_the_usual_losses() -> None:
    plain, ctc = build_loss("classify"), build_loss("ctc")
    assert isinstance(plain, CrossEntropy)
    assert plain.label_smoothing == CrossEntropy().label_smoothing == 0.0
    assert vars(ctc) == {"conv_weight": 1.0, "distill_weight": 0.0, "temperature": 8.0}
    options = {"conv_weight": 0.0, "distill_weight": 2.0, "temperature": 0.5}
    assert vars(build_loss("ctc", **options)) == options


def test_the_loss_of_a_clip_is_that_of_a_gloss_and_padding_has_no_part_in_it() -> None:
    batch = make_batch([np.array([1, 2])])
    logits, conv = torch.randn(1, 6, 4), torch.randn(1, 6, 4)
    scores = logits.log_softmax(-1).transpose(0, 1)
    lengths = torch.tensor([5])
    expected = F.ctc_loss(scores, batch.targets, lengths, torch.tensor([2]), reduction="sum") / 2
    total, _ = build_loss("ctc")(CtcOutput(logits, lengths), batch)
    torch.testing.assert_close(total, expected)
    distils = build_loss("ctc", distill_weight=3.0)
    before, _ = distils(CtcOutput(logits, lengths, conv), batch)
    logits[:, 5], conv[:, 5] = 50.0, torch.tensor([9.0, 0, 0, 0])
    after, _ = distils(CtcOutput(logits, lengths, conv), batch)
    torch.testing.assert_close(before, after)
    with pytest.raises(ValueError, match="the model has no conv head to distil into"):
        distils._divergence(CtcOutput(logits, lengths))  # type: ignore[attr-defined]


def test_a_clip_without_glosses_is_all_blank() -> None:
    logits = torch.randn(1, 6, 4)
    batch = make_batch([np.zeros(0, np.int64)])
    total, count = build_loss("ctc")(CtcOutput(logits, torch.tensor([6])), batch)
    torch.testing.assert_close(total, -logits.log_softmax(-1)[0, :, 0].sum())
    assert count == 1


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("classify", {"label_smoothing": 1.0}, "label_smoothing: expected 0 to below 1"),
        ("classify", {"conv_weight": 1.0}, "classify has no loss option 'conv_weight'"),
        ("ctc", {"kl": 1.0}, "ctc has no loss option 'kl'; it has conv_weight"),
        ("classify", {"label_smoothing": -0.1}, "label_smoothing: expected 0 to below 1, got -0.1"),
        ("ctc", {"temperature": 0.0}, "ctc loss: expected conv_weight >= 0.* got 1.0, 0.0, 0.0"),
        ("ctc", {"conv_weight": -1.0}, "ctc loss: .* got -1.0, 0.0, 8.0"),
        ("ctc", {"distill_weight": -1.0}, "ctc loss: .* got 1.0, -1.0, 8.0"),
    ],
)
def test_wrong_options_are_refused(task: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_loss(task, **options)


def test_clips_too_short_for_their_glosses_do_not_hide_as_a_loss_of_nothing() -> None:
    # Two equal glosses need a blank between them: three steps.
    targets = [np.array([1, 2]), np.array([2, 2]), np.array([1, 2, 3, 1])]
    steps, logits = torch.tensor([2, 2, 3]), torch.randn(3, 3, 4)
    batch = make_batch(targets)
    assert can_spell(steps, batch.targets, batch.target_lengths).tolist() == [True, False, False]
    assert can_spell(steps + 1, batch.targets, batch.target_lengths).all()
    total, count = build_loss("ctc")(CtcOutput(logits, steps), batch)
    alone, _ = build_loss("ctc")(CtcOutput(logits[:1], steps[:1]), make_batch(targets[:1]))
    assert count == 1
    torch.testing.assert_close(total, alone)
