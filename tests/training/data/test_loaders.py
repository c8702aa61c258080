from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from posemill.training.data.loaders import read_ahead


def test_items_come_in_order_from_another_thread() -> None:
    threads = set()

    def items() -> Iterator[int]:
        for number in range(5):
            threads.add(threading.current_thread().name)
            yield number

    assert list(read_ahead(items(), 2)) == [0, 1, 2, 3, 4]
    assert all(name.startswith("posemill-loader") for name in threads)


def test_an_error_of_the_thread_is_raised_to_the_reader() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    reader = read_ahead(items(), 2)
    assert next(reader) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(reader)


def test_a_reader_that_leaves_early_ends_the_thread() -> None:
    taken = []

    def items() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    reader = read_ahead(items(), 3)
    assert next(reader) == 0
    reader.close()
    assert len(taken) <= 5
    assert not [t for t in threading.enumerate() if t.name.startswith("posemill-loader")]
