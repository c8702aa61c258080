"""Progress on stderr: a bar where someone watches, nothing in a log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Item = TypeVar("Item")


@contextmanager
def show_progress(description: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """Yield a function that moves a bar on stderr by one step, or by so many.

    Args:
        description: What is done, in a word or two.
        total: How many steps there will be, None where unknown.
    """
    if not sys.stderr.isatty():
        yield lambda steps=1: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns: list[Any] = [TextColumn("{task.description}"), BarColumn()]
    columns.append(TextColumn("{task.completed:,.0f}" + (f" / {total:,}" if total else "")))
    columns.append(TimeRemainingColumn(elapsed_when_finished=True))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=total)
        yield lambda steps=1: progress.advance(task, steps)


def track(
    items: Iterable[Item],
    description: str,
    total: int | None = None,
    size_of: Callable[[Item], int] = lambda _: 1,
) -> Iterator[Item]:
    """Yield the items while a bar on stderr shows how far it is; it vanishes at the end.

    Args:
        items: Taken one at a time.
        description: What is done, in a word or two.
        total: Sum of all sizes, None where unknown.
        size_of: How far an item brings the bar.
    """
    with show_progress(description, total) as advance:
        for item in items:
            yield item
            advance(size_of(item))
