from __future__ import annotations

import numpy as np
import pytest

from posemill.training.data.labels import assign_folds, pick_share

LABELS = ["a"] * 20 + ["b"] * 10 + ["c"] * 5


def test_every_fold_has_its_share_of_every_class() -> None:
    folds = assign_folds(LABELS, 5, seed=0)
    for fold in range(5):
        members = [label for label, of in zip(LABELS, folds, strict=True) if of == fold]
        assert (members.count("a"), members.count("b"), members.count("c")) == (4, 2, 1)


def test_the_seed_decides_the_folds() -> None:
    assert assign_folds(LABELS, 5, seed=0).tolist() == assign_folds(LABELS, 5, seed=0).tolist()
    assert assign_folds(LABELS, 5, seed=0).tolist() != assign_folds(LABELS, 5, seed=1).tolist()


def test_a_share_is_the_same_of_every_class_and_leaves_some() -> None:
    chosen = pick_share([*LABELS, "d", "e", "e"], 0.2, seed=3)
    picked = [(*LABELS, "d", "e", "e")[index] for index in chosen]
    assert {name: picked.count(name) for name in "abcde"} == {
        "a": 4, "b": 2, "c": 1, "d": 0, "e": 1,
    }  # fmt: skip
    assert (np.diff(chosen) > 0).all()


def test_seeds_give_the_same_parts_in_every_version() -> None:
    assert assign_folds(list("abababab"), 2, seed=4).tolist() == [1, 0, 0, 1, 0, 0, 1, 1]
    assert pick_share(list("abababab"), 0.5, seed=4).tolist() == [0, 1, 2, 7]


def test_impossible_folds_and_shares_are_refused() -> None:
    with pytest.raises(ValueError, match="folds: expected 2 or more, got 1"):
        assign_folds(LABELS, 1, seed=0)
    with pytest.raises(ValueError, match=r"share: expected between 0 and 1, got 1.5"):
        pick_share(LABELS, 1.5, seed=0)
    for edge in (0.0, 1.0):
        with pytest.raises(ValueError, match="share: expected between 0 and 1"):
            pick_share(LABELS, edge, seed=0)
