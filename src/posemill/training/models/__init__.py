"""The models by name. Each takes points, mask and lengths; each is one file to read.

A new model is one file and one row in `MODELS`.
"""

from __future__ import annotations

import difflib
import inspect
from importlib import import_module
from typing import Any

from posemill.errors import ConfigError
from posemill.training.models.keypoints.base import CtcOutput, KeypointModel, ModelShape

__all__ = ["MODELS", "CtcOutput", "KeypointModel", "ModelShape", "build_model", "time_stride_of"]

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
    shape = ModelShape(num_points, num_dims, num_classes, task, skeleton_name)
    kind = _find(name)
    _check_options(name, kind, options)
    return kind(shape, **options)


def time_stride_of(name: str, **options: Any) -> int:
    """Return how many frames one output step of a model stands for, without building it."""
    kind = _find(name)
    _check_options(name, kind, options)
    return kind.stride_of(**options)


def _find(name: str) -> type[KeypointModel]:
    if name not in MODELS:
        near = difflib.get_close_matches(name, MODELS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"unknown model {name!r}; known: {', '.join(MODELS)}{hint}")
    module, _, attribute = MODELS[name].partition(":")
    found: type[KeypointModel] = getattr(import_module(module), attribute)
    return found


def _check_options(name: str, kind: type[KeypointModel], options: dict[str, Any]) -> None:
    known = [
        parameter.name
        for parameter in inspect.signature(kind).parameters.values()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(
                f"model {name} has no option {option!r}; it has {', '.join(known)}{hint}"
            )
