"""Glosses out of CTC scores, and how good predictions are: accuracy, confusion, word error rate."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from posemill.records import IntArray

BLANK = 0  # the class that means no label
_NEVER = -math.inf

LogProbs = npt.NDArray[np.floating]  # (steps, classes) of one clip, no padding


def decode_greedy(log_probs: LogProbs) -> list[int]:
    """Return the labels of the likeliest path: repeats joined, blanks left out."""
    path = np.asarray(log_probs).argmax(-1)
    if not len(path):
        return []
    is_new = np.concatenate([[True], path[1:] != path[:-1]])
    return [int(label) for label in path[is_new & (path != BLANK)]]


def decode_beam(log_probs: LogProbs, beam_width: int = 10, *, top_labels: int = 20) -> list[int]:
    """Return the likeliest label sequence found by prefix beam search.

    After each step `beam_width` prefixes are kept. At each step the likeliest `top_labels` are
    tried; the blank always.
    """
    steps = np.asarray(log_probs, np.float64)
    # Of each prefix: log probability of the paths that end in a blank, and in its last label.
    beam: dict[tuple[int, ...], list[float]] = {(): [0.0, _NEVER]}
    for scores in steps:
        labels = np.argsort(scores)[::-1][: top_labels + 1]
        ahead: dict[tuple[int, ...], list[float]] = defaultdict(lambda: [_NEVER, _NEVER])
        for prefix, (in_blank, in_label) in beam.items():
            both = _add(in_blank, in_label)
            same = ahead[prefix]
            same[0] = _add(same[0], both + float(scores[BLANK]))
            if prefix:
                # The same label again, without a blank between, is still the same one.
                same[1] = _add(same[1], in_label + float(scores[prefix[-1]]))
            for label in labels:
                if label == BLANK:
                    continue
                before = in_blank if prefix and prefix[-1] == label else both
                key = (*prefix, int(label))
                ahead[key][1] = _add(ahead[key][1], before + float(scores[label]))
        best = sorted(ahead.items(), key=lambda entry: _add(*entry[1]), reverse=True)
        beam = dict(best[:beam_width])
    likeliest, _ = max(beam.items(), key=lambda entry: _add(*entry[1]))
    return list(likeliest)


def _add(one: float, other: float) -> float:
    """Return log(exp(one) + exp(other))."""
    if one < other:
        one, other = other, one
    if other == _NEVER:
        return one
    return one + math.log1p(math.exp(other - one))


def accuracy(predicted: Sequence[int], expected: Sequence[int]) -> float:
    """Return the share of equal entries; NaN of none."""
    return float(np.mean(np.equal(predicted, expected))) if len(expected) else math.nan


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


def count_word_errors(predicted: Sequence[Hashable], expected: Sequence[Hashable]) -> int:
    """Return the fewest words to swap, leave out or put in between prediction and reference."""
    row = list(range(len(predicted) + 1))
    for number, word in enumerate(expected, 1):
        ahead = [number]
        for column, guess in enumerate(predicted):
            swapped = row[column] + (guess != word)
            ahead.append(min(swapped, row[column + 1] + 1, ahead[column] + 1))
        row = ahead
    return row[-1]


def word_error_rate(
    predicted: Sequence[Sequence[Hashable]], expected: Sequence[Sequence[Hashable]]
) -> float:
    """Return the errors of many clips per reference word, 0.1 for 10 %; NaN without words."""
    num_words = sum(map(len, expected))
    pairs = zip(predicted, expected, strict=True)
    num_errors = sum(count_word_errors(guess, reference) for guess, reference in pairs)
    return num_errors / num_words if num_words else math.nan
