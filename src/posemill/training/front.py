"""The public calls of the training half; torch is imported when one of them runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posemill.errors import ConfigError, MissingExtraError
from posemill.training.config.resolve import Resolved, resolve_config
from posemill.training.config.train_config import TrainConfig

if TYPE_CHECKING:
    from torch import nn

    from posemill.records import PoseClip
    from posemill.training.launch.start import TrainResult
    from posemill.training.runs.inference import Prediction

_PACKAGES = ("torch", "safetensors", "matplotlib")


def train(
    config: TrainConfig | Resolved | Mapping[str, Any] | os.PathLike[str] | str | None = None,
    **settings: Any,
) -> TrainResult:
    """Return the result of training what a configuration says; `posemill train` calls this.

    Args:
        config: A TOML file, a `TrainConfig`, or a mapping of its fields.
        settings: Fields of `TrainConfig`, as `posemill train` has them as flags: alone, or on top
            of a file.
    """
    if config is None or isinstance(config, str | os.PathLike):
        config = resolve_config(None if config is None else Path(config), settings)
    elif settings:
        raise ConfigError(
            f"a {type(config).__name__} says everything; {', '.join(settings)} came beside it"
        )
    result: TrainResult = _find("launch.start", "train")(config)
    return result


def fit(
    model: nn.Module,
    train_set: Any,
    val_set: Any = None,
    *,
    loss: Callable[[Any, Any], Any],
    config: TrainConfig | None = None,
    metric: Callable[[Any, Any], Any] | None = None,
    **settings: Any,
) -> TrainResult:
    """Return the result of training any torch model on any data set; the model is left trained.

    Args:
        model: Trained in place, left with the best weights.
        train_set: `len()` and `[index] -> (input, …, target)`; `lengths` is used where it has it.
        val_set: The same, to choose the best weights; None keeps the last.
        loss: `loss(output, target)`: the mean over samples, or `(sum, number of samples)`.
        config: Settings; those of data and model are not used.
        metric: `metric(output, target)`: its mean over samples, the higher the better.
        settings: Fields of `TrainConfig`, as a shorter way to write `config`.
    """
    result: TrainResult = _find("launch.start", "fit")(
        model, train_set, val_set, loss=loss, config=config, metric=metric, **settings
    )
    return result


def load_model(run: Path | str, *, checkpoint: str = "best") -> nn.Module:
    """Return the trained model of a run, on the CPU, ready to predict.

    Args:
        run: Folder that `train` wrote.
        checkpoint: `best` or `last`.
    """
    model: nn.Module = _find("launch.start", "load_model")(run, checkpoint=checkpoint)
    return model


def evaluate(run: Path | str, *, split: str = "test", **options: Any) -> dict[str, Any]:
    """Return the scores of a run on a split; see `training.inference.evaluate`."""
    scores: dict[str, Any] = _find("runs.inference", "evaluate")(run, split=split, **options)
    return scores


def predict(
    run: Path | str, clips: Iterable[PoseClip] | Path | str, *, device: str = "auto"
) -> Iterator[Prediction]:
    """Yield what a run's best model says about each clip; see `training.inference.predict`."""
    found: Iterator[Prediction] = _find("runs.inference", "predict")(run, clips, device=device)
    return found


def resolve_hardware(resolved: Resolved) -> Resolved:
    """Return the settings with what the machine decides; as they are where torch is missing."""
    if find_spec("torch") is None:
        return resolved
    found: Resolved = _find("launch.modes", "resolve_hardware")(resolved)
    return found


def data_of(run: Path | str) -> tuple[str, dict[str, Any]]:
    """Return (skeleton, recipe) that new clips must have for a run's model."""
    found: tuple[str, dict[str, Any]] = _find("runs.inference", "data_of")(run)
    return found


def _find(module: str, name: str) -> Any:
    """Return a function of the training half, or say which extra brings what is missing."""
    try:
        return getattr(import_module(f"posemill.training.{module}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in _PACKAGES:
            raise
        raise MissingExtraError(
            f"training needs {error.name!r}; run: pip install 'posemill[train]'"
        ) from error
