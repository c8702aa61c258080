"""Progress on stderr: a bar where someone watches, nothing in a log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def track(
    items: Iterable[Item],
    description: str,
    total: int | None = None,
    size_of: Callable[[Item], int] = lambda _: 1,
) -> Iterator[Item]:
    """Yield the items while a bar on stderr shows how far it is; it vanishes at the end.

    Args:
        items: Taken one at a time.
        description: What is done, in a word.
        total: Sum of all sizes, None where unknown.
        size_of: How far an item brings the bar.
    """
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}" + (f" / {total:,}" if total is not None else "")),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=total)
        for item in items:
            yield item
            progress.advance(task, size_of(item))
