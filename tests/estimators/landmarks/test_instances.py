"""Which hands or faces are looked at, without a network."""

from __future__ import annotations

import numpy as np
import pytest

from posemill.errors import FormatError
from posemill.estimators.landmarks.instances import InstanceState, associate
from posemill.estimators.landmarks.rects import Rect, f32, overlap


def rect(center_x: float, side: float = 0.2, rotation: float = 0.0) -> Rect:
    return Rect(f32(center_x), f32(0.5), f32(side), f32(side), f32(rotation))


def test_rectangles_overlap_as_if_they_were_upright() -> None:
    assert overlap(rect(0.5), rect(0.5, rotation=1.0)) == 1
    assert overlap(rect(0.5), rect(0.6)) == pytest.approx(1 / 3, abs=1e-6)
    assert overlap(rect(0.2), rect(0.8)) == 0


def test_new_ones_come_before_those_that_are_followed() -> None:
    assert associate([rect(0.1), rect(0.4)], [rect(0.7)]) == [rect(0.1), rect(0.4), rect(0.7)]


def test_one_that_is_followed_takes_the_place_of_its_detection() -> None:
    assert associate([rect(0.1), rect(0.69)], [rect(0.7)]) == [rect(0.1), rect(0.7)]


def test_of_two_that_overlap_the_later_one_stays() -> None:
    assert associate([rect(0.5), rect(0.51)], []) == [rect(0.51)]
    assert associate([], [rect(0.5), rect(0.51), rect(0.9)]) == [rect(0.51), rect(0.9)]


def test_half_of_the_union_may_be_shared() -> None:
    # (0.2 - s) / (0.2 + s) of the union is shared
    assert len(associate([rect(0.5), rect(0.5 + 0.067)], [])) == 2
    assert len(associate([rect(0.5), rect(0.5 + 0.066)], [])) == 1


@pytest.mark.parametrize("rects", [(), (rect(0.1), rect(0.3, 0.5, -2.0))])
def test_a_state_comes_back_from_its_bytes(rects: tuple[Rect, ...]) -> None:
    state = InstanceState.from_bytes(InstanceState(rects).to_bytes())
    assert state.rects == rects
    assert all(type(value) is np.float32 for one in state.rects for value in one)


def test_bytes_of_something_else_are_refused() -> None:
    for data in (b"", b"something", InstanceState((rect(0.1),)).to_bytes()[:-30]):
        with pytest.raises(FormatError, match="not a state of this engine"):
            InstanceState.from_bytes(data)
