"""Help on a page of 80 columns, Chinese too: typer's tables cut names off and leave no room."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import Any

from posemill.language import chosen_language, word
from posemill.terminal import width_of

_INDENT, _MOST_NAME, _MOST_WIDTH = 2, 24, 100  # columns
# A line may end between any two Chinese characters, but not before a mark that closes, nor after
# one that opens.
_WIDE, _CLOSING = r"\u3000-\u9fff\uff00-\uffef…", "[，。；：、！？）…]*"
_PIECES = re.compile(rf"（*(?:[{_WIDE}]|[^\s{_WIDE}]+){_CLOSING}| +")


def help_page(command: Any, ctx: Any) -> str:
    """Return the help of a command or of a group, as wide as the terminal."""
    width = min(shutil.get_terminal_size().columns, _MOST_WIDTH)
    lines = [command.get_usage(ctx), "", *wrapped(command.help or "", width)]
    for title, rows in sections(command, ctx).items():
        lines += ["", title + (":" if chosen_language() == "en" else "：")]
        column = min(_MOST_NAME, max(width_of(name) for name, _ in rows)) + 2 * _INDENT
        for name, text in rows:
            lines += _row(name, text, column=column, width=width)
    return "\n".join(lines) + "\n"


def sections(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """Return title and rows of each part of the page: name or spelling, and what it is."""
    found: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
        title = getattr(parameter, "rich_help_panel", None) or word(kind)
        if record := parameter.get_help_record(ctx):
            found.setdefault(title, []).append((record[0], word(record[1])))
    commands = getattr(command, "commands", {})
    shown = [(name, each.help or "") for name, each in commands.items() if not each.hidden]
    return {**found, word("Commands"): shown} if shown else found


def _row(name: str, text: str, *, column: int, width: int) -> Iterator[str]:
    """Yield a name and its text beside it; below it where the name is long."""
    rest = wrapped(text, width - column)
    if width_of(name) + 2 * _INDENT > column:
        yield " " * _INDENT + name
    else:
        first = next(rest, "")
        yield f"{' ' * _INDENT}{name}{' ' * (column - _INDENT - width_of(name))}{first}".rstrip()
    for line in rest:
        yield " " * column + line


def wrapped(text: str, width: int) -> Iterator[str]:
    """Yield lines of at most so many columns; only a word that is longer by itself sticks out."""
    for paragraph in text.splitlines():
        line = ""
        for piece in _PIECES.findall(paragraph):
            if line and width_of(line + piece.rstrip()) > width:
                yield line.rstrip()
                line = ""
            line += piece if line or piece.strip() else ""
        yield line.rstrip()
