"""When a part is looked for where it was."""

from __future__ import annotations

import math

import numpy as np
import pytest

from posemill.estimators.holistic.tracking import TrackingRule
from posemill.estimators.landmarks.rects import Rect, f32

SIZE = (f32(200), f32(100))
RULE = TrackingRule(degrees=15, translation=0.1, scale=0.3, margin=-0.2)


def rect(*values: float) -> Rect:
    return Rect(*map(f32, values))


def is_kept(
    off: tuple[float, float] = (0, 0),
    side: tuple[float, float] = (40, 40),
    *,
    degrees: float = 0,
    turned: float = 0,
    point: tuple[float, float] = (0, 0),
) -> bool:
    """Whether a place `off` px from one of 40 x 40 px is kept, all turned by `turned` degrees."""
    cos, sin = math.cos(math.radians(turned)), math.sin(math.radians(turned))

    def place(x: float, y: float) -> tuple[float, float]:
        return (100 + cos * x - sin * y) / 200, (50 + sin * x + cos * y) / 100

    found = rect(*place(0, 0), 40 / 200, 40 / 100, math.radians(turned))
    rotation = math.radians(turned + degrees)
    before = rect(*place(*off), side[0] / 200, side[1] / 100, rotation)
    points = np.array([[*place(0, 0), 0], [*place(*point), 0]], np.float32)
    chosen = RULE.choose(found, before, points, SIZE)
    assert chosen in (found, before)
    return chosen is before


@pytest.mark.parametrize("turned", [0, 30, 90, -140])
def test_the_limits_count_along_the_sides_of_what_was_found(turned: float) -> None:
    for sign in (-1, 1):
        assert is_kept((3.9 * sign, 3.9), turned=turned)
        assert not is_kept((4.1 * sign, 0), turned=turned)
        assert not is_kept((0, 4.1 * sign), turned=turned)
        assert is_kept(point=(15.9 * sign, 15.9), turned=turned)
        assert not is_kept(point=(16.1 * sign, 0), turned=turned)
        assert not is_kept(point=(0, 16.1 * sign), turned=turned)


def test_it_may_grow_and_shrink_by_a_share_of_what_was_found() -> None:
    assert is_kept(side=(51.9, 28.1))
    assert is_kept(side=(28.1, 51.9))
    for side in ((52.1, 40), (27.9, 40), (40, 52.1), (40, 27.9)):
        assert not is_kept(side=side)


@pytest.mark.parametrize("turned", [0, 175, -179])
def test_it_may_turn_to_both_sides_also_across_half_a_turn(turned: float) -> None:
    for sign in (-1, 1):
        assert is_kept(degrees=14.9 * sign, turned=turned)
        assert not is_kept(degrees=15.1 * sign, turned=turned)
