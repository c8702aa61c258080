"""A message is a template with values; who prints it chooses the language and the spelling.

    Message("{path}: expected {num_points} points, got {found}", path=path, …)

A `Message` is a `str`: the English sentence, as Python users, JSON, logs and files get it. Beside
it are the template and the values, so that `render` can say it again: in Chinese, by an exact
look-up of the template in the catalogue, or with flags for the options it names.

What may stand in a template:

    {path}  {score:.2f}  {name!r}         a value, as in str.format; a Message is rendered likewise
    {run!q}                               quoted for a shell
    {num_clips:clip|clips} failed         1 clip failed, 3 clips failed
    {num_frames:,|frame|frames}           the same, with a format of the number
    {--layout:videos}, {--out}            an option of ours: `layout="videos"`, `out` in Python,
                                          `--layout videos`, `--out` in a shell
    {--resume:True}, {--faces:False}      `resume=True` or `--resume`, `faces=False` or `--no-faces`

Other braces stay as they are: text of a user or of another package needs no escaping.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Self

from posemill.language import load_catalogue

_HOLE = re.compile(
    r"\{(?:--(?P<option>[a-z][a-z-]*[a-z])(?::(?P<value>[^{}]*(?:\{\w+\}[^{}]*)*))?"
    r"|(?P<name>[a-z]\w*)(?:!(?P<conversion>[rq]))?(?::(?P<spec>[^{}]*))?)\}"
)
_BARE = re.compile(r"-?\d[\d.e+-]*|True|False|N|…")
# Options whose flag is another word than the keyword.
FLAGS = {
    "engine_options": "--engine-option",
    "from_format": "--from",
    "source": "SOURCE",
    "split_long_seconds": "--split-long",
}
_KEYWORDS = {flag.lstrip("-"): keyword for keyword, flag in FLAGS.items()}

Spelling = Callable[[str, str], str]  # of an option, by its name and its value, "" for none


class Message(str):
    """A sentence of ours, in English; `template` and `values` are what it was made of.

    Of the values a user's text is never translated, a `Message` is.
    """

    template: str
    values: Mapping[str, Any]

    def __new__(cls, template: str, /, **values: Any) -> Self:
        """Fill the template."""
        if isinstance(template, cls) and not values:
            return template
        message = super().__new__(cls, _ENGLISH.fill(template, values))
        message.template, message.values = str(template), values
        return message

    def __reduce__(self) -> tuple[Any, ...]:
        """Send template and values to another process, without objects that only it knows."""
        values = {name: _plain(value) for name, value in self.values.items()}
        return partial(Message, self.template, **values), ()


class Option(str):
    """The keyword of an option, as a value of a message, and what it is to be if that is said."""

    value: object

    def __new__(cls, name: str, value: object = None) -> Option:
        """Keep the name as text."""
        option = super().__new__(cls, name)
        option.value = value
        return option

    def __reduce__(self) -> tuple[Any, ...]:
        return Option, (str(self), _plain(self.value))


class _Shown(str):
    """What another process showed of an object: it is its own repr."""

    def __repr__(self) -> str:
        return str(self)


class _Joined(Message):
    """Several messages as one; the catalogue has the separators too."""

    separator: str

    def __reduce__(self) -> tuple[Any, ...]:
        return join, (self.separator, [_plain(part) for part in self.values.values()])


def join(separator: str, parts: Iterable[object]) -> Message:
    """Return messages and other texts as one, `; ` or the like between them; empty ones go."""
    texts = {f"part_{index}": part for index, part in enumerate(filter(None, parts))}
    joined = _Joined(separator.join(f"{{{name}}}" for name in texts), **texts)
    joined.separator = separator
    return joined


def to_json(message: object) -> Any:
    """Return what JSON can hold of a message, so that it can be rendered later: see `from_json`."""
    if not isinstance(message, Message):
        return message
    values = {name: to_json(_plain(value)) for name, value in message.values.items()}
    return {"template": message.template, "values": values}


def from_json(value: Any) -> Any:
    """Return the message of `to_json`; text as it is."""
    if not isinstance(value, dict):
        return value
    return Message(value["template"], **{k: from_json(v) for k, v in value["values"].items()})


def render(text: object, *, language: str = "", flags: Spelling | None = None) -> str:
    """Return what a reader gets of a message or of an error of ours; other text as it is.

    By default in the language of the process, with options spelled as `flags_shown` says.
    """
    return _Writer(load_catalogue(language), flags or _spelling).text(text)


@dataclass(frozen=True)
class Flags:
    """Options spelled as flags, but for those that a file of settings gave."""

    in_file: Collection[str] = ()  # names of the settings that the reader wrote into a file
    # The flags that the reader typed, by name: `--output-path` for `out`.
    typed: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, name: str, value: str) -> str:
        """Return an option of this name, with its value if one is named."""
        if name in self.in_file:
            return f"{name} = {value}" if value else name
        flag = self.typed.get(name) or FLAGS.get(name) or "--" + name.replace("_", "-")
        if value == "False":
            return flag.replace("--", "--no-", 1)
        if not value or value == "True":
            return flag
        return f"{flag} {value if _BARE.fullmatch(value) else shlex.quote(value)}"


def _as_keyword(name: str, value: str) -> str:
    """Return an option as a keyword of our functions, with its value if one is named."""
    if not value:
        return name
    key, equals, inner = value.partition("=")
    if equals:
        return f"{name}={{{key!r}: {inner!r}}}"
    return f"{name}={value}" if _BARE.fullmatch(value) else f'{name}="{value}"'


_spelling: Spelling = _as_keyword


@contextmanager
def flags_shown(flags: Flags) -> Iterator[None]:
    """Spell options of everything that is rendered inside the block as flags: for commands."""
    global _spelling
    before, _spelling = _spelling, flags
    try:
        yield
    finally:
        _spelling = before


class _Writer(NamedTuple):
    """Puts values into templates, in one language and one spelling."""

    catalogue: Mapping[str, str]
    spelling: Spelling

    def text(self, value: object) -> str:
        if isinstance(value, BaseException) and value.args and isinstance(value.args[0], Message):
            value = value.args[0]
        if isinstance(value, _Joined):
            separator = self.catalogue.get(value.separator) or value.separator
            return separator.join(map(self.text, value.values.values()))
        if isinstance(value, Message):
            return self.fill(self.catalogue.get(value.template) or value.template, value.values)
        if isinstance(value, Option):
            return self.spelling(str(value), "" if value.value is None else str(value.value))
        return str(value)

    def fill(self, template: str, values: Mapping[str, Any]) -> str:
        return _HOLE.sub(lambda hole: self._filled(hole, values), template)

    def _filled(self, hole: re.Match[str], values: Mapping[str, Any]) -> str:
        if option := hole["option"]:
            name = _KEYWORDS.get(option) or option.replace("-", "_")
            return self.spelling(name, self.fill(hole["value"] or "", values))
        if hole["name"] not in values:
            return hole[0]
        value, spec = values[hole["name"]], hole["spec"] or ""
        if hole["conversion"] == "r":
            return format(repr(value), spec)
        if hole["conversion"] == "q":
            return shlex.quote(str(value))
        if "|" in spec:
            *number, one, several = spec.split("|")
            return f"{value:{''.join(number)}} {one if value == 1 else several}"
        return format(value, spec) if spec else self.text(value)


_ENGLISH = _Writer({}, _as_keyword)


def _plain(value: object) -> object:
    """Return a value that every process can have: others become what is shown of them."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, BaseException) and value.args and isinstance(value.args[0], Message):
        return value.args[0]
    if hasattr(value, "item") and getattr(value, "size", 0) == 1:
        return value.item()  # a number of numpy
    return str(value) if isinstance(value, BaseException) else _Shown(value)
