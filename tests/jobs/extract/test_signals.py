"""Signals while a run works: the first is a request, a later one an order; all is put back."""

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from posemill.jobs.extract.coordinator import StopSignals

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def known_handlers():
    """Handlers of ours, so that a signal that slips through does not end the tests."""
    slipped = []
    before = [signal.signal(number, lambda *args: slipped.append(args[0])) for number in NUMBERS]
    yield slipped
    for number, handler in zip(NUMBERS, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
def test_the_first_is_a_request_and_a_later_one_an_order(number, known_handlers, monkeypatch):
    clock = iter([10.0, 10.5, 11.5])
    monkeypatch.setattr("posemill.jobs.extract.coordinator.time.monotonic", lambda: next(clock))
    with StopSignals().caught() as signals:
        assert (signals.received, signals.is_urgent) == (0, False)
        signal.raise_signal(number)
        assert (signals.received, signals.is_urgent) == (number, False)
        signal.raise_signal(number)  # `timeout` sends two: to its child, and to the group
        assert (signals.received, signals.is_urgent) == (number, False)
        signal.raise_signal(signal.SIGTERM)
        # The first one decides how the run exits.
        assert (signals.received, signals.is_urgent) == (number, True)
    assert known_handlers == []
    signal.raise_signal(number)
    assert known_handlers == [number]
    assert signals.received == number


def test_a_signal_that_is_ignored_stays_so():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with StopSignals().caught() as signals:
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        signal.raise_signal(signal.SIGHUP)
        assert signals.received == 0
    assert signal.signal(signal.SIGHUP, before) is signal.SIG_IGN


def test_another_thread_does_nothing():
    before = [*map(signal.getsignal, NUMBERS)]

    def enter():
        with StopSignals().caught() as signals:
            return [*map(signal.getsignal, NUMBERS), signals.received]

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(enter).result() == [*before, 0]
