"""Parts of a set of clips, each with its share of every class, by a seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posemill.records import IntArray


def assign_folds(labels: Sequence[str], folds: int, seed: int) -> IntArray:
    """Return `(clips,)`: the fold of each clip, classes dealt evenly, in an order by the seed."""
    if folds < 2:
        raise ValueError(f"folds: expected 2 or more, got {folds}")
    rng = np.random.default_rng([seed, folds])
    order = rng.permutation(len(labels))
    # A stable sort by class keeps the random order within each; dealing then round and round.
    by_class = order[np.argsort(np.asarray(labels)[order], kind="stable")]
    result = np.empty(len(labels), np.int64)
    result[by_class] = np.arange(len(labels)) % folds
    return result


def pick_share(labels: Sequence[str], share: float, seed: int) -> IntArray:
    """Return the sorted indices of about `share` of the clips, the same share of every class."""
    if not 0 < share < 1:
        raise ValueError(f"share: expected between 0 and 1, got {share}")
    rng = np.random.default_rng([seed, 7])
    array = np.asarray(labels)
    chosen: list[int] = []
    for name in np.unique(array):
        members = rng.permutation(np.flatnonzero(array == name))
        # At least one of each class stays on both sides where there are two.
        count = min(max(round(share * len(members)), 1), len(members) - 1)
        chosen += members[:count].tolist()
    return np.sort(np.asarray(chosen, np.int64))
