"""How good predictions are: accuracy, confusion, per class; word error rate with its parts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from posemill.records import IntArray


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
        return WordErrors(
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
            self.num_words + other.num_words,
        )

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
