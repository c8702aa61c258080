"""Times and orientation of a stream, from numbers alone; real streams are in test_video_pyav."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from posemill.decoders.stream_pyav import (
    Clock,
    read_orientation,
    resize_rgb,
)


def clock(
    *, rate: int | None = 25, start: int | None = None, name: str = "matroska", guessed: int = 0
) -> Clock:
    stream = SimpleNamespace(
        time_base=Fraction(1, 100),
        average_rate=Fraction(rate) if rate else None,
        guessed_rate=Fraction(guessed) if guessed else None,
    )
    format_ = SimpleNamespace(name=name)
    container: Any = SimpleNamespace(start_time=start, format=format_)
    return Clock(container, stream)


def seconds(one: Clock, *pts: int | None) -> list[float]:
    return [round(one.seconds_of(value), 9) for value in pts]


def test_a_missing_time_is_guessed_from_the_rate() -> None:
    assert seconds(clock(), None, None, None) == [0, 0.04, 0.08]
    assert seconds(clock(rate=None, guessed=10), None, None) == [0, 0.1]
    assert seconds(clock(rate=None), None, None) == [0, 0]
    assert seconds(clock(), 100, None, 200) == [1, 1.04, 2]


def test_a_time_that_goes_backwards_counts_as_the_one_before() -> None:
    assert seconds(clock(), 10, 5, 20) == [0.1, 0.1, 0.2]


def test_an_avi_is_counted() -> None:
    assert seconds(clock(name="avi"), 7, 3, 99) == [0, 0.04, 0.08]
    assert seconds(clock(name="avi", rate=None), 7, 99) == [0.07, 0.99]


def matrix(a: int, b: int, c: int, d: int) -> bytes:
    """A display matrix: x' = a x + c y, y' = b x + d y."""
    return np.array([a, b, 0, c, d, 0, 0, 0, 1 << 14], np.int32).tobytes()


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((1, 0, 0, 1), (False, None)),
        ((-1, 0, 0, -1), (False, -1)),  # half a turn
        ((-1, 0, 0, 1), (False, 1)),  # mirrored
        ((1, 0, 0, -1), (False, 0)),
        ((0, 1, 1, 0), (True, None)),
        ((0, 1, -1, 0), (True, 1)),  # a quarter
        ((0, -1, 1, 0), (True, 0)),  # the other quarter
        ((0, -1, -1, 0), (True, -1)),
        ((9, 3, -3, 9), (False, None)),  # some angle: to the nearest of four
        ((3, 9, -9, 3), (True, 1)),
    ],
)
def test_a_display_matrix_is_a_turn_and_a_flip(
    numbers: tuple[int, int, int, int], expected: tuple[bool, int | None]
) -> None:
    assert read_orientation(matrix(*(65536 * number for number in numbers))) == expected


def test_a_frame_of_the_wanted_size_is_not_touched_and_another_one_is_scaled() -> None:
    pixels = np.full((4, 6, 3), 77, np.uint8)
    assert resize_rgb(pixels, (6, 4)) is pixels
    scaled = resize_rgb(pixels, (4, 6))
    assert scaled.shape == (6, 4, 3)
    assert (scaled == 77).all()
