"""Data on stdout: a table for people, JSON for programs."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from posemill.language import translate
from posemill.messages import Message, join, render
from posemill.terminal import escaped, printable, width_of

if TYPE_CHECKING:
    from posemill.provenance import Resolved

_FIGURES = re.compile(r"[-+\d.,:%x/ ]*")  # numbers, `120x90 +2`, `98.1% / 3`: never in two lines
_ANSI_CODES = {"red": "31", "green": "32", "yellow": "33", "bold": "1"}


def say(text: str, /, *, err: bool = False, style: str = "", **values: object) -> None:
    """Print a message, on stderr if `err`: `say("{path} written", path=path)`.

    What is in it from data does not command the terminal.
    """
    stream = sys.stderr if err else sys.stdout
    words = printable(render(Message(text, **values)))
    if style and stream.isatty() and "NO_COLOR" not in os.environ:
        words = f"\033[{_ANSI_CODES[style]}m{words}\033[0m"
    _write(words, stream)


def _write(text: str, stream: TextIO, end: str = "\n") -> None:
    encoding = stream.encoding or "utf-8"
    # What the terminal's encoding has not is shown by its number instead of ending the command.
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + end)
    stream.flush()


def print_written(text: str, *, err: bool = False) -> None:
    """Print text as it is written, a line of a log in English, help in the reader's language."""
    _write(printable(text), sys.stderr if err else sys.stdout)


def print_json(value: Any) -> None:
    """Print a value as indented JSON; results as they say, paths and the like become strings."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=_plain)
    _write(escaped(text), sys.stdout)


def _plain(value: Any) -> Any:
    if hasattr(value, "to_json"):
        return value.to_json()
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) else str(value)  # type: ignore[arg-type]


def print_config(resolved: Resolved[Any], *, as_json: bool) -> None:
    """Print all settings and where each came from, as TOML or as JSON."""
    if as_json:
        names = ("group", "name", "value", "source")
        print_json([dict(zip(names, row, strict=True)) for row in resolved.rows()])
    else:
        _write(printable(resolved.to_toml()), sys.stdout, end="")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows under their headings: left-aligned words, right-aligned numbers."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = [tuple(row) for row in rows]
    texts = [[printable(render(value), keep="\n") for value in row] for row in rows]
    headings = [translate(column) for column in columns]
    # Into a file or a pipe a row stays one line.
    console = Console() if sys.stdout.isatty() else Console(width=400)
    widths = [max(map(width_of, cells)) for cells in zip(headings, *texts, strict=True)]
    is_narrow = sum(widths) + 2 * len(widths) - 2 > console.width
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1), collapse_padding=True
    )
    for index, heading in enumerate(headings):
        numbers = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        figures = [row[index] for row in texts if _FIGURES.fullmatch(row[index])]
        is_of_figures = len(figures) == len(rows) > 0
        table.add_column(
            heading.replace(" ", "\n") if is_of_figures and is_narrow else heading,
            justify="right" if numbers else "left",
            overflow="fold",
            min_width=max(map(len, figures)) if is_of_figures else None,
        )
    for row in texts:
        table.add_row(*map(Text, row))
    with console.capture() as captured:
        console.print(table, crop=False)  # the terminal goes on in the next line
    _write(captured.get(), sys.stdout, end="")


def print_records(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows that name their own columns, nothing where there are none."""
    rows = list(rows)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    shown = [[_short(row.get(name, "")) for name in columns] for row in rows]
    if shown:
        print_table(columns, shown)


def without_constants(
    rows: Iterable[Mapping[str, Any]], *, keep: Sequence[str]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what all rows but for `keep` have alike, and the rows without it; one stays whole."""
    rows = [dict(row) for row in rows]
    first = rows[0] if len(rows) > 1 else {}
    same = {
        name: _short(value)
        for name, value in first.items()
        if name not in keep and all(name in row and row[name] == value for row in rows)
    }
    return same, [{name: row[name] for name in row if name not in same} for row in rows]


def _short(value: Any) -> Any:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else value


def shares_of(shares: Mapping[Any, float], *, is_whole: bool = False) -> Message:
    """Return the share that each of some parts has: `face 98.1%, left hand 12.0%`."""
    template = "{part} {share:.0%}" if is_whole else "{part} {share:.1%}"
    parts = (Message(template, part=Message(part), share=share) for part, share in shares.items())
    return join(", ", parts)


def print_notes(notes: Iterable[object]) -> None:
    """Print on stderr what is worth to know, or works, but not as it should."""
    for note in notes:
        say("note: {text}", text=note, err=True, style="yellow")


@contextmanager
def warnings_as_notes() -> Iterator[list[str]]:
    """Print warnings in the block as notes, without their places in files; yield those printed."""
    printed: list[str] = []

    def show(message: Warning | str, *_place: Any, **_more: Any) -> None:
        printed.append(str(message))
        print_notes([message])

    with warnings.catch_warnings(action="always", category=UserWarning):
        warnings.showwarning = show
        yield printed


def print_lines(pairs: Iterable[tuple[str, Any]]) -> None:
    """Print `name  value` lines, the values under each other."""
    lines = [(render(Message(name)), render(value)) for name, value in pairs]
    width = max((width_of(name) for name, _ in lines), default=0)
    for name, text in lines:
        _write(printable(f"{name}{' ' * (width - width_of(name))}  {text}"), sys.stdout)
