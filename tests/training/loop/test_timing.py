from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from posemill.training.loop import timing
from posemill.training.loop.timing import PARTS, Clock, shares


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that sets the time."""
    now = [100.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])

    def set_time(seconds: float) -> None:
        now[0] = seconds

    return set_time


def test_a_lap_gives_the_time_since_the_last_to_its_part(at: Callable[[float], None]) -> None:
    clock = Clock(torch.device("cpu"))
    at(101.0)
    clock.lap("data")
    at(103.0)
    clock.lap("forward")
    at(110.0)
    clock.restart()  # seven seconds of nobody
    at(110.5)
    clock.lap("data")
    assert clock.read() == dict.fromkeys(PARTS, 0.0) | {"data": 1.5, "forward": 2.0}


def test_what_was_read_does_not_change_later(at: Callable[[float], None]) -> None:
    clock = Clock(torch.device("cpu"))
    before = clock.read()
    at(105.0)
    clock.lap("backward")
    assert before["backward"] == 0
    assert clock.read()["backward"] == 5


def test_shares_add_up_to_one() -> None:
    assert shares({"data": 1.0, "forward": 3.0}) == {"data": 0.25, "forward": 0.75}
    assert shares({"data": 0.0}) == {"data": 0.0}
