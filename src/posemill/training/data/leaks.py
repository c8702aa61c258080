"""Clips of the training that are in a scored split too, all but the same: scores that flatter.

People record many takes at once, cut one recording into clips, or copy files. What a model then
knows of the scored clips is more than it will know of new ones. Copies under two labels, which no
model can tell apart, are found on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from posemill.messages import Message
from posemill.records import FloatArray, IntArray
from posemill.training.data.clips import Clips

# Clips that are looked at; a second of work where each is a video to be opened.
MOST_TRAINING, MOST_SCORED = 300, 100
# As shares of the usual distance of two training clips. Takes of one signer in a row lay at 0.13
# and above (signs48, signers6), clips of other videos at 0.14 and above (JHMDB), of a webcam at 0.3
# and above (gestures5); those cut out of one recording at 0.03 to 0.24, half below 0.11
# (sign_videos6).
_NEAR, _SAME = 0.1, 0.005
_LEAST_SHARE = 0.1  # of near ones: a few may be chance


def describe_shared_groups(sets: Mapping[str, Clips]) -> Iterator[str]:
    """Yield a sentence for each split that has groups of the training clips."""
    train = sets["train"].groups
    for split, clips in sets.items():
        known = {value for value in train.values if value}
        others = [value for value in clips.groups.values if value]
        both, num_values = set(others) & known, len(known | set(others))
        if split == "train" or not both or num_values < 2:  # of one alone nothing is left out
            continue
        inside = sum(value in both for value in others)
        column = train.column
        yield Message(
            "{num_inside} of {num_clips} {split} clips are of a {column} that training "
            "clips are of ({num_shared} of {num_values} values): scores of {split} say "
            "little of another {column}; {--leave-out:{column}} does, or "
            "{--folds:{num_folds}} {--folds-by:{column}}",
            num_inside=inside,
            num_clips=len(others),
            split=split,
            column=column,
            num_shared=len(both),
            num_values=len(set(others)),
            num_folds=min(5, num_values),
        )


def describe_near_clips(sets: Mapping[str, Clips]) -> Iterator[str]:
    """Yield a sentence on training clips under two labels, and for each split with near copies.

    Args:
        sets: By split; NaN features: cannot be told.
    """
    chosen = _some(len(sets["train"]), MOST_TRAINING)
    train = sets["train"].features(chosen)
    is_known = np.isfinite(train).all(1)
    train, chosen = train[is_known], chosen[is_known]
    if len(train) >= 8:
        yield from _describe_two_labels(sets["train"], train, chosen)
    for split, clips in sets.items():
        if split == "train" or len(train) < 8:
            continue
        scored = clips.features(_some(len(clips), MOST_SCORED))
        scored = scored[np.isfinite(scored).all(1)]
        if not len(scored):
            continue
        nearest = nearest_shares(train, scored)
        column = sets["train"].groups.column or "COLUMN"
        same, near = int((nearest < _SAME).sum()), int((nearest < _NEAR).sum())
        if same:
            yield Message(
                "{num_same} of {num_clips} {split} clips looked at are copies of training "
                "clips: scores of {split} count what was learned by heart",
                num_same=same,
                num_clips=len(scored),
                split=split,
            )
        elif near >= _LEAST_SHARE * len(scored):
            yield Message(
                "{num_near} of {num_clips} {split} clips looked at are nearly the same as a "
                "training clip, as clips recorded at once are: scores of {split} flatter; "
                "{--leave-out:{column}}, with a column that says what was recorded together, "
                "tells what new recordings would get",
                num_near=near,
                num_clips=len(scored),
                split=split,
                column=column,
            )


def _describe_two_labels(clips: Clips, features: FloatArray, chosen: IntArray) -> Iterator[str]:
    """Yield a sentence where some of these clips are copies of one with another label."""
    labels = [np.asarray(clips.targets[int(index)]).tobytes() for index in chosen]
    differ = np.array(labels)[:, None] != np.array(labels)
    first, second = np.nonzero((distance_shares(features, features) < _SAME) & differ)
    if len(first):
        names = [clips.keys[int(chosen[pair[0]])][1] for pair in (first, second)]
        yield Message(
            "{num_copies} of {num_clips} training clips looked at are copies of one with "
            "another label, the first {name!r} and {other_name!r}: one of the labels is "
            "wrong, and no model can learn both",
            num_copies=len(set(first.tolist())),
            num_clips=len(chosen),
            name=names[0],
            other_name=names[1],
        )


def nearest_shares(train: FloatArray, scored: FloatArray) -> FloatArray:
    """Return `(N,)`: how far the nearest training clip is; see `distance_shares`."""
    found: FloatArray = distance_shares(train, scored).min(1)
    return found


def distance_shares(train: FloatArray, scored: FloatArray) -> FloatArray:
    """Return `(N, M)`: how far training clips are, as a share of what is usual among them.

    Args:
        train: `(M, F)` features of training clips.
        scored: `(N, F)` features of others, or of the same.
    """
    spread = train.std(0)
    varies = spread > 1e-6 * max(1.0, float(np.abs(train).max()))
    if not varies.any():
        return np.ones((len(scored), len(train)), np.float32)
    train, scored = (part[:, varies] / spread[varies] for part in (train, scored))
    half = len(train) // 2
    usual = np.median(np.linalg.norm(train[:half] - train[half : 2 * half], axis=1))
    apart = (scored**2).sum(1)[:, None] + (train**2).sum(1) - 2 * scored @ train.T
    found: FloatArray = np.sqrt(np.maximum(0, apart)) / max(float(usual), 1e-12)
    return found


def _some(count: int, most: int) -> IntArray:
    """Return the places of at most so many of a number of clips, evenly."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))
