"""The public calls of the training half; torch is imported when one of them runs.

The way from `posemill train` to a step of the optimizer:

1. `cli.train.train` reads flags and file into a `TrainConfig` and calls `train`, as Python does.
2. `launch.start.train` builds the workload (`tasks.building.build_workload`: data, model, loss),
   decides precision and mode (`launch.modes`; the mode is measured by `launch.probe`), makes the
   run's folder.
3. `launch.ranks.launch` goes on in this process, starts several, or joins those of torchrun.
4. `loop.rank.train_rank` is one process's part, the only one of a single process: it makes the
   `loop.trainer.Trainer`, lets it run, scores the best weights, writes summary and figures.
5. `Trainer.run` goes through epochs, evaluations and checkpoints.
6. `loop.stepping.Stepper.take` is one step: forward, backward (`loop.data_parallel` exchanges
   gradients), clip, optimizer, moving average.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posemill.errors import ConfigError
from posemill.training.config.resolve import Resolved, resolve_config
from posemill.training.config.train_config import TrainConfig
from posemill.training.extra import naming_the_extra

if TYPE_CHECKING:
    from torch import nn

    from posemill.records import PoseClip
    from posemill.training.launch.start import TrainResult
    from posemill.training.runs.inference import Prediction


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
    """Return the settings with what the machine decides; torch knows the machine."""
    found: Resolved = _find("launch.modes", "resolve_hardware")(resolved)
    return found


def data_of(run: Path | str) -> tuple[str, dict[str, Any]]:
    """Return (skeleton, recipe) that new clips must have for a run's model."""
    found: tuple[str, dict[str, Any]] = _find("runs.inference", "data_of")(run)
    return found


def _find(module: str, name: str) -> Any:
    """Return a function of the training half, or say which extra brings what is missing."""
    with naming_the_extra():
        return getattr(import_module(f"posemill.training.{module}"), name)
