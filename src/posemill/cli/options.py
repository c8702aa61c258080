"""Flags that several commands share, flags out of the fields of a configuration, and old flags."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from posemill.api.spelling import flag_of, flags_of
from posemill.errors import ConfigError
from posemill.files import parse_json
from posemill.settings import Field, Settings

RunOrFile = Annotated[
    Path, typer.Argument(metavar="RUN_OR_FILE", help="A run folder, or a file of any format.")
]
OptionalRunOrFile = Annotated[
    Path | None,
    typer.Argument(metavar="RUN_OR_FILE", help="A run folder, or a file of any format."),
]
Splits = Annotated[list[str] | None, typer.Option(help="Only these splits; all by default.")]
FromFormat = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="FORMAT",
        help="Format of the file; found out by default. {posemill.formats:known_formats}",
    ),
]
PictureSize = Annotated[
    str | None,
    typer.Option("--size", metavar="WxH", help="Size of the pictures, where it is not known."),
]
Person = Annotated[
    str,
    typer.Option(
        metavar="WHO",
        help="Of several people in a frame: main (the largest, followed along the clip), a number "
        "(2: the next largest), or all.",
    ),
]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace files that posemill did not write for this source."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ShowConfig = Annotated[
    bool, typer.Option("--show-config", help="Print all settings and where each came from.")
]

Command = Callable[..., None]


def old_flags(spellings: Mapping[str, str]) -> Callable[[Command], Command]:
    """Return a decorator: a command also takes flags of other programs and of earlier versions.

    Args:
        spellings: Old flag to new one, `{"--jobs": "--workers"}`; or to a flag and the beginning
            of its value, `{"--runtime": "--engine-option runtime="}`; or to a flag with its value,
            `{"--use-fp16": "--precision=fp16"}`.
    """

    def mark(command: Command) -> Command:
        known = getattr(command, "old_flags", {})
        command.old_flags = {**known, **spellings}  # type: ignore[attr-defined]
        return command

    return mark


def with_config_flags(
    command: Command,
    config: type[Settings],
    *,
    skip: Collection[str] = (),
    only: Collection[str] = (),
) -> Command:
    """Return `command` with a flag for each field of a configuration.

    The command's parameter `flags` gets the values that were given, by flat name.

    Args:
        command: Has a parameter `flags`.
        config: A `Settings` class.
        skip: Flat names of fields that get no flag.
        only: Where not empty, only these fields get a flag.
    """
    annotations = inspect.get_annotations(command, eval_str=True)
    own = [p for p in inspect.signature(command).parameters.values() if p.name != "flags"]
    own = [p.replace(annotation=annotations[p.name]) for p in own]
    fields = {
        name: field
        for name, field in {**config.all_fields(), **config.words()}.items()
        if name not in skip and (not only or name in only)
    }
    usual = config.preset_values({})

    def run(**values: Any) -> None:
        given = {name: values.pop(name) for name in fields}
        flags = {
            name: _parse(fields[name], value) for name, value in given.items() if value is not None
        }
        command(**values, flags=flags)

    parameters = own + [_parameter(field, is_preset=n in usual) for n, field in fields.items()]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__doc__, run.__name__ = command.__doc__, command.__name__
    run.__dict__.update(vars(command))
    renamed = {flag_of(old): flags_of(field)[0] for field in fields.values() for old in field.old}
    return old_flags(renamed)(run)


def _parameter(field: Field, *, is_preset: bool) -> inspect.Parameter:
    meta = field.meta
    spellings = list(flags_of(field))
    if field.kind is bool:
        spellings[0] += f"/--no-{spellings[0][2:]}"
    kind = {Path: Path, bool: bool, int: int, float: float, str: str}.get(field.kind, list[str])
    metavar = meta["metavar"]
    if not metavar and isinstance(meta["choices"], tuple):
        metavar = "|".join(meta["choices"])
    if not metavar and kind == list[str]:
        metavar = "NUMBER..." if field.kind is list else "NAME..."
    text = field.help + _say_default(field, is_preset=is_preset)
    if isinstance(meta["choices"], str):
        text += f" {{{meta['choices']}}}"  # the names themselves when the help is asked for
    option = typer.Option(
        *spellings, help=text, metavar=metavar or None,
        rich_help_panel=field.group or None, show_default=False,
    )  # fmt: skip
    return inspect.Parameter(
        field.flat,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, option],
    )


def _say_default(field: Field, *, is_preset: bool) -> str:
    if field.meta["auto"]:
        return f" (default: {field.meta['auto']})"
    if field.kind in (bool, int, float, str) and field.default not in ("", None):
        if is_preset:
            return f" (default: {field.default}, by the preset)"
        return f" (default: {field.default})"
    return ""


def _parse(field: Field, value: Any) -> Any:
    """Turn the text of a list or of `name=value` pairs into values; the rest is typed already."""
    flag = flags_of(field)[0]
    if field.kind is list:
        return [_number(part, flag) for text in value for part in text.split(",") if part]
    if field.kind is dict:
        return parse_options(value, flag)
    return value


def _number(text: str, flag: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ConfigError(f"{flag}: expected numbers, got {text!r}") from error


def parse_options(options: list[str], flag: str = "--engine-option") -> dict[str, Any]:
    """Return the values of `name=value` pairs; `flag` is where they stood, for the message."""
    return dict(_pair(text, flag) for text in options)


def _pair(text: str, flag: str) -> tuple[str, Any]:
    """Return name and value; values are JSON (numbers, true, false), or else plain words."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"{flag}: expected name=value, for example width=64, got {text!r}")
    try:
        return key.replace("-", "_"), parse_json(value)
    except ValueError:
        return key.replace("-", "_"), value
