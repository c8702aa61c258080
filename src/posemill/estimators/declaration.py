"""What an engine says about itself before it is opened: nothing is loaded to read it."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

from posemill.errors import ConfigError, DeviceError
from posemill.messages import Message
from posemill.plugins import hint
from posemill.skeletons import Skeleton

_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a word",
    dict: "an object",
}


@dataclass(frozen=True)
class EngineOption:
    """An option of an engine: `--engine-option name=value`.

    Args:
        name: The keyword of the engine's class.
        kind: `bool`, `int`, `float`, `str` or `dict`.
        default: What it is if it is not given.
        help: One line.
        choices: The words it can be; empty for any.
        least: The smallest number it can be.
        most: The largest one.
        skeletons: Where the option is true, in place of those of the `EngineInfo`; empty: the same.
        words: What a number can be instead.
    """

    name: str
    kind: type
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    skeletons: tuple[str | Skeleton, ...] = ()
    words: tuple[str, ...] = ()

    def check(self, value: Any) -> None:
        """Raise a `ConfigError` that says what was expected, unless the option can be this."""
        if self.choices:
            if value not in self.choices:
                raise ConfigError(
                    "unknown {name} {value!r}; known: {choices}{hint}",
                    name=self.name,
                    value=value,
                    choices=", ".join(self.choices),
                    hint=hint(str(value), self.choices),
                )
        elif value in self.words or (value is None and self.default is None):
            return
        elif not _is_a(value, self.kind) or not self._is_within(value):
            raise ConfigError(
                "{name}: expected {expected}, got {value!r}",
                name=self.name,
                expected=self.expected,
                value=value,
            )

    @property
    def expected(self) -> str:
        """What it can be, in words."""
        if self.choices:
            return ", ".join(self.choices)
        if self.words:
            number = dataclasses.replace(self, words=()).expected
            return Message("{number}, or {words}", number=number, words=", ".join(self.words))
        if self.least is not None and self.most is not None:
            return Message("{least:g} to {most:g}", least=self.least, most=self.most)
        kind = Message(_KINDS[self.kind])
        if self.least is not None:
            return Message("{kind} of at least {least:g}", kind=kind, least=self.least)
        if self.most is not None:
            return Message("{kind} of at most {most:g}", kind=kind, most=self.most)
        return kind

    def _is_within(self, value: Any) -> bool:
        # Written so that NaN, which compares as false, is outside.
        return (self.least is None or value >= self.least) and (
            self.most is None or value <= self.most
        )


def _is_a(value: Any, kind: type) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if kind is int:
        return isinstance(value, numbers.Integral)
    if kind is float:
        return isinstance(value, numbers.Real)
    return isinstance(value, Mapping if kind is dict else kind)


@dataclass(frozen=True)
class EngineInfo:
    """What an engine gives and takes; the attribute `info` of its class.

    Args:
        summary: One line for the list of engines.
        skeletons: What a run of it can store, by name; the first is what `estimate` gives, the
            others are made of it. A `Skeleton` of its own stands for itself.
        people: Whether a frame has the points of one person or of several; also of several where
            the engine has an option `people` that is not 1.
        modes: `image` (frames stand alone), `video` (frames of a clip are tracked), or both.
        devices: Kinds of device it can run on: `cpu`, `cuda`, `tensorrt`.
        options: The keywords of its class beside `device` and `threads`.
        saves_states: Whether a clip can go on elsewhere from the bytes of its state. Where not, a
            clip that was interrupted is looked at again from its start, which gives the same.
        needs: Modules one of which must be installed; empty: none beside posemill's own.
        brought_by: What `pip install` is given to install one of them.
        skeletons_with: Returns `skeletons` for the options that are given, where a file that one
            of them names decides; empty: the same.
    """

    summary: str
    skeletons: tuple[str | Skeleton, ...]
    people: Literal["one", "several"] = "one"
    modes: tuple[str, ...] = ("image", "video")
    devices: tuple[str, ...] = ("cpu",)
    options: tuple[EngineOption, ...] = ()
    saves_states: bool = True
    needs: tuple[str, ...] = ()
    brought_by: str = ""
    skeletons_with: Callable[[Mapping[str, Any]], tuple[str | Skeleton, ...]] | None = None

    @property
    def missing(self) -> str:
        """What `pip install` has to be given before the engine runs here; empty: it is ready."""
        is_ready = not self.needs or any(find_spec(name) for name in self.needs)
        return "" if is_ready else self.brought_by

    @property
    def skeleton_names(self) -> tuple[str, ...]:
        """The names of `skeletons`."""
        return tuple(each if isinstance(each, str) else each.name for each in self.skeletons)

    def with_options(self, options: Mapping[str, Any]) -> EngineInfo:
        """Return what the engine gives if it is opened with these options."""
        has_option = any(option.name == "people" for option in self.options)
        if has_option and options.get("people", 1) != 1 and self.people == "one":
            return dataclasses.replace(self, people="several").with_options(options)
        for option in self.options:
            if option.skeletons and options.get(option.name, option.default) is True:
                return dataclasses.replace(self, skeletons=option.skeletons)
        if self.skeletons_with is not None and (found := self.skeletons_with(options)):
            return dataclasses.replace(self, skeletons=found)
        return self

    def check_options(self, engine: str, options: Mapping[str, Any]) -> None:
        """Raise a `ConfigError` for an option that the engine has not, or that cannot be this."""
        known = {option.name: option for option in self.options}
        for name, value in options.items():
            if name not in known:
                raise ConfigError(
                    "engine {engine!r} has no option {name!r}; it has {known}{hint}",
                    engine=engine,
                    name=name,
                    known=", ".join(known) or "none",
                    hint=hint(name, known),
                )
            known[name].check(value)

    def all_options(self, engine: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options, checked, with the defaults of those that are not given."""
        self.check_options(engine, options)
        return {option.name: option.default for option in self.options} | dict(options)

    def check_device(self, engine: str, device: str) -> None:
        """Raise a `DeviceError` for a kind of device the engine does not know."""
        if device.split(":")[0] in self.devices:
            return
        if self.devices == ("cpu",):
            raise DeviceError(
                "engine {engine!r} runs on the cpu only, not on {device!r}",
                engine=engine,
                device=device,
            )
        expected = ", ".join(each if each == "cpu" else f"{each}:N" for each in self.devices)
        raise DeviceError(
            "engine {engine!r}: unknown device {device!r}; expected {expected}",
            engine=engine,
            device=device,
            expected=expected,
        )

    def check_mode(self, engine: str, mode: str) -> None:
        """Raise a `ConfigError` for a mode the engine has not; `auto` takes what there is."""
        if mode != "auto" and mode not in self.modes:
            raise ConfigError(
                "engine {engine!r} has no {mode} mode; it has {modes}",
                engine=engine,
                mode=mode,
                modes=", ".join(self.modes),
            )

    def skeleton_to_store(self, engine: str, name: str | None = None) -> str:
        """Return the skeleton a run will have: the one that is named, or the engine's own."""
        if name is None:
            return self.skeleton_names[0]
        if name not in self.skeleton_names:
            raise ConfigError(
                "engine {engine!r} gives {skeleton_names}, not {name!r}{hint}",
                engine=engine,
                skeleton_names=", ".join(self.skeleton_names),
                name=name,
                hint=hint(name, self.skeleton_names),
            )
        return name

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {
            "summary": self.summary,
            "skeletons": list(self.skeleton_names),
            "people": self.people,
            "modes": list(self.modes),
            "devices": list(self.devices),
            "missing": self.missing,
            "options": [
                {
                    "name": each.name,
                    "default": each.default,
                    "expected": each.expected,
                    "help": each.help,
                }
                for each in self.options
            ],
        }
