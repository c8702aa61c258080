"""The models by name. Each takes points, mask and lengths; each is one file to read.

A new model is one file and one row in `MODELS`; another package's is an entry point of the group
`posemill.models`.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from posemill import plugins
from posemill.errors import ConfigError

if TYPE_CHECKING:  # torch, which the names of the models do not need
    from posemill.training.models.keypoints.base import KeypointModel

MODELS = {
    "mlp": "posemill.training.models.keypoints.mlp:Mlp",
    "tcn_bilstm": "posemill.training.models.keypoints.tcn_bilstm:TcnBilstm",
    "stgcn": "posemill.training.models.keypoints.stgcn:Stgcn",
    "transformer": "posemill.training.models.keypoints.transformer:Transformer",
}


def build_model(
    name: str,
    *,
    num_points: int,
    num_dims: int,
    num_classes: int,
    task: str = "classify",
    skeleton_name: str | None = None,
    **options: Any,
) -> KeypointModel:
    """Return a new model with random weights.

    Args:
        name: One of `MODELS`.
        num_points: Points of a frame.
        num_dims: Numbers of a point.
        num_classes: Classes, or glosses with blank and unknown.
        task: `classify` or `ctc`.
        skeleton_name: One of ours, or None: then no bones and one group of points.
        options: The model's own settings; see its class.
    """
    from posemill.training.models.keypoints.base import ModelShape

    shape = ModelShape(num_points, num_dims, num_classes, task, skeleton_name)
    kind = _find(name)
    _check_options(name, kind, options)
    return kind(shape, **options)


def known_models() -> list[str]:
    """Return the names of `MODELS` and of other packages' models."""
    return plugins.names_of("model", MODELS)


def time_stride_of(name: str, **options: Any) -> int:
    """Return how many frames one output step of a model stands for, without building it."""
    kind = _find(name)
    _check_options(name, kind, options)
    return kind.stride_of(**options)


def _find(name: str) -> type[KeypointModel]:
    found: type[KeypointModel] = plugins.load("model", MODELS, name, extra="train")
    return found


def _check_options(name: str, kind: type[KeypointModel], options: dict[str, Any]) -> None:
    known = [
        parameter.name
        for parameter in inspect.signature(kind).parameters.values()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    for option in options:
        if option not in known:
            raise ConfigError(
                f"model {name} has no option {option!r}; it has {', '.join(known)}"
                f"{plugins.hint(option, known)}"
            )
