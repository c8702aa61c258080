"""A command is declared once: by the function of the Python door, its signature and docstring.

    def view(
        run: RunOrFile,
        *,
        rows: Annotated[int, setting("Sample rows.")] = 5,
        **reading: Annotated[Any, Reading],
    ): ...

    COMMANDS = (Command("view", view, shown_by(print_view)),)

Every parameter with a `setting`, and every field of the `Settings` class of the last one, is a
keyword in Python and a flag in a shell, with the same help and the same checks (`checked`). A
printer of the result follows it.
What only a shell needs (`--dry-run`, `--watch`) is a parameter of a function of its own in the
place of `shown_by`, which gets an `Ask` first; a command that is no function of Python is that
function alone.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Annotated, Any, get_args, get_origin

from posemill.commands.arguments import AnyPath
from posemill.commands.printing import print_json
from posemill.plugins import hint
from posemill.settings import Field, Settings, arguments_text, field_of, setting

# Parameters that several commands share.
RunOrFile = Annotated[
    AnyPath, setting("A run folder, or a file of any format.", metavar="RUN_OR_FILE", argument=True)
]
Overwrite = Annotated[bool, setting("Replace files that posemill did not write for this source.")]
AsJson = Annotated[bool, setting("Print JSON.", flags=("--json",))]
DryRun = Annotated[bool, setting("Read and count, write nothing.")]
ShowConfig = Annotated[bool, setting("Print all settings and where each came from.")]
Originals = Annotated[
    AnyPath | None, setting("Folder of the original pictures or videos, if they were moved.")
]


# What was asked for: the function of the Python door with the values given for it, `keywords`.
Ask = functools.partial[Any]


@dataclass(frozen=True)
class Command:
    """A command of the shell.

    Args:
        name: `prepare`, or `models pull` in a group.
        call: The function of the Python door, or `module:function` where importing it is slow;
            where nothing shows its result, it prints itself, and may return an exit code.
        show: `shown_by(…)`, or a function that gets an `Ask` first, then what only the shell has;
            prints, may return an exit code.
        skip: Settings that are no flags.
        only: If not empty, only these settings are.
        aliases: Flags of other programs: to a flag of ours, `{"--jobs": "--workers"}`, or to one
            with its value, `{"--use-fp16": "--precision=mixed"}`.
    """

    name: str
    call: Callable[..., Any] | str
    show: Callable[..., int | None] | None = None
    skip: Collection[str] = ()
    only: Collection[str] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The function itself, which checks nothing."""
        function: Callable[..., Any] = _loaded(self.call)
        return function

    @property
    def help(self) -> str:
        """The first sentences of the docstring: of what shows the result, or of the function."""
        text = inspect.cleandoc((self.show and self.show.__doc__) or str(self.function.__doc__))
        return text.split("\n\n")[0].replace("\n", " ")

    @property
    def config(self) -> type[Settings] | None:
        """The class of its settings."""
        return declared_by(self.function)[1]

    @cached_property
    def settings(self) -> dict[str, Field]:
        """The settings that can be given, by name."""
        fields, config = declared_by(self.function)
        known = {**config.all_fields(), **config.words} if config else {}
        chosen = set(self.only or known) - fields.keys() - set(self.skip)
        return {name: known[name] for name in known if name in chosen}

    @cached_property
    def shown(self) -> dict[str, Field]:
        """What is given to the function that shows, by name."""
        return {} if self.show is None else declared_by(self.show)[0]

    @cached_property
    def fields(self) -> dict[str, Field]:
        """All that can be given, by name, arguments first."""
        fields = declared_by(self.function)[0] | self.settings | self.shown
        return dict(sorted(fields.items(), key=lambda item: not item[1].meta["argument"]))

    def run(self, values: Mapping[str, Any]) -> int:
        """Call it with values by name; return the exit code."""
        shown = {name: values[name] for name in values.keys() & self.shown}
        ask = Ask(checked(self.function), **{name: values[name] for name in values.keys() - shown})
        code: int | None = ask() if self.show is None else checked(self.show)(ask, **shown)
        return code or 0


def _loaded(value: Any) -> Any:
    """Return the object of `module:name`, or the value itself."""
    if not isinstance(value, str):
        return value
    module, _, name = value.partition(":")
    return getattr(import_module(module), name)


def shown_by(
    show: Callable[[Any], None],
    then: Callable[[Any], int | None] = lambda result: None,
    *,
    plain: Callable[[Any], Any] = lambda result: result,
) -> Callable[..., int | None]:
    """Return what shows the result of a function: as JSON, or by a printer.

    Args:
        show: Prints it for people.
        plain: Returns what JSON has of it.
        then: Says what belongs on stderr either way; may return an exit code.
    """

    def show_result(ask: Ask, *, as_json: AsJson = False) -> int | None:
        result = ask()
        print_json(plain(result)) if as_json else show(result)
        return then(result)

    return show_result


def declared_by(function: Callable[..., Any]) -> tuple[dict[str, Field], type[Settings] | None]:
    """Return the parameters that have a `setting`, by name, and the class of further keywords."""
    fields: dict[str, Field] = {}
    config = None
    for parameter in inspect.signature(function).parameters.values():
        annotation = parameter.annotation
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, function.__globals__)
            except NameError:  # a type that only type checkers import: no flag
                continue
        if get_origin(annotation) is not Annotated:
            continue
        kind, meta = get_args(annotation)[:2]
        if parameter.kind is parameter.VAR_KEYWORD:
            config = _loaded(meta)  # `module:class` where importing it is slow
        else:
            default = MISSING if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = field_of(parameter.name, kind, default, meta.metadata)
    return fields, config


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that checks its arguments, with its full signature and docstring.

    Raises:
        TypeError: From the function: it has no such keyword; the one likely meant is named.
    """
    fields, config = declared_by(function)
    signature = inspect.signature(function)
    parameters, documented = dict(signature.parameters), dict(fields)
    takes_any = any(known.kind is known.VAR_KEYWORD for known in parameters.values())
    if config is not None:
        parameters.popitem()  # `**settings`, of which each is named now
        for name, known in inspect.signature(config).parameters.items():
            parameters.setdefault(name, known.replace(kind=known.KEYWORD_ONLY))
        documented |= config.all_fields()
        takes_any = bool(config._groups)  # whose names it takes, too, and says what is none

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        for name in () if takes_any else keywords:
            if name not in parameters:
                near = hint(name, parameters) or f"; it takes: {', '.join(parameters)}"
                raise TypeError(f"{function.__name__}() has no keyword {name!r}{near}")
        if not fields:  # Python says best what is missing
            return function(*args, **keywords)
        bound = signature.bind(*args, **keywords)
        for name in bound.arguments.keys() & fields:
            bound.arguments[name] = fields[name].check(bound.arguments[name])
        return function(*bound.args, **bound.kwargs)

    call.__module__ = "posemill"  # where it is found again by who unpickles it
    shown = signature.replace(parameters=list(parameters.values()))
    call.__signature__ = shown  # type: ignore[attr-defined]
    text = inspect.cleandoc(function.__doc__ or "")
    if documented and "\nArgs:" not in text:
        head, mark, raises = text.partition("\n\nRaises:")
        call.__doc__ = f"{head}\n\n{arguments_text(documented)}{mark}{raises}"
    return call
