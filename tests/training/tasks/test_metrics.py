from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posemill.training.tasks.metrics import (
    WordErrors,
    accuracy,
    accuracy_per_class,
    confusion_matrix,
    count_word_errors,
    word_error_rate,
)

sentences = st.lists(st.sampled_from("abcd"), min_size=1, max_size=8)


@given(expected=st.lists(sentences, min_size=1, max_size=4), data=st.data())
@settings(max_examples=150)
def test_the_word_error_rate_is_that_of_jiwer(
    expected: list[list[str]], data: st.DataObject
) -> None:
    jiwer = pytest.importorskip("jiwer")
    predicted = [data.draw(st.lists(st.sampled_from("abcd"), max_size=8)) for _ in expected]
    theirs = jiwer.process_words(
        [" ".join(words) for words in expected], [" ".join(words) for words in predicted]
    )
    ours = word_error_rate(predicted, expected)
    assert ours.rate == pytest.approx(theirs.wer)
    errors = ours.substitutions + ours.deletions + ours.insertions
    assert errors == theirs.substitutions + theirs.deletions + theirs.insertions


def test_errors_are_told_apart() -> None:
    errors = count_word_errors("RAIN FOG SUN SUN".split(), "RAIN SNOW SUN".split())
    assert (errors.substitutions, errors.deletions, errors.insertions) == (1, 0, 1)
    errors = count_word_errors([], "RAIN SNOW".split())
    assert (errors.deletions, errors.rate) == (2, 1.0)
    assert np.isnan(word_error_rate([], []).rate)


@pytest.mark.parametrize(
    ("predicted", "expected", "counts"),
    [
        ("abc", "abc", (0, 0, 0, 3)),
        ("axc", "abc", (1, 0, 0, 3)),
        ("ac", "abc", (0, 1, 0, 3)),
        ("abxc", "abc", (0, 0, 1, 3)),
        ("xabc", "abc", (0, 0, 1, 3)),
        ("bcx", "abc", (0, 1, 1, 3)),
        ("xyz", "ab", (2, 0, 1, 2)),
        ("x", "abc", (1, 2, 0, 3)),
        ("ba", "ab", (2, 0, 0, 2)),  # of equal ways the one with fewer kinds
        ("abc", "", (0, 0, 3, 0)),
        ("", "abc", (0, 3, 0, 3)),
    ],
)
def test_the_fewest_edits_are_counted_by_kind(
    predicted: str, expected: str, counts: tuple[int, ...]
) -> None:
    assert count_word_errors(predicted, expected) == WordErrors(*counts)


def test_errors_add_up_kind_by_kind() -> None:
    total = WordErrors(1, 2, 3, 20) + WordErrors(10, 20, 30, 80)
    assert total == WordErrors(11, 22, 33, 100)
    assert total.rate == 0.66
    assert WordErrors() == WordErrors(0, 0, 0, 0)
    assert word_error_rate(["ab", "x"], ["a", "yz"]) == WordErrors(1, 1, 1, 3)


def test_accuracy_is_the_share_of_equal_entries() -> None:
    assert accuracy([1, 2, 3, 4], [1, 2, 0, 4]) == 0.75
    assert np.isnan(accuracy([], []))


def test_the_confusion_has_true_classes_in_rows() -> None:
    confusion = confusion_matrix([0, 1, 1, 1], [0, 0, 1, 1], 3)
    assert confusion.tolist() == [[1, 1, 0], [0, 2, 0], [0, 0, 0]]
    per_class = accuracy_per_class(confusion)
    assert per_class[:2].tolist() == [0.5, 1.0]
    assert np.isnan(per_class[2])
    assert accuracy_per_class(np.diag([1, 1])).tolist() == [1.0, 1.0], "one clip of each"


def test_counts_that_do_not_match_are_refused() -> None:
    with pytest.raises(ValueError, match="as many predictions as targets"):
        accuracy([1, 2], [1])
    with pytest.raises(ValueError, match="as many predictions as references, got 1, 0"):
        word_error_rate([["a"]], [])


def test_counts_of_errors_stay_as_they_are() -> None:
    errors = WordErrors(1, 2, 3, 20)
    with pytest.raises(FrozenInstanceError):
        errors.insertions = 0  # type: ignore[misc]
