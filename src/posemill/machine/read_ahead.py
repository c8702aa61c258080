"""The next items of a stream, made in another thread while the last one is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
_END = object()


def read_ahead(items: Iterator[Item], *, depth: int = 8) -> Generator[Item, None, None]:
    """Yield the items in order, up to `depth` of them read before they are asked for.

    The stream runs in one thread of its own from its first item to its end; its errors come out
    here, at their place. Leaving early ends it.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
    waiting: deque[Future[Any]] = deque()
    try:
        waiting.extend(pool.submit(next, items, _END) for _ in range(depth))
        while (item := waiting.popleft().result()) is not _END:
            waiting.append(pool.submit(next, items, _END))
            yield item
    finally:
        for future in waiting:
            future.cancel()
        if isinstance(items, Generator):
            # In its own thread: what it holds open (SQLite) may only be closed there.
            pool.submit(items.close).result()
        pool.shutdown()


@contextmanager
def closing_stream(items: Iterator[Item]) -> Iterator[Iterator[Item]]:
    """Yield the items; end their threads with the block, also if an error leaves them unread.

    Else the garbage collector would, at a time when the threads may be gone, and wait for them.
    """
    try:
        yield items
    finally:
        if isinstance(items, Generator):
            items.close()


def map_ahead(
    function: Callable[[Item], Result], items: Iterator[Item]
) -> Generator[Result, None, None]:
    """Yield the function of every item in order, two made at once by threads of their own.

    The items are taken in the thread of the caller. Errors come out at their place.
    """
    pool = ThreadPoolExecutor(2, thread_name_prefix="map-ahead")
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) == 3:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
        if isinstance(items, Generator):
            items.close()
