"""What is learned: the loss of a batch, what a model says of each sample, the scores of a set."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posemill.errors import ConfigError
from posemill.messages import Message
from posemill.records import IntArray
from posemill.training.data.batches import Batch
from posemill.training.models.base import CtcOutput, steps_mask
from posemill.training.tasks.metrics import (
    accuracy,
    confusion_matrix,
    decode_beam,
    decode_greedy,
    word_error_rate,
)

HEADS = ("sequence", "conv")
_CTC_OPTIONS = ("conv_weight", "distill_weight", "temperature")
_TOP = 5


class Row(NamedTuple):
    """What a model said of one sample of a set.

    Args:
        sample: Its index in the set.
        said: The class, the glosses of each head, or `(sum, number)` of each metric of a user.
        true: The class or the glosses; None where metrics know better.
        chance: Probability of the class; None where none is said.
    """

    sample: int
    said: Any
    true: Any = None
    chance: float | None = None


@dataclass(frozen=True)
class Prediction:
    """What a model says about one clip.

    Args:
        clip_id: The clip.
        label: The class, or the glosses with spaces between.
        probability: Of the class; None for glosses.
        top: The likeliest classes with their probabilities, the best first; empty for glosses.
    """

    clip_id: str
    label: str
    probability: float | None = None
    top: list[tuple[str, float]] = field(default_factory=list)

    def title(self) -> str:
        """Return the label, with its probability where it has one."""
        share = "" if self.probability is None else f" {self.probability:.0%}"
        return f"{self.label or 'nothing'}{share}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for JSON."""
        return asdict(self)


class Task(ABC):
    """Base of what a training can learn.

    Losses are a sum over samples and their number, so that accumulation and processes add up
    exactly.
    """

    main = "loss"  # the score that chooses the best weights
    higher_is_better = False
    is_own = False  # whether it is a user's, by `fit`
    is_sequence = False  # whether a sample has several labels, one after the other
    head = ""  # of a model with several: the one whose answer counts

    def call(self, model: nn.Module, batch: Batch) -> Any:
        """Return what a model says of a batch."""
        return model(*batch.inputs)

    @abstractmethod
    def loss(self, output: Any, batch: Batch) -> tuple[Tensor, Tensor | float]:
        """Return `(sum over samples, number of samples)`."""

    @abstractmethod
    def observe(self, output: Any, batch: Batch) -> list[Row]:
        """Return a row for each sample of the batch that counts."""

    @abstractmethod
    def score(self, rows: Sequence[Row]) -> dict[str, float]:
        """Return the scores of a set; `main` is among them, unless it is the loss."""

    def is_right(self, row: Row) -> bool:
        """Return whether what was said is true."""
        return row.true is None or bool(row.said == row.true)

    def describe(self, row: Row, names: Sequence[str]) -> tuple[str, str]:
        """Return what was said and what is true, in words, with the names of the classes."""
        return "", ""

    def confusion(self, rows: Sequence[Row], num_classes: int) -> IntArray | None:
        """Return `(classes, classes)` counts, row the true class; None where nothing classifies."""
        return None

    def sample_values(self, rows: Sequence[Row]) -> list[dict[str, float]]:
        """Return `{"index": …, metric: value}` of each sample, where metrics have one."""
        return []

    def choose_head(self, scores: Mapping[str, float]) -> Task:
        """Return the task with the head that has the best scores (of dev)."""
        return self

    def answer(self, output: Any, names: Sequence[str], clip_id: str) -> Prediction:
        """Return what the output of a batch of one clip says of it."""
        raise NotImplementedError


class Classify(Task):
    """Cross entropy, and the share of samples whose likeliest class is the true one."""

    main = "accuracy"
    higher_is_better = True

    def __init__(self, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def loss(self, output: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the sum and the count for logits `(B, C)`."""
        each = F.cross_entropy(
            output.float(), batch.targets, reduction="none", label_smoothing=self.label_smoothing
        )
        return (each * batch.weights).sum(), batch.weights.sum()

    def observe(self, output: Tensor, batch: Batch) -> list[Row]:
        """Return the likeliest class of each sample."""
        best = output.softmax(-1).max(-1)
        columns = (batch.indices, best.indices, batch.targets, best.values)
        rows = map(Row._make, zip(*(column.tolist() for column in columns), strict=True))
        return [row for row, weight in zip(rows, batch.weights.tolist(), strict=True) if weight]

    def score(self, rows: Sequence[Row]) -> dict[str, float]:
        """Return the accuracy."""
        return {"accuracy": accuracy([row.said for row in rows], [row.true for row in rows])}

    def describe(self, row: Row, names: Sequence[str]) -> tuple[str, str]:
        """Return both classes."""
        return names[row.said], names[row.true]

    def confusion(self, rows: Sequence[Row], num_classes: int) -> IntArray | None:
        """Return the counts of true and predicted classes."""
        said, true = ([getattr(row, name) for row in rows] for name in ("said", "true"))
        return confusion_matrix(said, true, num_classes)

    def answer(self, output: Tensor, names: Sequence[str], clip_id: str) -> Prediction:
        """Return the likeliest classes with their probabilities."""
        best = output.float().softmax(-1)[0].cpu().topk(min(_TOP, len(names)))
        likeliest = [names[index] for index in best.indices.tolist()]
        chances = [round(value, 6) for value in best.values.tolist()]
        return Prediction(
            clip_id, likeliest[0], chances[0], list(zip(likeliest, chances, strict=True))
        )


class Ctc(Task):
    """CTC of the sequence head, and of the conv head where there is one; the word error rate.

    A row says `{head: glosses}`. The score `wer` is that of `head`; where it is not chosen yet (on
    dev), that of the better head, which is then the one to use: a head is never chosen on the split
    it is reported for.

    Args:
        conv_weight: Weight of the conv head's CTC; 0 leaves that head out.
        distill_weight: Weight of the divergence of the conv head from the sequence head.
        temperature: Of both distributions in the divergence.
        decoder: `greedy` or `beam`; greedy until a head is chosen.
        beam_width: Of the beam decoder.
        head: The head chosen on dev; empty to choose by the scores.
    """

    main = "wer"
    is_sequence = True

    def __init__(
        self,
        conv_weight: float = 1.0,
        distill_weight: float = 0.0,
        temperature: float = 8.0,
        *,
        decoder: str = "greedy",
        beam_width: int = 10,
        head: str = "",
    ) -> None:
        self.conv_weight, self.distill_weight = conv_weight, distill_weight
        self.temperature = temperature
        self.decoder, self.beam_width, self.head = decoder, beam_width, head

    def loss(self, output: CtcOutput, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the sum over clips of the loss per gloss, and the number of clips.

        A clip with fewer steps than its glosses need has an infinite loss: it counts as none.
        """
        weights = batch.weights * can_spell(output.lengths, batch.targets, batch.target_lengths)
        each = _ctc_loss(output.logits, output.lengths, batch)
        if output.conv_logits is not None:
            if self.conv_weight:
                conv = _ctc_loss(output.conv_logits, output.lengths, batch)
                each = each + self.conv_weight * conv
            if self.distill_weight:
                each = each + self.distill_weight * self._divergence(output, output.conv_logits)
        return (each * weights).sum(), weights.sum()

    def _divergence(self, output: CtcOutput, conv_logits: Tensor) -> Tensor:
        """Mean over a clip's steps of KL(sequence || conv); the sequence head is the teacher."""
        inside = steps_mask(output.lengths, output.logits.shape[1])
        teacher = (output.logits.detach().float() / self.temperature).log_softmax(-1)
        student = (conv_logits.float() / self.temperature).log_softmax(-1)
        apart = F.kl_div(student, teacher, reduction="none", log_target=True).sum(-1)
        return (apart * inside).sum(1) / output.lengths

    def observe(self, output: CtcOutput, batch: Batch) -> list[Row]:
        """Return the glosses every head reads out of each sample."""
        columns = (batch.indices, batch.targets, batch.target_lengths, batch.weights)
        table = zip(self._read(output), *(column.tolist() for column in columns), strict=True)
        return [
            Row(index, glosses, target[:length])
            for glosses, index, target, length, weight in table
            if weight
        ]

    def _read(self, output: CtcOutput) -> list[dict[str, list[int]]]:
        """Return `{head: glosses}` of each sample."""
        heads = {"sequence": output.logits, "conv": output.conv_logits}
        scores = {
            head: logits.float().log_softmax(-1).cpu().numpy()
            for head, logits in heads.items()
            if logits is not None
        }
        is_beam = self.head and self.decoder == "beam"
        decode = partial(decode_beam, beam_width=self.beam_width) if is_beam else decode_greedy
        return [
            {head: decode(table[row, :length]) for head, table in scores.items()}
            for row, length in enumerate(output.lengths.tolist())
        ]

    def score(self, rows: Sequence[Row]) -> dict[str, float]:
        """Return `wer`, and `wer_<head>` of every head."""
        true = [row.true for row in rows]
        rates = {
            f"wer_{head}": word_error_rate([row.said[head] for row in rows], true)
            for head in HEADS
            if head in rows[0].said
        }
        chosen = f"wer_{self.head}" if self.head else min(rates, key=lambda name: rates[name])
        return {"wer": rates[chosen], **rates}

    def is_right(self, row: Row) -> bool:
        """Return whether all glosses are the true ones."""
        return self._said(row) == list(row.true)

    def _said(self, row: Row) -> list[int]:
        return list(row.said[self.head or HEADS[0]])

    def describe(self, row: Row, names: Sequence[str]) -> tuple[str, str]:
        """Return the glosses of the head that counts, and the true ones."""
        said = " ".join(names[gloss] for gloss in self._said(row))
        return said, " ".join(names[gloss] for gloss in row.true)

    def choose_head(self, scores: Mapping[str, float]) -> Ctc:
        """Return the task with the head of the lowest error; that of sequences without scores."""
        rates = {head: scores[f"wer_{head}"] for head in HEADS if f"wer_{head}" in scores}
        chosen = copy.copy(self)
        chosen.head = min(rates, key=lambda head: rates[head]) if rates else HEADS[0]
        return chosen

    def answer(self, output: CtcOutput, names: Sequence[str], clip_id: str) -> Prediction:
        """Return the glosses with spaces between."""
        (glosses,) = self._read(output)
        said = " ".join(names[gloss] for gloss in glosses[self.head or HEADS[0]])
        return Prediction(clip_id, said)


def _ctc_loss(logits: Tensor, lengths: Tensor, batch: Batch) -> Tensor:
    each = F.ctc_loss(
        logits.float().log_softmax(-1).transpose(0, 1),
        batch.targets,
        lengths,
        batch.target_lengths,
        blank=0,
        reduction="none",
        zero_infinity=True,
    )
    per_gloss: Tensor = each / batch.target_lengths.clamp(min=1)
    return per_gloss


def can_spell(steps: Tensor, targets: Tensor, target_lengths: Tensor) -> Tensor:
    """Return `(B,)`: whether CTC can fit the glosses `(B, L)` into so many output steps `(B,)`.

    Each gloss takes a step, and a blank stands between two that are equal.
    """
    inside = torch.arange(1, targets.shape[1], device=targets.device) < target_lengths[:, None]
    repeats = ((targets[:, 1:] == targets[:, :-1]) & inside).sum(1)
    return steps >= target_lengths + repeats


def make_task(config: Any, *, head: str = "") -> Task:
    """Return the task that a `TrainConfig` names; with the head that was chosen for ctc."""
    options = config.loss_options
    known = _CTC_OPTIONS if config.task == "ctc" else ()
    for name in options:
        if name not in known:
            raise ConfigError(
                "{task} has no loss option {name!r}; it has {options}",
                task=config.task,
                name=name,
                options=", ".join(known) or Message("none"),
            )
    if config.task == "classify":
        return Classify(config.label_smoothing)
    return Ctc(**options, decoder=config.ctc_decoder, beam_width=config.beam_width, head=head)


def beats(
    scores: Mapping[str, float], best: Mapping[str, float], main: str, *, is_higher: bool
) -> bool:
    """Return True where scores are better than the best so far, or equal with a lower loss.

    On a small validation split many evaluations are equal: the first of them is seldom the best.
    """
    if main not in best or best[main] != best[main]:
        return True  # the first, or the first that is a number
    new, old = scores[main], best[main]
    if new == old:
        return scores.get("loss", 0.0) < best.get("loss", 0.0)
    return new > old if is_higher else new < old
