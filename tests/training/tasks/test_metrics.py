import math
from collections import defaultdict
from itertools import groupby, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posemill.training.tasks.metrics import (
    accuracy,
    accuracy_per_class,
    confusion_matrix,
    decode_beam,
    decode_greedy,
    word_error_rate,
)

sentences = st.lists(st.sampled_from("abcd"), min_size=1, max_size=8)


@given(expected=st.lists(sentences, min_size=1, max_size=4), data=st.data())
@settings(max_examples=40)
def test_the_word_error_rate_is_that_of_jiwer(expected, data):
    jiwer = pytest.importorskip("jiwer")
    predicted = [data.draw(st.lists(st.sampled_from("abcd"), max_size=8)) for _ in expected]
    theirs = jiwer.process_words(
        [" ".join(words) for words in expected], [" ".join(words) for words in predicted]
    )
    assert word_error_rate(predicted, expected) == pytest.approx(theirs.wer)


def test_accuracy_is_the_share_of_equal_entries_and_true_classes_are_rows():
    assert accuracy([1, 2, 3, 4], [1, 2, 0, 4]) == 0.75
    assert np.isnan(accuracy([], []))
    confusion = confusion_matrix([0, 1, 1, 1], [0, 0, 1, 1], 3)
    assert confusion.tolist() == [[1, 1, 0], [0, 2, 0], [0, 0, 0]]
    per_class = accuracy_per_class(confusion)
    assert per_class[:2].tolist() == [0.5, 1.0]
    assert np.isnan(per_class[2])
    assert accuracy_per_class(np.diag([1, 1])).tolist() == [1.0, 1.0], "one clip of each"


def random_scores(steps, classes, seed):
    logits = np.random.default_rng(seed).normal(0, 1.5, (steps, classes))
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def all_sequences(scores):
    """Sum the probability of every path, by the label sequence it stands for."""
    totals = defaultdict(float)
    for path in product(range(scores.shape[1]), repeat=len(scores)):
        labels = tuple(label for label, _ in groupby(path) if label)
        totals[labels] += math.exp(sum(scores[step, label] for step, label in enumerate(path)))
    return totals


@pytest.mark.parametrize("seed", range(12))
def test_a_wide_beam_finds_what_trying_everything_finds(seed):
    scores = random_scores(5, 3 + seed % 2, seed)
    totals = all_sequences(scores)
    best = max(totals, key=lambda labels: totals[labels])
    assert decode_beam(scores, 10_000) == list(best)


def test_greedy_joins_repeats_and_the_beam_beats_it_where_many_paths_agree():
    path = [1, 1, 0, 1, 2, 2, 0, 0, 3]
    scores = np.full((len(path), 4), -9.0)
    scores[range(len(path)), path] = 0
    assert decode_greedy(scores) == [1, 1, 2, 3]
    assert decode_beam(scores, 3) == [1, 1, 2, 3]
    # Blank is likeliest at each step, but "1" has more ways to come about.
    scores = np.log(np.array([[0.6, 0.4], [0.6, 0.4]]))
    assert decode_greedy(scores) == []
    assert decode_beam(scores, 4) == [1]
    wide, narrow, few = (
        [decode_beam(random_scores(6, 12, seed), width, top_labels=top) for seed in range(20)]
        for width, top in ((100, 12), (1, 12), (100, 1))
    )
    assert wide != narrow
    assert wide != few
