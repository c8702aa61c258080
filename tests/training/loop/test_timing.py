from __future__ import annotations

from typing import Any

import pytest
import torch

from posemill.training.loop import timing
from posemill.training.loop.timing import PARTS, Clock


@pytest.fixture
def at(monkeypatch):
    """Return a function that sets the time."""
    now = [100.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])

    def set_time(seconds: float) -> None:
        now[0] = seconds

    return set_time


def test_a_lap_gives_the_time_since_the_last_to_its_part(at):
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


class Event:
    """An event on a GPU's stream: knows its time only after someone has waited for it."""

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing
        self.seconds: float | None = None
        self.is_done = False

    def record(self) -> None:
        self.seconds = timing.time.perf_counter()

    def synchronize(self) -> None:
        self.is_done = True

    def elapsed_time(self, end: Event) -> float:
        return (end.seconds - self.seconds) * 1000


def test_on_a_gpu_laps_are_events_that_are_read_once(at, monkeypatch):
    monkeypatch.setattr(torch.cuda, "Event", Event)
    clock = Clock(torch.device("cuda"))
    at(101.0)
    clock.lap("data")
    at(103.0)
    clock.lap("forward")
    last: Any = clock._events[-1][1]
    assert not last.is_done
    expected = dict.fromkeys(PARTS, 0.0) | {"data": 1.0, "forward": 2.0}
    assert clock.read() == pytest.approx(expected)
    assert last.is_done, "the last event is waited for, the others came before it"
    assert clock.read() == pytest.approx(expected)
    at(110.0)
    clock.lap("data")
    at(115.0)
    clock.restart()
    at(115.5)
    clock.lap("data")
    assert clock.read() == pytest.approx(expected | {"data": 8.5})
    assert len(clock._events) == 1
