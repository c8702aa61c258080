"""From files, flags and presets to one `TrainConfig`, with where each value came from."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posemill.errors import ConfigError
from posemill.training.config.presets import count_cores, loader_workers, preset_values
from posemill.training.config.train_config import (
    FIELDS,
    GROUPS,
    TrainConfig,
    check_names,
    check_value,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class Resolved:
    """A configuration and the origin of each value: default, preset, file, flag or hardware."""

    config: TrainConfig
    sources: Mapping[str, str]

    def with_hardware(self, **values: Any) -> Resolved:
        """Return a copy with values that the machine decided."""
        changed = {name: value for name, value in values.items() if value is not None}
        sources = {**self.sources, **dict.fromkeys(changed, "hardware")}
        return Resolved(self.config.replace(**changed), sources)

    def rows(self) -> list[tuple[str, str, Any, str]]:
        """Return (group, name, value, source) of every setting, group by group."""
        values = self.config.to_dict()
        return [
            (group, name, values[name], self.sources[name])
            for group in GROUPS
            for name, field in FIELDS.items()
            if field.metadata["group"] == group
        ]


def resolve_config(
    file: Path | None = None, flags: Mapping[str, Any] | None = None, *, cores: int | None = None
) -> Resolved:
    """Return the configuration: defaults, then the preset, then the file, then the flags.

    Args:
        file: TOML with fields of `TrainConfig` at the top level or under the names of its groups.
        flags: Values given by the caller; they win.
        cores: For tests; the machine's by default.
    """
    given = dict(flags or {})
    check_names(given)
    from_file = read_config(file) if file else {}
    preset = given.get("preset", from_file.get("preset", FIELDS["preset"].default))
    check_value("preset", preset)
    values: dict[str, Any] = {}
    sources = dict.fromkeys(FIELDS, "default")
    layers = (("preset", preset_values(preset)), ("file", from_file), ("flag", given))
    for source, layer in layers:
        values.update(layer)
        sources.update(dict.fromkeys(layer, source))
    resolved = Resolved(TrainConfig(**values), sources)
    if resolved.config.num_workers < 0:
        resolved = resolved.with_hardware(num_workers=_workers(resolved.config, cores))
    return resolved


def _workers(config: TrainConfig, cores: int | None) -> int:
    available = cores or count_cores()
    ranks = (config.processes or available) if config.mode == "multi_process" else 1
    return loader_workers(config.preset, cores=available, ranks=ranks)


def read_config(path: Path) -> dict[str, Any]:
    """Return the settings of a TOML file by field name; groups such as `[speed]` are flattened."""
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"no config file {path}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    values: dict[str, Any] = {}
    for name, value in table.items():
        # `data` and `model` are both a group and a field: a table is the group.
        is_group = name in GROUPS and isinstance(value, dict)
        values.update(value if is_group else {name: value})
    check_names(values, where=str(path))
    return values


def write_config(config: TrainConfig, path: Path) -> None:
    """Write the whole configuration as TOML that `read_config` reads back equal."""
    path.write_text(dump_config(Resolved(config, dict.fromkeys(FIELDS, ""))), encoding="utf-8")


def dump_config(resolved: Resolved) -> str:
    """Return TOML, a table for each group; where a source is known it stands in a comment."""
    lines = []
    group_before = ""
    for group, name, value, source in resolved.rows():
        if group != group_before:
            lines += ["", f"[{group}]"]
        group_before = group
        text = f"{name} = {_to_toml(value)}"
        lines.append(f"{text:<44}  # {source}" if source else text)
    return "\n".join(lines[1:]) + "\n"


def _to_toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_to_toml(entry) for entry in value)}]"
    if isinstance(value, dict):
        pairs = ", ".join(f"{json.dumps(key)} = {_to_toml(v)}" for key, v in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, (int, float)):
        return repr(value)
    raise ConfigError(f"cannot write {value!r} as TOML: use text, numbers, lists and tables")
