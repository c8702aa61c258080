"""Losses as a sum over clips and their number, so that accumulation and ranks add up exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from posemill.errors import ConfigError
from posemill.training.data.batches import Batch
from posemill.training.models.base import CtcOutput, steps_mask

Loss = Callable[[Any, Batch], tuple[torch.Tensor, torch.Tensor]]


class CrossEntropy:
    """Cross entropy with label smoothing: `(sum over clips, number of clips)`.

    Args:
        label_smoothing: Share of the target spread over all classes.
    """

    def __init__(self, label_smoothing: float = 0.0) -> None:
        if not 0 <= label_smoothing < 1:
            raise ConfigError(f"label_smoothing: expected 0 to below 1, got {label_smoothing}")
        self.label_smoothing = label_smoothing

    def __call__(self, output: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the sum and the count for logits `(B, C)`."""
        each = F.cross_entropy(
            output.float(), batch.targets, reduction="none", label_smoothing=self.label_smoothing
        )
        return (each * batch.weights).sum(), batch.weights.sum()


class Ctc:
    """CTC of the sequence head, and of the conv head where there is one, with distillation.

    Args:
        conv_weight: Weight of the conv head's CTC; 0 leaves that head out.
        distill_weight: Weight of the divergence of the conv head from the sequence head.
        temperature: Of both distributions in the divergence.
    """

    def __init__(
        self, conv_weight: float = 1.0, distill_weight: float = 0.0, temperature: float = 8.0
    ) -> None:
        if conv_weight < 0 or distill_weight < 0 or temperature <= 0:
            raise ConfigError(
                "ctc loss: expected conv_weight >= 0, distill_weight >= 0, temperature > 0, got "
                f"{conv_weight}, {distill_weight}, {temperature}"
            )
        self.conv_weight, self.distill_weight = conv_weight, distill_weight
        self.temperature = temperature

    def __call__(self, output: CtcOutput, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the sum over clips of the loss per gloss, and the number of clips.

        A clip with fewer steps than its glosses need has an infinite loss: it counts as none.
        """
        weights = batch.weights * can_spell(output.lengths, batch.targets, batch.target_lengths)
        each = self._ctc(output.logits, output.lengths, batch)
        if output.conv_logits is not None:
            if self.conv_weight:
                conv = self._ctc(output.conv_logits, output.lengths, batch)
                each = each + self.conv_weight * conv
            if self.distill_weight:
                each = each + self.distill_weight * self._divergence(output)
        return (each * weights).sum(), weights.sum()

    def _ctc(self, logits: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        each = F.ctc_loss(
            logits.float().log_softmax(-1).transpose(0, 1),
            batch.targets,
            lengths,
            batch.target_lengths,
            blank=0,
            reduction="none",
            zero_infinity=True,
        )
        return each / batch.target_lengths.clamp(min=1)

    def _divergence(self, output: CtcOutput) -> torch.Tensor:
        """Mean over a clip's steps of KL(sequence || conv); the sequence head is the teacher."""
        if output.conv_logits is None:
            raise ValueError("the model has no conv head to distil into")
        inside = steps_mask(output.lengths, output.logits.shape[1])
        teacher = (output.logits.detach().float() / self.temperature).log_softmax(-1)
        student = (output.conv_logits.float() / self.temperature).log_softmax(-1)
        apart = F.kl_div(student, teacher, reduction="none", log_target=True).sum(-1)
        return (apart * inside).sum(1) / output.lengths


def can_spell(
    steps: torch.Tensor, targets: torch.Tensor, target_lengths: torch.Tensor
) -> torch.Tensor:
    """Return `(B,)`: whether CTC can fit the glosses `(B, L)` into so many output steps `(B,)`.

    Each gloss takes a step, and a blank stands between two that are equal.
    """
    inside = torch.arange(1, targets.shape[1], device=targets.device) < target_lengths[:, None]
    repeats = ((targets[:, 1:] == targets[:, :-1]) & inside).sum(1)
    return steps >= target_lengths + repeats


def build_loss(task: str, *, label_smoothing: float = 0.0, **options: Any) -> Loss:
    """Return the loss of a task: `classify` or `ctc`; options as the class has them."""
    if task == "classify":
        if options:
            raise ConfigError(f"classify has no loss option {next(iter(options))!r}")
        return CrossEntropy(label_smoothing)
    known = ("conv_weight", "distill_weight", "temperature")
    for name in options:
        if name not in known:
            raise ConfigError(f"ctc has no loss option {name!r}; it has {', '.join(known)}")
    return Ctc(**options)
