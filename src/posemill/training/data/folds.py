"""Parts of a set of clips, each with its share of every class, by a seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posemill.errors import ConfigError
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


def assign_group_folds(
    labels: Sequence[str], groups: Sequence[str], folds: int, seed: int
) -> IntArray:
    """Return `(clips,)`: the fold of each clip; a group is in one, classes as even as that leaves.

    Large groups are placed first, each where the fullest class of all folds stays smallest.
    """
    names, members = np.unique(np.asarray(groups), return_inverse=True)
    if not 2 <= folds <= len(names):
        raise ConfigError(
            f"folds = {folds}: expected 2 or more, and no more than the {len(names)} groups that "
            "stay together"
        )
    kinds, numbers = np.unique(np.asarray(labels), return_inverse=True)
    counts = np.zeros((len(names), len(kinds)), np.int64)  # clips of each class in each group
    np.add.at(counts, (members, numbers), 1)
    order = np.random.default_rng([seed, folds]).permutation(len(names))
    order = order[np.argsort(-counts[order].sum(1), kind="stable")]
    placed = np.zeros((folds, len(kinds)), np.int64)
    result = np.empty(len(names), np.int64)
    for group in order:
        cost = ((placed + counts[group]) ** 2 - placed**2).sum(1)
        best = np.lexsort((placed.sum(1), cost))[0]
        placed[best] += counts[group]
        result[group] = best
    found: IntArray = result[members]
    return found


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
