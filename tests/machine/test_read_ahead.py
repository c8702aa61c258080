import threading
from itertools import islice

import pytest

from posemill.machine.read_ahead import map_ahead, read_ahead


def test_items_keep_their_order_and_come_from_another_thread_not_too_far_ahead():
    seen = []

    def stream():
        for number in range(50):
            seen.append(threading.current_thread().name)
            yield number

    items = read_ahead(stream(), depth=4)
    assert next(items) == 0
    assert len(seen) <= 6
    assert list(items) == list(range(1, 50))
    assert all(name.startswith("read-ahead") for name in seen)


def test_an_error_comes_out_at_its_place_and_the_threads_end():
    def stream():
        yield from (1, 2)
        raise ValueError("third")

    items = read_ahead(stream())
    assert list(islice(items, 2)) == [1, 2]
    with pytest.raises(ValueError, match="third"):
        next(items)
    results = map_ahead(lambda number: 6 // number, iter([1, 2, 0, 3]))
    assert list(islice(results, 2)) == [6, 3]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert not [each for each in threading.enumerate() if each.name.startswith("map-ahead")]


def test_leaving_early_ends_the_stream_in_its_own_thread():
    closed = []

    def stream():
        try:
            yield from range(1_000_000)
        finally:
            closed.append(threading.current_thread().name)

    items = read_ahead(stream(), depth=3)
    assert list(islice(items, 2)) == [0, 1]
    items.close()
    assert len(closed) == 1
    assert closed[0].startswith("read-ahead")
    assert not [each for each in threading.enumerate() if each.name.startswith("read-ahead")]


def test_several_calls_run_at_once_and_their_results_keep_the_order():
    both = threading.Barrier(2, timeout=30)  # passed only by two calls at once

    def meet(number):
        both.wait()
        return number * number

    assert list(map_ahead(meet, iter(range(10)))) == [n * n for n in range(10)]


def test_leaving_calls_early_closes_the_stream_of_items():
    closed, taken = [], []

    def stream():
        try:
            for number in range(1_000_000):
                taken.append(number)
                yield number
        finally:
            closed.append(threading.current_thread())

    results = map_ahead(abs, stream())
    assert next(results) == 0
    results.close()
    assert closed == [threading.current_thread()]
    assert len(taken) == 3
