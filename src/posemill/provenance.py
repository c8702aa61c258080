"""From a TOML file and flags to one configuration, with where each value came from."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

from posemill.errors import ConfigError
from posemill.messages import Message, Option
from posemill.settings import ConfigT, Settings


@dataclass(frozen=True)
class Resolved(Generic[ConfigT]):
    """A configuration and the origin of each value.

    Args:
        config: The configuration.
        sources: By flat name: `default`, `preset`, `file`, `flag`, `given` (in Python) or
            `machine`, which has its reason behind it: `machine: no GPU here`.
    """

    config: ConfigT
    sources: Mapping[str, str]

    @classmethod
    def of(cls, config: ConfigT) -> Resolved[ConfigT]:
        """Return the account of a configuration that was made in Python: `given` or not."""
        given = {name: config.value(config.all_fields()[name]) for name in config.given}
        sources = dict.fromkeys(config.all_fields(), "default")
        sources |= dict.fromkeys(config.preset_values(given), "preset")
        return Resolved(config, sources | dict.fromkeys(given, "given"))

    def with_machine(
        self, values: Mapping[str, Any], reasons: Mapping[str, str] | None = None
    ) -> Resolved[ConfigT]:
        """Return a copy with values that the machine decided, by flat name, and why if known."""
        why = {name: f": {reason}" for name, reason in (reasons or {}).items()}
        sources = {**self.sources, **{name: f"machine{why.get(name, '')}" for name in values}}
        return Resolved(self.config.replace(**values), sources)

    def rows(self) -> list[tuple[str, str, Any, str]]:
        """Return (group, name in it, value, source) of every setting, group by group."""
        return [
            (field.group, field.name, self.config.value(field), self.sources.get(flat, ""))
            for flat, field in self.config.all_fields().items()
        ]

    def to_toml(self, *, is_short: bool = False) -> str:
        """Return TOML, a table for each group; where a source is known it stands in a comment.

        Args:
            is_short: Whether defaults and what the preset says are left out.
        """
        lines: list[str] = []
        group_before = ""
        for group, name, value, source in self.rows():
            if is_short and source.partition(":")[0] in ("default", "preset"):
                continue
            if group != group_before:
                lines += ["", f"[{group}]"]
            group_before = group
            # TOML has no word for none: the line is there, as a comment.
            text = f"# {name} is not set" if value is None else f"{name} = {_to_toml(value)}"
            lines.append(f"{text:<44}  # {source}" if source else text)
        return "\n".join(lines[1:] if lines and not lines[0] else lines) + "\n"


def resolve(
    cls: type[ConfigT],
    file: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    *,
    missing: Mapping[str, Any] | None = None,
) -> Resolved[ConfigT]:
    """Return the configuration: defaults, then the preset, then the TOML file, then the flags.

    `missing` stands for fields that must be given, where nobody gave them.
    """
    given, from_file = cls.flatten(flags or {}), read_toml(cls, file) if file else {}
    try:
        config = cls(**{**(missing or {}), **from_file, **given})
    except ConfigError as error:
        error.in_file = from_file.keys() - given.keys()
        raise
    # What follows from a word has the source of the word.
    derived = "flag" if cls.words.keys() & given.keys() else "file"
    sources = dict(Resolved.of(config).sources) | dict.fromkeys(config.given, derived)
    for source, layer in (("to be given", missing or {}), ("file", from_file), ("flag", given)):
        sources |= dict.fromkeys(config.given & layer.keys(), source)
    return Resolved(config, sources)


def describe_unused(
    config: Settings, reasons: Mapping[str, str], *, typed: Collection[str] = ()
) -> list[str]:
    """Return a sentence for each setting that was given, is not its default, and has no effect.

    Args:
        config: The configuration.
        reasons: Why a setting has no effect, by flat name, whether it was given or not.
        typed: Settings that are named even if they are their default.
    """
    fields = config.all_fields()
    return [
        Message(
            "{option} has no effect: {reason}",
            option=Option(name, config.value(fields[name])),
            reason=reason,
        )
        for name, reason in reasons.items()
        if name in typed
        or (name in config.given and config.value(fields[name]) != fields[name].default)
    ]


def read_toml(cls: type[Settings], path: Path) -> dict[str, Any]:
    """Return the settings of a TOML file by flat name."""
    return cls.flatten(load_toml(path), where=str(path))


def load_toml(path: Path, *, what: str = "config") -> dict[str, Any]:
    """Return what a TOML file holds; one that is missing or broken is a `ConfigError`."""
    # Here, as it takes a tenth of the time of --help.
    import tomllib

    try:
        table: dict[str, Any] = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError("no {what} file {path}", what=what, path=path) from error
    except ValueError as error:  # also for an integer of thousands of digits
        raise ConfigError("{path} is not TOML: {error}", path=path, error=error) from error
    except RecursionError as error:
        raise ConfigError("{path} is nested too deep to be read", path=path) from error
    return table


def _to_toml(value: Any) -> str:
    if isinstance(value, (bool, str, os.PathLike)):
        return json.dumps(value, default=os.fspath, ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_to_toml(entry) for entry in value)}]"
    if isinstance(value, dict):
        pairs = ", ".join(f"{json.dumps(key)} = {_to_toml(v)}" for key, v in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, (int, float)):
        return repr(value)
    template = "cannot write {value!r} as TOML: use text, numbers, lists and tables"
    raise ConfigError(template, value=value)
