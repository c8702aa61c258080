"""What is drawn for a clip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from posemill.errors import TrainingError
from posemill.training.video.transform import COLOUR, CROP, ERASED, MIRROR, ClipAugment


def views(augment: ClipAugment, count: int = 400) -> Any:
    rng = np.random.default_rng(0)
    return np.stack([augment.draw(rng) for _ in range(count)])


def test_draws_lie_within_their_bounds_and_fill_them():
    found = views(ClipAugment(scale=(0.25, 1.0), mirror=0.3, brightness=0.1, contrast=0.2,
                              saturation=0.4, erase=0.5, erase_area=(0.1, 0.2)))  # fmt: skip
    left, top, width, height = found[:, CROP].T
    assert (left >= 0).all()
    assert (top >= 0).all()
    assert (left + width <= 1 + 1e-6).all()
    assert (top + height <= 1 + 1e-6).all()
    area = width * height
    assert 0.2 < area.min() < 0.3
    assert area.max() > 0.9
    assert 0.22 < found[:, MIRROR].mean() < 0.38
    for column, most in zip(found[:, COLOUR].T, (0.1, 0.2, 0.4), strict=True):
        assert 0.9 * most < np.abs(column - 1).max() <= most + 1e-6
    is_erased = found[:, ERASED][:, 2] > 0
    assert 0.4 < is_erased.mean() < 0.6
    erased = found[is_erased][:, ERASED]
    assert (erased[:, 2] * erased[:, 3] <= 0.2 + 1e-6).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": (0.0, 1.0)}, "scale: expected 0 < least <= most <= 1, got 0.0 and 1.0"),
        ({"scale": (0.8, 0.5)}, "scale: expected 0 < least"),
        ({"erase_area": (0.1, 2)}, "erase_area: expected 0 < least"),
        ({"ratio": (2, 1)}, "ratio: expected 0 < least <= most"),
        ({"mirror": 2}, "mirror: expected 0 to 1, got 2"),
        ({"brightness": -0.1}, "brightness: expected 0 to 1"),
    ],
)
def test_bounds_that_are_none_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ClipAugment(**options)


def test_classes_change_sides():
    classes = ["left", "right", "stop"]
    assert ClipAugment(mirror_labels={"left": "right"}).mirrored_classes(classes) == [1, 0, 2]
    assert ClipAugment(mirror_labels={}).mirrored_classes(classes) == [0, 1, 2]
    assert ClipAugment(mirror=0).mirrored_classes(classes) == [0, 1, 2]
    assert ClipAugment().mirrored_classes(["stop", "go_left"]) == [0, 1], "there is no other side"
    with pytest.raises(TrainingError, match="mirror_labels: no class is called 'up'"):
        ClipAugment(mirror_labels={"left": "up"}).mirrored_classes(classes)
