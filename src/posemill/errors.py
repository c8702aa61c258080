"""Every exception posemill raises on purpose.

PosemillError               something in the world is not as it has to be
├── MissingExtraError       an optional package is not installed
├── WeightsError            a model file cannot be had, or is not the one we know
├── DeviceError             the device asked for is not there, or its runtime is not
├── SourceError             no clips where the user pointed, or a layout we do not know
├── DecodeError             a picture or a video that cannot be read
├── RunError                a run folder that cannot be started, continued or read
│   └── StoppedError        a run that a signal ended; the same command continues it
├── PlaceError              an object store or a shared folder that refuses or does not answer
├── FormatError             a file that does not hold what its format promises
├── ContentError            the same, before anybody has said which file
├── ConfigError             a setting that is unknown, or does not go with the others
└── TrainingError           a training that cannot start or go on

The caller's own mistakes in Python (a wrong shape, a wrong type) are `ValueError` and `TypeError`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import MappingProxyType
from typing import Any

from posemill.messages import Message

_OF_TRAINING = ("torch", "safetensors", "matplotlib")


class PosemillError(Exception):
    """Base of all errors: a template of `posemill.messages` and its values."""

    exit_code = 2
    in_file: Collection[str] = ()  # settings that a file gave, so they have no flags
    typed: Mapping[str, str] = MappingProxyType({})  # flags that were typed, by name of setting

    def __init__(self, template: str = "", /, **values: object) -> None:
        super().__init__(Message(template, **values))

    # Not `message`: torch makes errors of its loader processes anew by `type(message=…)` then.
    @property
    def sentence(self) -> Message:
        """The sentence with its template and values."""
        message: Message = self.args[0]
        return message


class MissingExtraError(PosemillError):
    """An optional package is not installed; the message names the extra that brings it."""


def import_optional(package: str, *, extra: str = "") -> Any:
    """Return a package that is no part of the installation, or say what brings it."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        template = "this needs {package!r}, which is not installed; run: pip install {requirement}"
        package = str(error.name or package).partition(".")[0]
        requirement = f"'posemill[{extra}]'" if extra else package
        raise MissingExtraError(template, package=package, requirement=requirement) from error


@contextmanager
def naming_the_extra() -> Iterator[None]:
    """Say which extra brings a package of training that an import in the block does not find."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in _OF_TRAINING:
            raise
        template = "training needs {name!r}; run: pip install 'posemill[train]'"
        raise MissingExtraError(template, name=error.name) from error


class WeightsError(PosemillError):
    """A model file cannot be had, or is not the one we know."""


class DeviceError(PosemillError):
    """The device asked for is not there, or the installed runtime cannot use it."""


class SourceError(PosemillError):
    """No clips where the user pointed, or a layout we do not know."""


class DecodeError(PosemillError):
    """A picture or a video that cannot be read; the message names the file and the reason."""

    def __init__(
        self,
        template: str,
        /,
        *,
        reason: str = "unreadable",  # one of a few fixed short words, to count by
        frame_index: int | None = None,  # of a video: how many frames came out before
        **values: object,
    ) -> None:
        super().__init__(template, **values)
        self.reason = reason
        self.frame_index = frame_index


class RunError(PosemillError):
    """A run folder that cannot be started, continued or read."""


class StoppedError(RunError):
    """A run that a signal ended; exits as a shell expects: 128 + the signal's number.

    Frames may be lost: those that were done and could not be saved in time.
    """

    def __init__(self, signal_number: int, folder: object, *, num_lost: int = 0) -> None:
        template = (
            "stopped by signal {signal_number}; everything done so far is in {folder}, "
            "the same command continues"
        )
        if num_lost:
            template = (
                "stopped by signal {signal_number}; {num_lost:frame|frames} could not be saved in "
                "time, all others are in {folder}, the same command continues and does them again"
            )
        super().__init__(template, signal_number=signal_number, folder=folder, num_lost=num_lost)
        self.exit_code = 128 + signal_number


class PlaceError(PosemillError):
    """An object store or a shared folder that refuses, is not there or does not answer."""


class FormatError(PosemillError):
    """A file that does not hold what its format promises."""


class ContentError(PosemillError):
    """What is wrong in a file, without its name: `posemill.files.naming` makes a `FormatError`."""


class ConfigError(PosemillError):
    """A setting that is unknown, or does not go with the others."""


class TrainingError(PosemillError):
    """A training that cannot start or go on."""
