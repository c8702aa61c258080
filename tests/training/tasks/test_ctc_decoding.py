from __future__ import annotations

import math
from collections import defaultdict
from itertools import groupby, product

import numpy as np
import pytest

from posemill.training.tasks.metrics import decode_beam, decode_greedy


def random_scores(steps: int, classes: int, seed: int) -> np.ndarray:
    logits = np.random.default_rng(seed).normal(0, 1.5, (steps, classes))
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def all_sequences(scores: np.ndarray) -> dict[tuple[int, ...], float]:
    """Sum the probability of every path, by the label sequence it stands for."""
    totals: dict[tuple[int, ...], float] = defaultdict(float)
    for path in product(range(scores.shape[1]), repeat=len(scores)):
        labels = tuple(label for label, _ in groupby(path) if label)
        totals[labels] += math.exp(sum(scores[step, label] for step, label in enumerate(path)))
    return totals


@pytest.mark.parametrize("seed", range(12))
def test_a_wide_beam_finds_what_trying_everything_finds(seed: int) -> None:
    scores = random_scores(5, 3 + seed % 2, seed)
    totals = all_sequences(scores)
    best = max(totals, key=lambda labels: totals[labels])
    assert decode_beam(scores, 10_000) == list(best)


def test_the_beam_beats_the_best_path_where_many_paths_agree() -> None:
    # Blank is likeliest at each step, but "1" has more ways to come about.
    scores = np.log(np.array([[0.6, 0.4], [0.6, 0.4]]))
    assert decode_greedy(scores) == []
    assert decode_beam(scores, 4) == [1]


def test_greedy_joins_repeats_unless_a_blank_is_between() -> None:
    path = [1, 1, 0, 1, 2, 2, 0, 0, 3]
    scores = np.full((len(path), 4), -9.0)
    scores[range(len(path)), path] = 0
    assert decode_greedy(scores) == [1, 1, 2, 3]
    assert decode_beam(scores, 3) == [1, 1, 2, 3]


def test_only_the_likeliest_labels_and_prefixes_are_tried() -> None:
    wide, narrow, few = (
        [decode_beam(random_scores(6, 12, seed), width, top_labels=top) for seed in range(20)]
        for width, top in ((100, 12), (1, 12), (100, 1))
    )
    assert wide != narrow
    assert wide != few
