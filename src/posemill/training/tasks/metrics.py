"""Glosses out of CTC scores, and how good predictions are: accuracy, confusion, word error rate."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import astuple, dataclass
from operator import add

import numpy as np
import numpy.typing as npt

from posemill.records import IntArray

BLANK = 0
_NEVER = -math.inf

LogProbs = npt.NDArray[np.floating]


def decode_greedy(log_probs: LogProbs, blank: int = BLANK) -> list[int]:
    """Return the labels of the likeliest path: repeats joined, blanks left out.

    Args:
        log_probs: `(steps, classes)` of one clip, no padding.
        blank: The class that means no label.
    """
    path = np.asarray(log_probs).argmax(-1)
    if not len(path):
        return []
    is_new = np.concatenate([[True], path[1:] != path[:-1]])
    return [int(label) for label in path[is_new & (path != blank)]]


def decode_beam(
    log_probs: LogProbs, beam_width: int = 10, *, blank: int = BLANK, top_labels: int = 20
) -> list[int]:
    """Return the likeliest label sequence found by prefix beam search.

    Args:
        log_probs: `(steps, classes)` of one clip, no padding.
        beam_width: Prefixes kept after each step.
        blank: The class that means no label.
        top_labels: Labels tried at each step, the likeliest; the blank is always tried.
    """
    prefixes = search_prefixes(log_probs, beam_width, blank=blank, top_labels=top_labels)
    return list(prefixes[0][0])


def search_prefixes(
    log_probs: LogProbs, beam_width: int = 10, *, blank: int = BLANK, top_labels: int = 20
) -> list[tuple[tuple[int, ...], float]]:
    """Return the kept label sequences with their log probability, the likeliest first."""
    if beam_width < 1:
        raise ValueError(f"beam_width: expected 1 or more, got {beam_width}")
    steps = np.asarray(log_probs, np.float64)
    # Of each prefix: log probability of the paths that end in a blank, and in its last label.
    beam: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, _NEVER)}
    for scores in steps:
        labels = np.argsort(scores)[::-1][: top_labels + 1]
        ahead: dict[tuple[int, ...], tuple[float, float]] = {}
        for prefix, (in_blank, in_label) in beam.items():
            both = _add(in_blank, in_label)
            _put(ahead, prefix, both + float(scores[blank]), _NEVER)
            if prefix:
                # The same label again, without a blank between, is still the same one.
                _put(ahead, prefix, _NEVER, in_label + float(scores[prefix[-1]]))
            for label in labels:
                if label == blank:
                    continue
                before = in_blank if prefix and prefix[-1] == label else both
                _put(ahead, (*prefix, int(label)), _NEVER, before + float(scores[label]))
        best = sorted(ahead.items(), key=lambda entry: _add(*entry[1]), reverse=True)
        beam = dict(best[:beam_width])
    ranked = [(prefix, _add(*parts)) for prefix, parts in beam.items()]
    return sorted(ranked, key=lambda entry: entry[1], reverse=True)


def _put(
    beam: dict[tuple[int, ...], tuple[float, float]],
    prefix: tuple[int, ...],
    in_blank: float,
    in_label: float,
) -> None:
    old = beam.get(prefix, (_NEVER, _NEVER))
    beam[prefix] = (_add(old[0], in_blank), _add(old[1], in_label))


def _add(one: float, other: float) -> float:
    """Return log(exp(one) + exp(other))."""
    if one < other:
        one, other = other, one
    if other == _NEVER:
        return one
    return one + math.log1p(math.exp(other - one))


def accuracy(predicted: npt.ArrayLike, expected: npt.ArrayLike) -> float:
    """Return the share of equal entries; NaN of none."""
    one, other = np.asarray(predicted), np.asarray(expected)
    if one.shape != other.shape:
        raise ValueError(f"expected as many predictions as targets, got {one.shape}, {other.shape}")
    return float((one == other).mean()) if one.size else float("nan")


def confusion_matrix(
    predicted: npt.ArrayLike, expected: npt.ArrayLike, num_classes: int
) -> IntArray:
    """Return `(classes, classes)` counts: row the true class, column the predicted one."""
    pairs = np.asarray(expected, np.int64) * num_classes + np.asarray(predicted, np.int64)
    return np.bincount(pairs, minlength=num_classes**2).reshape(num_classes, num_classes)


def accuracy_per_class(confusion: IntArray) -> npt.NDArray[np.float64]:
    """Return `(classes,)`: share of each true class that was found; NaN where it has no clip."""
    totals = confusion.sum(1)
    return np.where(totals > 0, confusion.diagonal() / np.maximum(totals, 1), np.nan)


@dataclass(frozen=True)
class WordErrors:
    """Counts of a word error rate; they add up over clips.

    Args:
        substitutions: Words taken for others.
        deletions: Words left out.
        insertions: Words too many.
        num_words: Words of the references.
    """

    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    num_words: int = 0

    def __add__(self, other: WordErrors) -> WordErrors:
        return WordErrors(*map(add, astuple(self), astuple(other)))

    @property
    def rate(self) -> float:
        """Errors per reference word, 0.1 for 10 %; NaN without words."""
        errors = self.substitutions + self.deletions + self.insertions
        return errors / self.num_words if self.num_words else float("nan")


def count_word_errors(predicted: Sequence[Hashable], expected: Sequence[Hashable]) -> WordErrors:
    """Return the fewest edits from the reference to the prediction, by kind, of one clip."""
    # Of each cell: total, substitutions, deletions, insertions on the cheapest way there.
    row = [(column, 0, 0, column) for column in range(len(predicted) + 1)]
    for word in expected:
        ahead = [(row[0][0] + 1, row[0][1], row[0][2] + 1, row[0][3])]
        for column, guess in enumerate(predicted):
            total, swaps, drops, adds = row[column]
            if guess == word:
                ahead.append(row[column])
                continue
            up, left = row[column + 1], ahead[column]
            if total <= up[0] and total <= left[0]:
                ahead.append((total + 1, swaps + 1, drops, adds))
            elif up[0] <= left[0]:
                ahead.append((up[0] + 1, up[1], up[2] + 1, up[3]))
            else:
                ahead.append((left[0] + 1, left[1], left[2], left[3] + 1))
        row = ahead
    _, swaps, drops, adds = row[-1]
    return WordErrors(swaps, drops, adds, len(expected))


def word_error_rate(
    predicted: Sequence[Sequence[Hashable]], expected: Sequence[Sequence[Hashable]]
) -> WordErrors:
    """Return the summed errors of many clips; `.rate` is the corpus' word error rate."""
    if len(predicted) != len(expected):
        raise ValueError(
            f"expected as many predictions as references, got {len(predicted)}, {len(expected)}"
        )
    total = WordErrors()
    for guess, reference in zip(predicted, expected, strict=True):
        total = total + count_word_errors(guess, reference)
    return total
