"""A command is declared once: by the function of the Python door, its signature and docstring.

    @door(Reading)
    def view(run: RunOrFile, *, rows: Annotated[int, setting("Sample rows.")] = 5, **reading): ...

    COMMANDS = (Command("view", view, shown_by(print_view)),)

Every parameter with a `setting`, and every field of the `Settings` class, is a keyword in Python
and a flag in a shell, with the same help and the same checks. A printer of the result follows it.
What only a shell needs (`--dry-run`, `--watch`) is a parameter of a function of its own in the
place of `shown_by`, which gets an `Ask` first.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Annotated, Any, TypeVar

from posemill.commands.arguments import AnyPath
from posemill.commands.printing import print_json
from posemill.plugins import hint
from posemill.settings import Field, Settings, load_field, setting

Function = TypeVar("Function", bound=Callable[..., Any])
SettingsClass = Callable[[], type[Settings]]

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
        door: The function of the Python door, or `module:function` where importing it is slow.
        show: `shown_by(…)`, or a function that gets an `Ask` first if there is a door or a class
            of settings, then what only the shell has; prints, returns an exit code.
        settings: Returns a `Settings` class whose fields are flags; the door's own by default.
        skip: Fields of it that are no flags.
        only: If not empty, only these fields are.
        aliases: Flags of other programs: to a flag of ours, `{"--jobs": "--workers"}`; to a flag
            and the beginning of its value, `{"--runtime": "--engine-option runtime="}`; or to a
            flag with its value, `{"--use-fp16": "--precision=mixed"}`.
    """

    name: str
    door: Callable[..., Any] | str | None
    show: Callable[..., int | None]
    settings: SettingsClass | None = None
    skip: Collection[str] = ()
    only: Collection[str] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def function(self) -> Callable[..., Any] | None:
        """The function of the Python door, which checks what it is given."""
        if not isinstance(self.door, str):
            return self.door
        module, _, name = self.door.partition(":")
        function: Callable[..., Any] = getattr(import_module(module), name)
        return door()(function)

    @property
    def help(self) -> str:
        """The first sentences of the docstring: of what shows the result, or of the function."""
        text = inspect.cleandoc(self.show.__doc__ or getattr(self.function, "__doc__", "") or "")
        return text.split("\n\n")[0].replace("\n", " ")

    @cached_property
    def config(self) -> type[Settings] | None:
        """The class whose fields are flags."""
        load = self.settings or getattr(self.function, "settings", None)
        return None if load is None else load()

    @cached_property
    def asked(self) -> dict[str, Field]:
        """What is given to the door, by name."""
        fields = {} if self.function is None else parameters_of(self.function)
        known = {**self.config.all_fields(), **self.config.words()} if self.config else {}
        chosen = set(self.only or known) - fields.keys() - set(self.skip)
        return fields | {name: known[name] for name in known if name in chosen}

    @cached_property
    def shown(self) -> dict[str, Field]:
        """What is given to the function that shows, by name."""
        return parameters_of(self.show)

    @cached_property
    def fields(self) -> dict[str, Field]:
        """All that can be given, by name, arguments first."""
        parts = (self.shown, self.asked) if self.door is None else (self.asked, self.shown)
        fields = parts[0] | parts[1]
        return dict(sorted(fields.items(), key=lambda item: not item[1].meta["argument"]))

    @cached_property
    def needed(self) -> dict[str, Field]:
        """What must be given, by name; settings say so themselves, as a file may have them."""
        of_function = {} if self.function is None else parameters_of(self.function)
        fields = of_function | self.shown
        return {name: fields[name] for name in fields if fields[name].default is MISSING}

    def run(self, values: Mapping[str, Any]) -> int:
        """Call it with values by name; return the exit code."""
        shown = {name: self.shown[name].check(values[name]) for name in values.keys() & self.shown}
        asked = {name: values[name] for name in values.keys() & self.asked}
        ask = Ask(self.function or dict, **asked)
        is_alone = self.door is None and self.config is None
        return self.show(*([] if is_alone else [ask]), **shown) or 0


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


def door(settings: SettingsClass | None = None) -> Callable[[Function], Function]:
    """Return a decorator for a function of the Python door: its arguments are checked.

    Args:
        settings: Returns the class whose fields it takes as further keywords.
    """

    def declare(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            return function(**_checked(function, args, keywords))

        call.settings = settings  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return declare


def _checked(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call by name, each as its `setting` wants it."""
    signature, fields = _signature(function), parameters_of(function)
    values: dict[str, Any] = {}
    for name, value in signature.bind(*args, **keywords).arguments.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            values |= value
        else:
            values[name] = fields[name].check(value) if name in fields else value
    return values


@functools.cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


@functools.cache
def parameters_of(function: Callable[..., Any]) -> dict[str, Field]:
    """Return the parameters of a function that have a `setting`, by name."""
    plain = inspect.unwrap(function)
    fields: dict[str, Field] = {}
    for parameter in _signature(plain).parameters.values():
        annotation = parameter.annotation
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, plain.__globals__)
            except NameError:  # a type that only type checkers import: no flag
                continue
        default = MISSING if parameter.default is parameter.empty else parameter.default
        declared = load_field(parameter.name, annotation, default)
        if declared is not None:
            fields[parameter.name] = declared
    return fields


def for_python(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a public function that says which keyword was likely meant, with its full signature.

    Raises:
        TypeError: From the function: it has no such keyword.
    """
    if hasattr(function, "settings"):
        describe(function)
    elif parameters_of(function):
        function = door()(function)
    parameters = inspect.signature(function).parameters
    takes_any = any(known.kind is known.VAR_KEYWORD for known in parameters.values())

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        for name in () if takes_any else keywords:
            if name not in parameters:
                near = hint(name, parameters) or f"; it takes: {', '.join(parameters)}"
                raise TypeError(f"{function.__name__}() has no keyword {name!r}{near}")
        return function(*args, **keywords)

    call.__module__ = "posemill"  # where it is found again by who unpickles it
    return call


def describe(function: Callable[..., Any]) -> None:
    """Give a function of the door the signature and the `Args:` that its settings make."""
    fields = dict(parameters_of(function))
    parameters = dict(_signature(inspect.unwrap(function)).parameters)
    load = getattr(function, "settings", None)
    if load is not None:
        parameters.popitem()  # `**settings`, of which each is named now
        for name, declared in load().all_fields().items():
            if name not in parameters:
                fields[name] = declared
                keyword = inspect.Parameter.KEYWORD_ONLY
                parameters[name] = inspect.Parameter(name, keyword, default=declared.default)
    function.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    text = inspect.cleandoc(function.__doc__ or "")
    if "\nArgs:" not in text:
        lines = [f"    {name}: {declared.help}" for name, declared in fields.items()]
        head, mark, raises = text.partition("\n\nRaises:")
        function.__doc__ = "\n".join([head, "", "Args:", *lines]) + mark + raises
