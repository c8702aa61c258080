"""Help on a page of 80 columns, Chinese too."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import MISSING
from pathlib import Path

from posemill.commands.declaring import Command
from posemill.language import chosen_language, translate
from posemill.messages import Message, render
from posemill.settings import Field
from posemill.terminal import width_of

_INDENT, _MOST_NAME, _MOST_WIDTH = 2, 24, 100  # columns
# A line may end between any two Chinese characters, but not before a mark that closes, nor after
# one that opens.
_WIDE, _CLOSING = r"\u3000-\u9fff\uff00-\uffef…", "[，。；：、！？）…]*"
_PIECES = re.compile(rf"（*(?:[{_WIDE}]|[^\s{_WIDE}]+){_CLOSING}| +")
_KINDS = {int: "<int>", float: "<float>", Path: "<path>", str: "<text>", object: "<text>"}
ABOUT = "From pictures and video to pose keypoints, to model input, to a trained model."
Section = list[tuple[str, str]]


def command_help(command: Command) -> str:
    """Return the help of a command, as wide as the terminal."""
    return _page(usage_of(command), command.help, sections_of(command))


def group_help(commands: Mapping[str, Command], groups: Mapping[str, str], group: str = "") -> str:
    """Return the help of all commands, or of those of a group."""
    about = groups.get(group, ABOUT)
    return _page(usage_of_group(group), about, group_sections(commands, groups, group))


def usage_of_group(group: str) -> str:
    """Return how the commands of a group are called."""
    return f"posemill {group}".strip() + " [OPTIONS] COMMAND [ARGS]..."


def group_sections(
    commands: Mapping[str, Command], groups: Mapping[str, str], group: str = ""
) -> dict[str, Section]:
    """Return title and rows of the page of all commands, or of those of a group."""
    rows: dict[str, str] = {}
    for name, command in commands.items():
        first, _, below = name.partition(" ")
        if below and not group:
            rows[first] = translate(groups[first])
        else:
            rows[below or name] = translate(command.help)
    options: Section = []
    if not group:
        options.append(("--version", translate("Say the version.")))
        options.append(("--debug", translate("Show tracebacks of errors.")))
    options.append(_help_row())
    return {translate("Options"): options, translate("Commands"): list(rows.items())}


def _help_row() -> tuple[str, str]:
    return "-h, --help", translate("Show this message and exit.")


def usage_of(command: Command) -> str:
    """Return how a command is called, for help and errors."""
    words = [f"posemill {command.name} [OPTIONS]"]
    for field in command.fields.values():
        if field.meta["argument"]:
            name = argument_of(field)
            is_needed = field.default is MISSING and not field.meta["flags"]
            words.append(name if is_needed else f"[{name}]")
    return " ".join(words)


def argument_of(field: Field) -> str:
    """Return what stands for an argument: `RUN`, `VIDEO...`."""
    name = str(field.meta["metavar"] or field.name.upper())
    return name if field.kind is not tuple or name.endswith("...") else f"{name}..."


def sections_of(command: Command) -> dict[str, Section]:
    """Return title and rows of each part of the page: name or spelling, and what it is."""
    sections: dict[str, Section] = {}
    presets = {} if command.config is None else command.config.preset_values({})
    for name, field in command.fields.items():
        text = _sentence(field, is_preset=name in presets)
        if field.meta["argument"]:
            argument = argument_of(field)
            sections.setdefault(translate("Arguments"), []).append((argument, text))
            text = render(Message("The same as {argument}.", argument=argument))
        if not field.meta["argument"] or field.meta["flags"]:
            section = sections.setdefault(translate(field.group or "Options"), [])
            section.append((_spelling(field, is_both=name in command.settings), text))
    sections.setdefault(translate("Options"), []).append(_help_row())
    return sections


def _sentence(field: Field, *, is_preset: bool) -> str:
    """Return the help of a field, its default and what it may be."""
    text = translate(field.help)
    if default := default_of(field, is_preset=is_preset):
        text += render(Message(" (default: {default})", default=Message(default)))
    if isinstance(field.meta["choices"], str):
        text += " " + render(Message("One of: {names}.", names=", ".join(field.choices())))
    if field.default is MISSING and not field.meta["argument"]:
        text += f" [{translate('required')}]"
    return text


def default_of(field: Field, *, is_preset: bool = False) -> str:
    """Return the default of a field in words; empty where there is nothing to say."""
    if field.meta["auto"]:
        return str(field.meta["auto"])
    is_plain = isinstance(field.default, (bool, int, float, str, Path))
    if not is_plain or field.default in ("", False):
        return ""
    if is_preset:
        return Message("{value}, by the preset", value=field.default)
    return str(field.default)


def _spelling(field: Field, *, is_both: bool) -> str:
    flags = sorted(field.flags, key=lambda flag: flag.startswith("--"))
    names = ", ".join(flags)
    if field.kind is bool:
        return f"{names} / --no-{flags[-1][2:]}" if is_both or field.default else names
    metavar = field.meta["metavar"]
    if not metavar and isinstance(field.meta["choices"], tuple):
        metavar = "|".join(field.meta["choices"])
    if not metavar:
        metavar = _KINDS.get(field.kind, "NUMBER..." if field.kind is list else "NAME...")
    return f"{names} {metavar}"


def _page(usage: str, about: str, sections: Mapping[str, Section]) -> str:
    width = min(shutil.get_terminal_size().columns, _MOST_WIDTH)
    usage = translate("Usage: ") + usage
    lines = [*wrapped(usage, width), "", *wrapped(translate(about), width)]
    for title, rows in sections.items():
        lines += ["", title + (":" if chosen_language() == "en" else "：")]
        column = min(_MOST_NAME, max(width_of(name) for name, _ in rows)) + 2 * _INDENT
        for name, text in rows:
            lines += _row(name, text, column=column, width=width)
    return "\n".join(lines)


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
