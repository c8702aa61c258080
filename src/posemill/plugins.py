"""Engines, decoders, formats, executors, models, skeletons by name: our tables, others' packages.

A table has `"name": "module:object"` rows. Another package adds a name by an entry point of the
group `posemill.<kind>s` (`posemill.engines`, `posemill.decoders`, …) with a value of the same form.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from posemill.errors import ConfigError, MissingExtraError, PosemillError
from posemill.messages import Message, Option
from posemill.terminal import warn_once

Table = Mapping[str, str]


def names_of(kind: str, table: Table) -> list[str]:
    """Return all names of a kind: those of the table, then those of other packages."""
    return [*table, *(name for name in outside(kind) if name not in table)]


def outside(kind: str) -> list[str]:
    """Return the names that other packages bring of a kind."""
    return list(_entry_points(kind, tuple(sys.path)))


@cache  # every installed package is looked at, which takes as long as decoding several frames
def _entry_points(kind: str, _: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Return by name what it stands for, each `module:object` with the package that says so."""
    from importlib.metadata import entry_points  # takes a tenth of the time of --help

    packages: dict[str, dict[str, str]] = {}
    for entry in entry_points(group=f"posemill.{kind}s"):
        package = entry.dist.name if entry.dist is not None else entry.module
        packages.setdefault(entry.name, {})[entry.value] = package
    return packages


def load_all(kind: str, table: Table) -> Iterator[tuple[str, Any]]:
    """Yield all names of a kind with their objects; of what cannot be had only why, on stderr.

    One package that is broken does not stop what has nothing to do with it.
    """
    for name in names_of(kind, table):
        try:
            yield name, load(kind, table, name)
        except PosemillError as error:
            warn_once(str(error))


def load(kind: str, table: Table, name: str, *, extra: str = "") -> Any:
    """Return the object of a name; our own rows come before those of other packages.

    `extra` is the extra of posemill that brings what our own rows import. Every fault is a
    ConfigError, but for a package that is not installed: a MissingExtraError.
    """
    if name in table:
        return _import(f"{kind} {name!r}", table[name], f"'posemill[{extra}]'" if extra else "")
    packages = _entry_points(kind, tuple(sys.path)).get(name)
    if packages is None:
        raise unknown(kind, name, names_of(kind, table))
    if len(packages) > 1:
        who = " and ".join(f"{package} ({value})" for value, package in packages.items())
        template = "two packages bring a {kind} {name!r}: {who}; uninstall one of them"
        raise ConfigError(template, kind=kind, name=name, who=who)
    ((value, package),) = packages.items()
    template = "{kind} {name!r} of the package {package!r}"
    what = Message(template, kind=kind, name=name, package=package)
    try:
        return _import(what, value)
    except PosemillError:
        raise
    except Exception as error:  # whatever the module of a stranger raises
        raise ConfigError(
            "{what} cannot be imported ({kind}: {error}); update it, or run: pip uninstall "
            "{package}",
            what=what,
            kind=type(error).__name__,
            error=error,
            package=package,
        ) from error


def _import(what: str, value: str, package: str = "") -> Any:
    """Return the object of a `module:object`; `package` is what brings what is not installed."""
    module, _, attribute = value.partition(":")
    try:
        imported = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or f"{module}.".startswith(f"{error.name}."):
            template = "{what}: there is no module {module!r}"
            raise ConfigError(template, what=what, module=module) from error
        template = "{what} needs {name!r}, which is not installed; run: pip install {package}"
        package = package or error.name.split(".")[0]
        raise MissingExtraError(template, what=what, name=error.name, package=package) from error
    if not hasattr(imported, attribute):
        template = "{what}: {module!r} has no {attribute!r}"
        raise ConfigError(template, what=what, module=module, attribute=attribute)
    return getattr(imported, attribute)


def unknown(kind: str, name: str, known: Iterable[str]) -> ConfigError:
    """Return the error for a name that is not known, with the one that was likely meant."""
    names = list(known)
    template, listed = "unknown {kind} {name!r}; known: {known}{hint}", ", ".join(names)
    return ConfigError(template, kind=kind, name=name, known=listed, hint=hint(name, names))


def not_among(field: str, value: object, choices: Iterable[str]) -> ConfigError:
    """Return the error for a value that is none of a field's, with the one likely meant."""
    names = list(choices)
    template, listed = "{field}: expected {choices}, got {value!r}{hint}", " | ".join(names)
    near = hint(str(value), names)
    return ConfigError(template, field=Option(field), choices=listed, value=value, hint=near)


def hint(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the known name that is nearest; empty if none is near.

    Of clips that is one with the same last part: `stop/a` for `a`. Dashes of flags do not count.
    """
    import difflib

    name, names = name.lstrip("-"), {each.lstrip("-"): each for each in known}
    near = [each for each in names if each.split("/")[-1] == name.split("/")[-1]]
    near = near or [each for each in names if name.endswith((f"-{each}", f"_{each}"))]
    near = near or sorted((each for each in names if len(name) > 2 and name in each), key=len)
    near = near or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return Message("; did you mean {near!r}?", near=names[near[0]]) if near else ""
