from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posemill.training.tasks.metrics import (
    accuracy,
    accuracy_per_class,
    confusion_matrix,
    word_error_rate,
)

sentences = st.lists(st.sampled_from("abcd"), min_size=1, max_size=8)


@given(expected=st.lists(sentences, min_size=1, max_size=4), data=st.data())
@settings(max_examples=40)
def test_the_word_error_rate_is_that_of_jiwer(
    expected: list[list[str]], data: st.DataObject
) -> None:
    jiwer = pytest.importorskip("jiwer")
    predicted = [data.draw(st.lists(st.sampled_from("abcd"), max_size=8)) for _ in expected]
    theirs = jiwer.process_words(
        [" ".join(words) for words in expected], [" ".join(words) for words in predicted]
    )
    assert word_error_rate(predicted, expected) == pytest.approx(theirs.wer)


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
