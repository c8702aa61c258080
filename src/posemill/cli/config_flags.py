"""Command-line flags out of the fields of a configuration: each flag is a field."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

from posemill.errors import ConfigError
from posemill.training.config.train_config import FIELDS, field_types


def with_config_flags(command: Callable[..., None], *, skip: frozenset[str]) -> Callable[..., None]:
    """Return `command` with a flag for each field of `TrainConfig`.

    The command's parameter `flags` gets the values that were given, by field name.
    """
    own = [p for p in inspect.signature(command).parameters.values() if p.name != "flags"]
    own = [
        p.replace(annotation=inspect.get_annotations(command, eval_str=True)[p.name]) for p in own
    ]
    names = [name for name in FIELDS if name not in skip]

    def run(**values: Any) -> None:
        given = {name: values.pop(name) for name in names}
        flags = {name: _parse(name, value) for name, value in given.items() if value is not None}
        command(**values, flags=flags)

    parameters = own + [_parameter(name) for name in names]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__doc__, run.__name__ = command.__doc__, command.__name__
    return run


def _parameter(name: str) -> inspect.Parameter:
    field, kind = FIELDS[name], field_types()[name]
    meta = field.metadata
    flag = "--" + name.replace("_", "-")
    if kind is bool:
        flag = f"{flag}/--no-{name.replace('_', '-')}"
    metavar = "|".join(meta["choices"]) or None
    plain: Any = {bool: bool, int: int, float: float, str: str}.get(kind, list[str])
    default = "" if field.default in ("", dict, list) else field.default
    text = meta["help"]
    if kind in (bool, int, float, str) and default != "":
        text += f" [default: {default}]"
    option = typer.Option(
        flag, help=text, metavar=metavar, rich_help_panel=meta["group"], show_default=False
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[plain | None, option],
    )


def _parse(name: str, value: Any) -> Any:
    """Turn the text of a list or of `name=value` pairs into values; the rest is typed already."""
    kind = field_types()[name]
    if kind == list[float]:
        return [_number(part, name) for text in value for part in text.split(",") if part]
    if kind == dict[str, Any]:
        return dict(_pair(text, name) for text in value)
    return value


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ConfigError(f"--{name.replace('_', '-')}: expected numbers, got {text!r}") from error


def _pair(text: str, name: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(
            f"--{name.replace('_', '-')}: expected name=value, for example width=64, got {text!r}"
        )
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
