"""One message for both doors: it names flags at the command line, keywords in Python.

Messages below are written once, most with flags. The functions of `import posemill` are wrapped
here, so that whoever calls them reads `layout="videos"` for `--layout videos`; the commands name
the flag that was given for a leading `size: …`.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from posemill.errors import PosemillError
from posemill.messages import Message
from posemill.plugins import hint
from posemill.settings import Field, Settings

# A command that is quoted stays one: `posemill prepare RUN --out FOLDER`.
_FLAG = re.compile(
    r"(?P<quoted>\bposemill [a-z]+ [^;,]*)|(?<![\w-])--(?P<flag>[a-z][a-z-]*[a-z])"
    r"(?P<value> [\w.:+=-]*[\w…])?"
)
_SETTING = re.compile(r"([a-z_]+)(: expected | and ([a-z_]+): expected | is missing)")
_OTHER_NAMES = {"from": "from_format", "engine_option": "engine_options"}
_WORDS = {"main", "interpolate", "shoulders", "bbox", "zero", "nan", "off"}


def for_python(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a public function whose errors are in the words of Python.

    A keyword it does not have is a `TypeError` that names the nearest one.
    """
    from posemill.commands.declaring import describe

    if hasattr(function, "settings"):
        describe(function)
    parameters = inspect.signature(function).parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        for name in () if takes_any else keywords:
            if name not in parameters:
                near = hint(name, parameters) or f"; it takes: {', '.join(parameters)}"
                raise TypeError(f"{function.__name__}() has no keyword {name!r}{near}")
        try:
            return function(*args, **keywords)
        except PosemillError as error:
            if not error.sentence.has_marks:
                error.args = (Message(to_keywords(str(error), parameters)),)
            raise

    call.__module__ = "posemill"  # where it is found again by who unpickles it
    return call


def to_keywords(text: str, parameters: Mapping[str, Any]) -> str:
    """Return a message with keywords for flags: `layout="videos"` for `--layout videos`.

    Args:
        text: The message; flags in a command that it quotes stay.
        parameters: Names of keywords beside those of the settings.
    """
    from posemill.config import ExtractConfig
    from posemill.training.config.train_config import TrainConfig

    fields = {**ExtractConfig.all_fields(), **TrainConfig.all_fields()}
    flags = {
        flag[2:].replace("-", "_"): name
        for name, field in fields.items()
        for flag in field.meta["flags"]
    }

    def spelled(found: re.Match[str]) -> str:
        if found["quoted"]:
            return found["quoted"]
        flag, value = found["flag"].replace("-", "_"), (found["value"] or "")[1:]
        name = _OTHER_NAMES.get(flag) or flags.get(flag, flag)
        if name not in fields and name not in parameters:
            return found[0]
        key, equals, inner = value.partition("=")
        if equals:
            return f"{name}={{{key!r}: {inner!r}}}"
        if re.fullmatch(r"-?\d[\d.e+-]*", value):
            return f"{name}={value}"
        choices = {*_WORDS, *(fields[name].choices() if name in fields else ())}
        if value in choices or re.fullmatch(r"[A-Z]+(x[A-Z]+)?", value):
            return f'{name}="{value}"'
        is_switch = name in fields and fields[name].kind is bool
        return name + "=True" * is_switch + (f" {value}" if value else "")

    return _FLAG.sub(spelled, text)


def to_flags(text: str, flags: Mapping[str, str]) -> str:
    """Return a message that begins with settings, with the flags that were given for them.

    Args:
        text: `size: expected …`, `folds and fold: expected …`, `source is missing …`.
        flags: Flag by name of parameter.
    """
    if found := _SETTING.match(text):
        for name in filter(None, (found[3], found[1])):
            if name in flags:
                text = re.sub(rf"\b{name}\b", flags[name], text, count=1)
    return text


def flags_of(field: Field) -> tuple[str, ...]:
    """Return the spellings of a field on the command line, the usual one first."""
    spellings: tuple[str, ...] = field.meta["flags"] or (flag_of(field.flat),)
    return spellings


def flag_of(name: str) -> str:
    """Return the flag of a name: `--task-frames` for `task_frames`."""
    return "--" + name.replace("_", "-")


def arguments_of(config: Settings) -> list[str]:
    """Return the flags that mean this configuration: only what is not the default."""
    arguments: list[str] = []
    for field in config.all_fields().values():
        value, flag = config.value(field), flags_of(field)[0]
        if value == field.default:
            continue
        if field.kind is bool:
            arguments.append(flag if value else f"--no-{flag[2:]}")
        elif field.kind is dict:
            pairs = (f"{name}={json.dumps(option)}" for name, option in value.items())
            arguments += [word for pair in pairs for word in (flag, pair)]
        elif field.kind in (tuple, list):
            arguments += [word for each in value for word in (flag, str(each))]
        else:
            arguments += [flag, str(value)]
    return arguments
