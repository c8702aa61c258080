"""The command line: finds the command, reads its flags, prints help and errors.

Exit codes: 0 all done, 1 some clips failed, 2 wrong usage or a wrong world, 130 interrupted.
docs/decisions.md says why the words of a line are read here and by no library.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any

from posemill import __version__, machine
from posemill.commands.declaring import Command
from posemill.commands.help_page import (
    argument_of,
    command_help,
    group_help,
    usage_of,
    usage_of_group,
)
from posemill.commands.printing import print_written, say
from posemill.errors import ConfigError, PosemillError
from posemill.files import parse_json
from posemill.language import translate
from posemill.messages import Flags, Message, flags_shown
from posemill.plugins import hint
from posemill.settings import Field, flag_of

# Each has `COMMANDS`, and `GROUPS` where a name stands for several. They import nothing heavy.
# In the order in which `--help` shows them: as a user meets them.
MODULES = (
    "posemill.commands.machine",
    "posemill.commands.landmarks",
    "posemill.commands.extract",
    "posemill.commands.frames",
    "posemill.commands.runs",
    "posemill.commands.data",
    "posemill.commands.look",
    "posemill.commands.pictures",
    "posemill.commands.train",
)
_SEVERAL = (tuple, list, dict)
_HELP = ("--help", "-h")


class UsageError(ConfigError):
    """A line that cannot be read."""


def load_commands() -> tuple[dict[str, Command], dict[str, str]]:
    """Return all commands by name, and what each group is."""
    commands: dict[str, Command] = {}
    groups: dict[str, str] = {}
    for name in MODULES:
        module = import_module(name)
        commands |= {command.name: command for command in module.COMMANDS}
        groups |= getattr(module, "GROUPS", {})
    return commands, groups


def run_line(args: Sequence[str]) -> int:
    """Run a line; return the exit code, or raise what the command says."""
    commands, groups = load_commands()
    words = [word for word in args if word != "--debug"]
    group = words.pop(0) if words and words[0] in groups else ""
    if words[:1] == ["--version"] and not group:
        say("posemill {version}", version=__version__)
        return 0
    if group:
        commands = {name: made for name, made in commands.items() if name.startswith(f"{group} ")}
    if not words or words[0] in _HELP:
        print_written(group_help(commands, groups, group), err=not words)
        return 0 if words else 2
    usage = usage_of_group(group)
    try:
        command = _command_of(words.pop(0), commands, group)
        if set(_HELP) & set(takewhile(lambda word: word != "--", words)):
            print_written(command_help(command))
            return 0
        usage = usage_of(command)
        values, typed = read_words(command, words)
    except UsageError as error:
        print_written(translate("Usage: ") + usage, err=True)
        say("posemill: {error}", error=error, err=True, style="red")
        return error.exit_code
    with flags_shown(Flags(typed=typed)):
        try:
            return command.run(values)
        except PosemillError as error:
            error.typed = typed
            raise


def _command_of(name: str, commands: Mapping[str, Command], group: str) -> Command:
    """Return the command of a name in a group; raise for a flag and for what is none."""
    if name.startswith("-"):
        raise _no_option(name, ())
    command = commands.get(f"{group} {name}".strip())
    if command is None:
        near = hint(name, [known.removeprefix(f"{group} ") for known in commands])
        raise UsageError("No such command {name!r}{near}", name=name, near=near)
    return command


def read_words(command: Command, words: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of a line by name, and the flag that each was given by.

    Flags may be spelled with `_`, and take several values in a row where they hold several:
    `--splits train dev`. Where arguments are missing, the last of such values are arguments:
    `--splits train runs/first` is a split and a run.
    """
    reader = _Reader(command)
    reader.read(words)
    reader.place_arguments()
    values: dict[str, Any] = {}
    for name, texts in reader.texts.items():
        declared = command.fields[name]
        flag = reader.flags.get(name, declared.meta["metavar"] or name)
        values[name] = _value(declared, texts, flag)
    for name, declared in command.fields.items():
        # Settings say so themselves, as a file may have them.
        is_needed = declared.default is MISSING and name not in command.settings
        if is_needed and name not in values:
            if declared.meta["argument"]:
                raise UsageError("Missing argument {name!r}.", name=argument_of(declared))
            raise UsageError("Missing option {flag!r}.", flag=declared.flags[0])
    return values, reader.flags


class _Reader:
    """Reads the words of a line: the texts given for each field, in order."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.texts: dict[str, list[Any]] = defaultdict(list)
        self.flags: dict[str, str] = {}
        self._known: dict[str, tuple[Field, Any]] = {}  # flag -> its field, and its value if fixed
        self._arguments: list[str] = []
        self._further: list[tuple[str, str]] = []  # name and text of what followed a first value
        for declared in command.fields.values():
            if declared.meta["argument"] and not declared.meta["flags"]:
                continue
            for flag in (*declared.flags, *map(flag_of, declared.meta["old"])):
                self._known[flag] = (declared, True if declared.kind is bool else None)
                if declared.kind is bool:
                    self._known[f"--no-{flag[2:]}"] = (declared, False)

    def read(self, words: Sequence[str]) -> None:
        """Sort the words into flags, their values, and arguments."""
        waiting = list(words)
        while waiting:
            word = waiting.pop(0)
            if word == "--":
                self._arguments += waiting
                return
            if _is_value(word):
                self._arguments.append(word)
                continue
            flag, equals, text = word.partition("=")
            flag = flag.replace("_", "-") if flag.startswith("--") else flag
            self._take(flag, text if equals else None, waiting)

    def _take(self, flag: str, text: str | None, waiting: list[str]) -> None:
        """Take a flag, with its values from the words that follow."""
        meant, equals, whole = self.command.aliases.get(flag, flag).partition("=")
        if meant not in self._known:
            raise _no_option(flag, self._known)
        declared, fixed = self._known[meant]
        if equals:
            flag, texts = meant, [whole]
        elif fixed is None:
            texts = self._values_behind(declared, flag, waiting) if text is None else [text]
        elif text is None:
            texts = [fixed]
        else:
            raise UsageError("Option {flag!r} does not take a value.", flag=flag)
        self.texts[declared.flat] += texts
        self._further += [(declared.flat, text) for text in texts[1:]]
        if not flag.startswith("--no-"):
            self.flags[declared.flat] = flag

    def _values_behind(self, declared: Field, flag: str, waiting: list[str]) -> list[str]:
        """Return the value of a flag out of the words behind it; all of them if it has several."""
        bare = declared.meta["bare"]
        if bare and not (waiting and waiting[0] in declared.choices()):
            return [bare]
        if not waiting or waiting[0].partition("=")[0].replace("_", "-") in self._known:
            raise UsageError("Option {flag!r} requires an argument.", flag=flag)
        texts = [waiting.pop(0)]
        while declared.kind in _SEVERAL and waiting and _is_value(waiting[0]):
            texts.append(waiting.pop(0))
        return texts

    def place_arguments(self) -> None:
        """Give each argument its words: one, or all that are left where it holds several."""
        fields = [field for field in self.command.fields.values() if field.meta["argument"]]
        needed = [
            field for field in fields if field.default is MISSING and field.flat not in self.texts
        ]
        place = len(self._arguments)
        while len(self._arguments) < len(needed) and self._further:
            name, text = self._further.pop()
            self.texts[name].pop()
            self._arguments.insert(place, text)  # before the one that was taken first
        words = list(self._arguments)
        for position, declared in enumerate(fields):
            behind = sum(field in needed for field in fields[position + 1 :])
            count = len(words) - behind if declared.kind in _SEVERAL else 1
            taken, words = words[: max(count, 0)], words[max(count, 0) :]
            if not taken:
                continue
            name = declared.flat
            if name in self.texts and declared.kind not in _SEVERAL:
                template = "{argument} and {flag} say the same thing: give one of them"
                raise ConfigError(template, argument=argument_of(declared), flag=self.flags[name])
            self.texts[name] = [*taken, *self.texts[name]]
        if words:
            raise UsageError("Got unexpected extra arguments ({words})", words=" ".join(words))


def _no_option(flag: str, known: Iterable[str]) -> UsageError:
    return UsageError("No such option: {flag}{near}", flag=flag, near=hint(flag, known))


def _is_value(word: str) -> bool:
    """Return whether a word is no flag: also a number below zero, or a dash alone."""
    return not word.startswith("-") or not word[1:] or word[1:].replace(".", "", 1).isdecimal()


def _value(declared: Field, texts: list[Any], flag: str) -> Any:
    """Return the value of a field out of the texts of a line; its own checks come later."""
    if declared.kind is dict:
        return texts if declared.meta["convert"] else parse_options(texts, flag)
    if declared.kind is list:
        parts = [part for text in texts for part in text.split(",") if part]
        return [_in_number(float, part, flag) for part in parts]
    if declared.kind is tuple:
        return tuple(texts)
    text = texts[-1]
    if declared.kind in (int, float):
        return _in_number(declared.kind, text, flag)
    return Path(text) if declared.kind is Path else text


def _in_number(kind: type[int] | type[float], text: str, flag: str) -> float:
    try:
        return kind(text)
    except ValueError as error:
        template = "{flag}: expected a number, got {text!r}"
        if kind is int:
            template = "{flag}: expected a whole number, got {text!r}"
        raise UsageError(template, flag=flag, text=text) from error


def parse_options(options: Sequence[str], flag: str) -> dict[str, Any]:
    """Return the values of the `name=value` pairs of a flag: JSON, or else plain words."""
    values: dict[str, Any] = {}
    for text in options:
        key, equals, value = text.partition("=")
        if not equals or not key:
            template = "{flag}: expected name=value, for example width=64, got {text!r}"
            raise ConfigError(template, flag=flag, text=text)
        try:
            values[key.replace("-", "_")] = parse_json(value)
        except ValueError:
            values[key.replace("-", "_")] = value
    return values


def main(args: list[str] | None = None) -> Any:
    """Run the command line; the entry point of `posemill`."""
    arguments = sys.argv[1:] if args is None else args
    is_debug = "--debug" in arguments
    machine.is_own_program = args is None
    try:
        sys.exit(run_line(arguments))
    except PosemillError as error:
        if is_debug:
            raise
        with flags_shown(Flags(error.in_file, error.typed)):
            say("posemill: {error}", error=error, err=True, style="red")
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # Who read our output is gone: `posemill view … | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        # What no module expects, such as a folder that may not be entered, or a full disk.
        if is_debug or error.errno is None:
            raise
        template = "posemill: {path}: {reason}" if error.filename else "posemill: {reason}"
        reason = Message(error.strerror or "")
        say(template, path=error.filename, reason=reason, err=True, style="red")
        sys.exit(PosemillError.exit_code)
    except KeyboardInterrupt:
        say("posemill: interrupted", err=True)
        sys.exit(130)
