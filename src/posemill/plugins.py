"""Engines, decoders, formats, executors, models, skeletons by name: our tables, others' packages.

A table has `"name": "module:object"` rows. Another package adds a name by an entry point of the
group `posemill.<kind>s` (`posemill.engines`, `posemill.decoders`, …) with a value of the same form.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from posemill.errors import ConfigError, MissingExtraError

Table = Mapping[str, str]


def names_of(kind: str, table: Table) -> list[str]:
    """Return all names of a kind: those of the table, then those of other packages."""
    return [*table, *(name for name in outside(kind) if name not in table)]


def outside(kind: str) -> dict[str, str]:
    """Return what other packages bring of a kind: name -> `module:object`."""
    return _entry_points(kind, tuple(sys.path))


@cache  # every installed package is looked at, which takes as long as decoding several frames
def _entry_points(kind: str, _: tuple[str, ...]) -> dict[str, str]:
    from importlib.metadata import entry_points  # takes a tenth of the time of --help

    found: dict[str, str] = {}
    for entry in entry_points(group=f"posemill.{kind}s"):
        if found.setdefault(entry.name, entry.value) != entry.value:
            raise ConfigError(
                f"two packages bring a {kind} {entry.name!r}: {found[entry.name]} and "
                f"{entry.value}; uninstall one of them"
            )
    return found


def load(kind: str, table: Table, name: str, *, extra: str = "") -> Any:
    """Return the object of a name.

    Args:
        kind: `engine`, `decoder`, `format`, `executor`, `model` or `skeleton`.
        table: Our own rows; they come before those of other packages.
        name: As users spell it.
        extra: The extra of posemill that brings what our own rows import.

    Raises:
        ConfigError: No such name, or a row that leads nowhere.
        MissingExtraError: A package that the object imports is not installed.
    """
    value = table.get(name) or outside(kind).get(name)
    if value is None:
        raise unknown(kind, name, names_of(kind, table))
    module, _, attribute = value.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or f"{module}.".startswith(f"{error.name}."):
            raise ConfigError(f"{kind} {name!r}: there is no module {module!r}") from error
        package = f"'posemill[{extra}]'" if extra and name in table else error.name.split(".")[0]
        raise MissingExtraError(
            f"{kind} {name!r} needs {error.name!r}, which is not installed; run: "
            f"pip install {package}"
        ) from error
    except AttributeError as error:
        raise ConfigError(f"{kind} {name!r}: {module!r} has no {attribute!r}") from error


def unknown(kind: str, name: str, known: Iterable[str]) -> ConfigError:
    """Return the error for a name that is not known, with the one that was likely meant."""
    known = list(known)
    return ConfigError(f"unknown {kind} {name!r}; known: {', '.join(known)}{hint(name, known)}")


def hint(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the known name that is nearest; empty if none is near."""
    import difflib

    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
