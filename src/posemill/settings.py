"""One mechanism for every configuration: typed fields with help, choices, limits and old names.

A configuration is a class of fields; making one checks it:

    class ExtractConfig(Settings, command="extract"):
        source: Path = setting("What to read.")
        workers: int | None = setting("How many.", default=None, least=1)

The same checks hold for Python keywords, TOML files and flags: all three end in the class. A field
whose type is a `Settings` class is a group: a table in TOML, an attribute in Python, a heading in
`--help`. Each field of a group has a flat name too (its own, or `flat=`), which is its flag, its
keyword and an attribute of the whole: `config.optimisation.lr` is `config.lr`.

Not pydantic, for what it costs at start-up: docs/decisions.md has the number.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import (
    Any,
    ClassVar,
    Self,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from posemill.errors import ConfigError
from posemill.messages import Message, Option
from posemill.plugins import hint, not_among

# Names to choose from: written here, or "module:table", read when they are needed.
Choices = tuple[str, ...] | str
# Numbers are stored in 64 bits sooner or later.
_TOO_LARGE = 1 << 63


def setting(
    help: str,
    *,
    default: Any = dataclasses.MISSING,
    flat: str = "",
    choices: Choices = (),
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    convert: Callable[[Any], Any] | None = None,
    old: tuple[str, ...] = (),
    flags: tuple[str, ...] = (),
    metavar: str = "",
    auto: str = "",
    argument: bool = False,
    bare: str = "",
) -> Any:
    """Return a field of a `Settings` class, or what is said of a parameter of a command.

    Args:
        help: A sentence for `--help`.
        default: Without one the field is required.
        flat: Its name among all fields of the configuration; its own name by default.
        choices: The values allowed; or `module:table`, whose keys are shown, and checked by whoever
            uses the value.
        least: The smallest number allowed.
        most: The largest.
        above: The number must be larger than this.
        convert: Turns what was given into what is checked, for example 143 into a name.
        old: Its names in other programs; they work like its own.
        flags: Spellings on the command line; made of the flat name by default.
        metavar: What stands for the value in `--help`.
        auto: What it is where not given, in words, for `--help`: None, 0 or `auto` say little.
        argument: On the command line it stands without a flag; its `flags` work too.
        bare: What the flag means where no value follows it.
    """
    meta = {name: value for name, value in locals().items() if name != "default"}
    if isinstance(default, (list, dict)):
        return dataclasses.field(default_factory=lambda: type(default)(default), metadata=meta)
    return dataclasses.field(default=default, metadata=meta)


@dataclass(frozen=True)
class Field:
    """What is known of one field: its place, its type, and what `setting` was told.

    Args:
        name: In its own class.
        flat: Among all fields of the configuration.
        group: Empty at the top level.
        kind: `str`, `int`, `float`, `bool`, `Path`, `tuple[str, ...]`, `list[float]`, `dict`, or
            `object` where `convert` alone knows what it may be.
        is_optional: Whether None is allowed.
        default: `dataclasses.MISSING` where it is required.
        meta: The arguments of `setting`.
    """

    name: str
    flat: str
    group: str
    kind: Any
    is_optional: bool
    default: Any
    meta: Mapping[str, Any]

    @property
    def help(self) -> str:
        """The sentence for `--help`."""
        return str(self.meta["help"])

    @property
    def flags(self) -> tuple[str, ...]:
        """Its spellings on the command line, the usual one first."""
        spellings: tuple[str, ...] = self.meta["flags"] or (flag_of(self.flat),)
        return spellings

    def choices(self) -> tuple[str, ...]:
        """Return the values to choose from; empty where any will do. May import a table."""
        choices: Choices = self.meta["choices"]
        if isinstance(choices, tuple):
            return choices
        module, _, name = choices.partition(":")
        table = getattr(import_module(module), name)
        return tuple(table() if callable(table) else table)

    def check(self, value: Any) -> Any:
        """Return the value in the field's type, or raise `ConfigError` with what was expected."""
        if self.meta["convert"]:
            value = self.meta["convert"](value)
        if value is None and self.is_optional:
            return None
        if isinstance(value, (int, float)) and not abs(value) < _TOO_LARGE:  # NaN is not either
            template = "{option}: expected a finite number, got {value}"
            shown = value if isinstance(value, float) else Message("one with too many digits")
            raise ConfigError(template, option=Option(self.flat), value=shown)
        value = _in_type(self, value)
        choices = self.meta["choices"]
        if choices and isinstance(choices, tuple) and value not in choices:
            raise not_among(self.flat, value, choices)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            _check_limits(self, value)
        return value


def flag_of(name: str) -> str:
    """Return the flag of a name: `--task-frames` for `task_frames`."""
    return "--" + name.replace("_", "-")


# What a value may be instead of the type itself.
_ACCEPTED: dict[Any, Any] = {
    Path: (str, os.PathLike),
    str: os.PathLike,
    tuple: Iterable,
    dict: Mapping,
}
_EXPECTED = {
    tuple: Message("a name or a list of names"),
    list: Message("list of numbers"),
    Path: "path",
}


def _in_type(field: Field, value: Any) -> Any:
    kind = field.kind
    if kind is object:
        return value
    if kind is float and type(value) is int:
        return float(value)
    if kind is tuple and isinstance(value, (str, os.PathLike)):
        return (value,)  # one name, not its letters
    if kind is list and isinstance(value, (list, tuple)):
        value = [float(entry) if type(entry) is int else entry for entry in value]
    is_table = kind is tuple and isinstance(value, Mapping)
    if kind in _ACCEPTED and isinstance(value, _ACCEPTED[kind]) and not is_table:
        value = os.fspath(value) if kind is str else kind(value)
    inner: Any = {tuple: (str, os.PathLike), list: float}.get(kind)
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not fits or (inner and not all(isinstance(entry, inner) for entry in value)):
        template = "{setting}: expected {expected}, got {value!r}"
        words = _EXPECTED.get(kind, kind.__name__)
        raise ConfigError(template, setting=Option(field.flat), expected=words, value=value)
    return value


def _check_limits(field: Field, value: float) -> None:
    least, most, above = (field.meta[name] for name in ("least", "most", "above"))
    if above is not None and not value > above:
        limits = Message("more than {above}", above=above)
    elif (least is None or value >= least) and (most is None or value <= most):
        return
    else:
        template = "at least {least}" if most is None else "{least} to {most}"
        limits = Message(template, least=least, most=most)
    template = "{setting}: expected {limits}, got {value}"
    raise ConfigError(template, setting=Option(field.flat), limits=limits, value=value)


@dataclass_transform(frozen_default=True, field_specifiers=(setting,))
class Settings:
    """Base of every configuration and of every group of one: a frozen dataclass that checks."""

    _command = ""
    _flat_prefix = ""
    _groups: ClassVar[Mapping[str, type[Settings]]]
    _fields: ClassVar[Mapping[str, Field]]
    words: ClassVar[Mapping[str, Field]]  # what can be given and stands for settings, by name
    _names: ClassVar[dict[tuple[str, str], Field]]  # by group and name
    __signature__: ClassVar[inspect.Signature]
    # Flat names of what the maker gave; the rest are defaults and the preset's.
    given: frozenset[str]
    asked: Mapping[str, Any]  # what the maker gave, by flat name, `words` as they were

    def __init_subclass__(
        cls, *, command: str = "", flat_prefix: str = "", words: type[Settings] | None = None
    ) -> None:
        """Make a dataclass of the class.

        Args:
            command: The posemill command whose `--help` lists the fields.
            flat_prefix: Stands before the flat names of a group's fields.
            words: Its fields can be given, too; `settle` turns them into those of this class.
        """
        super().__init_subclass__()
        cls._command, cls._flat_prefix = command, flat_prefix
        dataclass(frozen=True, init=False)(cls)
        hints = get_type_hints(cls)
        kinds = {each.name: hints[each.name] for each in dataclasses.fields(cls)}  # type: ignore[arg-type]
        cls._groups = {name: kind for name, kind in kinds.items() if _is_group(kind)}
        cls._fields = {field.flat: field for field in _fields_of(cls, kinds)}
        cls.words = words.all_fields() if words else {}
        known = (*cls._fields.values(), *cls.words.values())
        cls._names = {("", name): f for f in known for name in (*f.meta["old"], f.flat)}
        cls._names |= {(field.group, field.name): field for field in cls._fields.values()}
        # For `help()` and the completion of notebooks; the real one takes old names too.
        cls.__signature__ = inspect.Signature([_parameter(f) for f in cls._fields.values()])
        cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\n{arguments_text(cls._fields)}"

    def __init__(self, *args: Any, **values: Any) -> None:
        cls = type(self)
        asked = cls.flatten({**cls.__signature__.bind_partial(*args).arguments, **values})
        object.__setattr__(self, "asked", asked)
        given = cls.settle(asked)
        chosen = {**cls.preset_values(given), **given}
        object.__setattr__(self, "given", frozenset(given))
        groups: dict[str, dict[str, Any]] = {name: {} for name in cls._groups}
        for flat, field in cls.all_fields().items():
            if not field.group:
                value = chosen.get(flat, field.default)  # a list or a table is copied by the check
                if value is dataclasses.MISSING:
                    template = "{setting} is missing; see posemill {command} --help"
                    raise ConfigError(template, setting=Option(flat), command=cls._command)
                object.__setattr__(self, field.name, field.check(value))
            elif flat in chosen:
                groups[field.group][field.name] = chosen[flat]
        for name, values in groups.items():
            object.__setattr__(self, name, cls._groups[name](**values))
        self.check()

    def __getattr__(self, name: str) -> Any:
        """Return a field of a group by its flat name, or by the name it had."""
        field = find_field(type(self), name)
        if field is None or (field.name == name and not field.group):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.value(field)

    def value(self, field: Field) -> Any:
        """Return the value of one of `all_fields`."""
        return getattr(getattr(self, field.group) if field.group else self, field.name)

    def check(self) -> None:
        """Raise `ConfigError` where values do not go together."""

    @classmethod
    def preset_values(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the values that stand in for defaults, by what was given; flat names."""
        return {}

    @classmethod
    def settle(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what was given, by flat name, with settings in place of `words`."""
        return given

    @classmethod
    def all_fields(cls) -> Mapping[str, Field]:
        """Return every field, those of the groups too, by flat name, in order."""
        return cls._fields

    @classmethod
    def flatten(cls, values: Mapping[str, Any], *, where: str = "") -> dict[str, Any]:
        """Return values by flat name: out of groups, and from under their old names.

        Groups are mappings or `Settings`; `where` is the file they came from, for messages.
        """
        flat: dict[str, Any] = {}
        names: dict[str, str] = {}
        where = f"{where}: " if where else ""
        for name, value, field in _walk(cls, values, where):
            if before := names.get(field.flat):
                template = "{where}{before} and {name} say the same thing: give one of them"
                raise ConfigError(template, where=where, before=before, name=name)
            flat[field.flat], names[field.flat] = value, name
        return flat

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed; a new preset brings its own values."""
        kept = {name: self.value(self.all_fields()[name]) for name in self.given}
        return type(self)(**{**kept, **self.flatten(changes)})

    def to_dict(self) -> dict[str, Any]:
        """Return all values by flat name, in order."""
        return {name: self.value(field) for name, field in self.all_fields().items()}

    def to_arguments(self) -> list[str]:
        """Return the flags that mean this configuration: only what is not the default."""
        arguments: list[str] = []
        for field in self.all_fields().values():
            value, flag = self.value(field), field.flags[0]
            if value == field.default:
                continue
            if field.kind is bool:
                arguments.append(flag if value else f"--no-{flag[2:]}")
                continue
            words = [value]
            if field.kind is dict:
                words = [f"{name}={json.dumps(option)}" for name, option in value.items()]
            elif field.kind in (tuple, list):
                words = value
            for word in words:
                arguments += [flag, str(word)]
        return arguments


ConfigT = TypeVar("ConfigT", bound=Settings)


def _walk(
    cls: type[Settings], values: Mapping[str, Any], where: str, group: str = ""
) -> Iterator[tuple[str, Any, Field]]:
    """Yield (name as given, value, field); raise for a name that is no field."""
    groups = {} if group else cls._groups
    for name, value in values.items():
        # `data` and `model` are a group and the flat name of a field: a table is the group.
        if name in groups and isinstance(value, Settings):
            yield from _walk(cls, {n: getattr(value, n) for n in value.given}, where, name)
        elif name in groups and isinstance(value, Mapping):
            yield from _walk(cls, value, where, name)
        elif field := find_field(cls, name, group=group):
            yield name, value, field
        else:
            names = [field.name for field in cls.all_fields().values()]
            near = hint(name, [*cls.all_fields(), *names, *cls.words])
            near = near or Message("; see: posemill {command} --help", command=cls._command)
            template = "{where}unknown setting {name!r}{near}"
            raise ConfigError(template, where=where, name=name, near=near)


def find_field(cls: type[Settings], name: str, *, group: str = "") -> Field | None:
    """Return the field of a flat or old name, or of its own name inside a group."""
    return cls._names.get((group, name)) or cls._names.get(("", name))


def _fields_of(cls: type[Settings], types_: Mapping[str, Any]) -> Iterator[Field]:
    for each in dataclasses.fields(cls):  # type: ignore[arg-type]
        declared = types_[each.name]
        if _is_group(declared):
            for inner in declared.all_fields().values():
                yield dataclasses.replace(inner, group=each.name)
            continue
        default: Any = each.default
        if each.default_factory is not dataclasses.MISSING:
            default = each.default_factory()
        flat = each.metadata["flat"] or cls._flat_prefix + each.name
        yield dataclasses.replace(field_of(each.name, declared, default, each.metadata), flat=flat)


def field_of(name: str, declared: Any, default: Any, meta: Mapping[str, Any]) -> Field:
    """Return what is known of a field, or of a parameter of a command, by its declared type."""
    is_union = get_origin(declared) in (Union, types.UnionType)
    members = get_args(declared) if is_union else (declared,)
    kinds = [get_origin(member) or member for member in members if member is not type(None)]
    kind = Path if os.PathLike in kinds else kinds[0]
    if {Iterable, Sequence, tuple} & set(kinds):
        kind = tuple
    kind = {Any: object, Mapping: dict}.get(kind, kind)
    is_optional = len(kinds) < len(members)
    return Field(name, name, "", kind=kind, is_optional=is_optional, default=default, meta=meta)


def arguments_text(fields: Mapping[str, Field]) -> str:
    """Return the `Args:` of a docstring."""
    return "\n".join(["Args:", *(f"    {name}: {field.help}" for name, field in fields.items())])


def _parameter(field: Field) -> inspect.Parameter:
    kinds = inspect.Parameter
    kind = kinds.KEYWORD_ONLY if field.group else kinds.POSITIONAL_OR_KEYWORD
    default = kinds.empty if field.default is dataclasses.MISSING else field.default
    return kinds(field.flat, kind, default=default)


def _is_group(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Settings)
