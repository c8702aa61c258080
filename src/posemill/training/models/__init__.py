"""The models by name. Each takes keypoints or frames of video; each is one file to read.

A new model is one file and one row in `MODELS_OF`; another package's is an entry point of the group
`posemill.models`.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from posemill import plugins
from posemill.errors import ConfigError

if TYPE_CHECKING:  # torch, which the names of the models do not need
    from posemill.training.models.base import Model

# By the kind of data that they take.
MODELS_OF: Mapping[str, Mapping[str, str]] = {
    "keypoints": {
        "mlp": "posemill.training.models.sequence:Mlp",
        "tcn_bilstm": "posemill.training.models.sequence:TcnBilstm",
        "stgcn": "posemill.training.models.stgcn:Stgcn",
        "transformer": "posemill.training.models.sequence:Transformer",
    },
    "video": {
        "tsn": "posemill.training.models.frames:Tsn",
        "tsm": "posemill.training.models.frames:Tsm",
        "slowfast": "posemill.training.models.space_time:SlowFast",
        "r2plus1d": "posemill.training.models.space_time:R2plus1d",
    },
    "two_streams": {"two_streams": "posemill.training.models.two_streams:TwoStreams"},
}
MODELS = {name: place for table in MODELS_OF.values() for name, place in table.items()}


def build_model(name: str, **settings: Any) -> Any:
    """Return a new model with random weights; `load_pretrained` of it fetches learned ones.

    Settings are the fields of `ModelShape`, and the model's own options; see its class.
    """
    from posemill.training.models.base import ModelShape

    sizes = {
        size.name: settings.pop(size.name) for size in fields(ModelShape) if size.name in settings
    }
    return _find(name, settings)(ModelShape(**sizes), **settings)


def input_of(name: str) -> str:
    """Return the kind of data that a model takes; torch is imported for others' models."""
    for takes, table in MODELS_OF.items():
        if name in table:
            return takes
    return _find(name).takes


def known_models() -> list[str]:
    """Return the names of `MODELS` and of other packages' models."""
    return plugins.names_of("model", MODELS)


def time_stride_of(name: str, **options: Any) -> int:
    """Return how many frames one output step of a model stands for, without building it."""
    return _find(name, options).stride_of(**options)


def _find(name: str, options: Collection[str] = ()) -> type[Model]:
    """Return a model's class; an option that it does not have is a `ConfigError`."""
    model: type[Model] = plugins.load("model", MODELS, name, extra="train")
    known = options_of(name) if options else []
    for option in options:
        if option not in known:
            raise ConfigError(
                "model {name} has no option {option!r}; it has {known}{hint}",
                name=name,
                option=option,
                known=", ".join(known),
                hint=plugins.hint(option, known),
            )
    return model


def options_of(name: str) -> list[str]:
    """Return the keywords of a model, and of what it is made from where it hands others on."""
    found: list[str] = []
    for part in _find(name).__mro__:
        if "__init__" in vars(part):
            parameters = inspect.signature(part).parameters.values()
            found += [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
            if all(p.kind is not inspect.Parameter.VAR_KEYWORD for p in parameters):
                break
    return found
