"""From outputs to predictions and scores, for each task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from posemill.training.data.batches import Batch
from posemill.training.models.base import CtcOutput
from posemill.training.tasks.ctc_decoding import decode_beam, decode_greedy
from posemill.training.tasks.metrics import accuracy, word_error_rate
from posemill.training.tasks.workload import Row

HEADS = ("sequence", "conv")


class ClassScorer:
    """Accuracy. A row's value is `(class, probability)`.

    Args:
        targets: Class of each sample of the split.
    """

    main = "accuracy"
    higher_is_better = True

    def __init__(self, targets: Sequence[int]) -> None:
        self.targets = np.asarray(targets, np.int64)

    def observe(self, output: torch.Tensor, batch: Batch) -> list[Row]:
        """Return the likeliest class of each sample."""
        best = output.softmax(-1).max(-1)
        table = zip(
            batch.indices.tolist(),
            best.indices.tolist(),
            best.values.tolist(),
            batch.weights.tolist(),
            strict=True,
        )
        return [(index, (label, chance)) for index, label, chance, weight in table if weight]

    def score(self, rows: Sequence[Row]) -> dict[str, float]:
        """Return the accuracy."""
        predicted = [value[0] for _, value in rows]
        expected = self.targets[np.asarray([index for index, _ in rows], np.int64)]
        return {"accuracy": accuracy(predicted, expected)}


class CtcScorer:
    """Word error rate of every head. A row's value is `{head: glosses}`.

    `wer` is that of `head`; where it is not chosen yet (on dev), that of the better head, which is
    then the one to use: a head is never chosen on the split it is reported for.

    Args:
        targets: Gloss indices of each sample of the split.
        head: The head chosen on dev; empty to choose here.
        decoder: `greedy` or `beam`.
        beam_width: Of the beam decoder.
    """

    main = "wer"
    higher_is_better = False

    def __init__(
        self,
        targets: Sequence[Any],
        *,
        head: str = "",
        decoder: str = "greedy",
        beam_width: int = 10,
    ) -> None:
        self.targets = [np.asarray(target).tolist() for target in targets]
        self.head, self.decoder, self.beam_width = head, decoder, beam_width

    def observe(self, output: CtcOutput, batch: Batch) -> list[Row]:
        """Return the glosses every head reads out of each sample."""
        heads = {"sequence": output.logits, "conv": output.conv_logits}
        scores = {
            head: logits.log_softmax(-1).cpu().numpy()
            for head, logits in heads.items()
            if logits is not None
        }
        lengths, weights = output.lengths.tolist(), batch.weights.tolist()
        return [
            (index, {head: self._decode(s[row, : lengths[row]]) for head, s in scores.items()})
            for row, index in enumerate(batch.indices.tolist())
            if weights[row]
        ]

    def _decode(self, log_probs: Any) -> list[int]:
        if self.decoder == "beam":
            return decode_beam(log_probs, self.beam_width)
        return decode_greedy(log_probs)

    def score(self, rows: Sequence[Row]) -> dict[str, float]:
        """Return `wer`, and `wer_<head>` of every head."""
        expected = [self.targets[index] for index, _ in rows]
        heads = [head for head in HEADS if head in rows[0][1]]
        rates = {
            f"wer_{head}": word_error_rate([value[head] for _, value in rows], expected).rate
            for head in heads
        }
        chosen = f"wer_{self.head}" if self.head else min(rates, key=lambda name: rates[name])
        return {"wer": rates[chosen], **rates}


def best_head(scores: dict[str, float]) -> str:
    """Return the head with the lowest error among the scores of a dev split; empty for none."""
    rates = {head: scores[f"wer_{head}"] for head in HEADS if f"wer_{head}" in scores}
    return min(rates, key=lambda head: rates[head]) if rates else ""


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
