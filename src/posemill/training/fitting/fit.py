"""`fit`: a user's own model and data, with all modes and settings of `TrainConfig`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from torch import nn

from posemill.errors import ConfigError
from posemill.outputs import expect_folder
from posemill.training.config.resolve import Resolved
from posemill.training.config.train_config import TrainConfig
from posemill.training.fitting.data_sets import settings_of_loader
from posemill.training.fitting.workload import FitOptions, make_user_workload
from posemill.training.launch.start import TrainResult, run_training
from posemill.training.launch.torchrun import under_torchrun
from posemill.training.loggers import make_loggers
from posemill.training.runs.checkpoints import load_into
from posemill.training.runs.run_folder import RunFolder
from posemill.training.tasks.workload import Callbacks

_RUNS = Path("runs")


def fit(
    model: nn.Module,
    train_set: Any,
    val_set: Any,
    *,
    options: Mapping[str, Any],
    config: TrainConfig | None,
    optimizer: Any,
    scheduler: Any,
    callbacks: tuple[Any, Any, Any],
    loggers: Iterable[Any],
    settings: Mapping[str, Any],
) -> TrainResult:
    """Train, and leave the model with the best weights; the arguments are those of `front.fit`."""
    own = {"optimizer": optimizer, "scheduler": scheduler}
    names = {name: value for name, value in own.items() if isinstance(value, str)}
    if "scheduler" in names and optimizer is not None and "optimizer" not in names:
        raise ConfigError(
            f"scheduler = {scheduler!r} goes with an optimizer by name; to an optimizer of your "
            "own give a scheduler of torch, or a function that builds one"
        )
    for name, function in zip(("on_step", "on_evaluate", "on_epoch"), callbacks, strict=True):
        if function is not None and not callable(function):
            raise TypeError(f"{name}: expected a function, got {type(function).__name__}")
    chosen = (config or TrainConfig()).replace(**settings, **names)
    chosen = chosen.replace(**settings_of_loader(train_set, chosen.given))
    given = FitOptions(
        **options,
        **{name: value for name, value in own.items() if name not in names},
        callbacks=Callbacks(*callbacks),
        loggers=make_loggers(loggers),
    )
    make = partial(make_user_workload, model, (train_set, val_set), given)
    if chosen.resume and not chosen.out:
        raise ConfigError(
            "resume = True continues the run in out, and out is empty: give its folder, for "
            "example out='runs/fit1'"
        )
    if chosen.out:
        expect_folder(chosen.out, kind="a run")
        result = run_training(make, Resolved.of(chosen))
    else:
        folder = _new_folder()
        chosen = chosen.replace(out=str(folder))
        try:
            result = run_training(make, Resolved.of(chosen))
        finally:
            with suppress(OSError):
                folder.rmdir()  # empty still: nothing began
    load_into(model, RunFolder(chosen.out).checkpoints.load_weights("best"), where="best")
    return result


def _new_folder() -> Path:
    """Return a new folder below `runs`: what `fit` returns stays, wherever it was called."""
    if under_torchrun():
        raise ConfigError(
            "out: expected the folder of the run, for example out='runs/fit1': the processes of "
            "torchrun have to agree on it"
        )
    for number in count(1):
        folder = _RUNS / f"fit{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise ConfigError(
                f"out: cannot make {folder.absolute()} ({error.strerror}); give the folder of the "
                "run, out='…'"
            ) from error
        return folder.absolute()
    raise AssertionError("count() does not end")
