"""`fit`: a user's own model and data, with all modes and settings; its runs put to use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import nn

from posemill.errors import ConfigError
from posemill.machine.processes import under_torchrun
from posemill.outputs import expect_folder
from posemill.training.config.resolve import Resolved
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.loaders import open_loader
from posemill.training.fitting.user_clips import Collate, take_sample
from posemill.training.fitting.user_task import UserTask, no_loss
from posemill.training.fitting.workload import (
    make_user_workload,
    read_split,
    settings_of_loader,
)
from posemill.training.launch.start import TrainResult, run_training
from posemill.training.loggers import make_loggers
from posemill.training.loop.passes import evaluate_split
from posemill.training.precision import as_float, choose_device
from posemill.training.record.checkpoints import load_into
from posemill.training.record.run_folder import RunFolder
from posemill.training.runs.inference import config_of, load_model
from posemill.training.runtime import Runtime
from posemill.training.tasks.workload import Callbacks

_RUNS = Path("runs")


def fit(
    model: nn.Module,
    data: tuple[Any, Any],
    options: Mapping[str, Any],
    config: TrainConfig,
) -> TrainResult:
    """Train, and leave the model with the best weights."""
    names = {
        name: options[name] for name in ("optimizer", "scheduler") if isinstance(options[name], str)
    }
    if "scheduler" in names and options["optimizer"] is not None and "optimizer" not in names:
        raise ConfigError(
            "{--scheduler:{scheduler}} goes with an optimizer by name; to an optimizer of your own "
            "give a scheduler of torch, or a function that builds one",
            scheduler=names["scheduler"],
        )
    for name, function in options["callbacks"].items():
        if function is not None and not callable(function):
            raise TypeError(f"{name}: expected a function, got {type(function).__name__}")
    config = config.replace(**names)
    config = config.replace(**settings_of_loader(data[0], config.given))
    own = {
        **options,
        **dict.fromkeys(names),
        "callbacks": Callbacks(**options["callbacks"]),
        "loggers": make_loggers(options["loggers"]),
    }
    make = partial(make_user_workload, model, data, **own)
    if config.resume and not config.out:
        raise ConfigError(
            "{--resume:True} continues the run in {--out}, which is empty: give its folder, for "
            "example {--out:runs/fit1}"
        )
    if config.out:
        expect_folder(config.out, kind="a run")
        result = run_training(make, Resolved.of(config))
    else:
        folder = _new_folder()
        config = config.replace(out=str(folder))
        try:
            result = run_training(make, Resolved.of(config))
        finally:
            with suppress(OSError):
                folder.rmdir()  # empty still: nothing began
    load_into(model, RunFolder(config.out).checkpoints.load_weights("best"), where="best")
    return result


def _new_folder() -> Path:
    """Return a new folder below `runs`: what `fit` returns stays, wherever it was called."""
    if under_torchrun():
        raise ConfigError(
            "{--out}: expected the folder of the run, for example {--out:runs/fit1}: the "
            "processes of "
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
                "{--out}: cannot make {folder} ({reason}); give the folder of the run: {--out:…}",
                folder=folder.absolute(),
                reason=error.strerror,
            ) from error
        return folder.absolute()
    raise AssertionError("count() does not end")


def evaluate(
    run: Path | str,
    model: nn.Module,
    data: Any,
    *,
    loss: Callable[[Any, Any], Any] | None,
    options: Mapping[str, Any],
    checkpoint: str,
    device: str,
) -> dict[str, Any]:
    """Return the scores of a run's model on a data set; `options` are keywords of `fit`.

    The model is left with the run's weights. Without a `loss` there is none among the scores.
    """
    chosen, config = choose_device(device), _config_of(run)
    loaded = load_model(run, model=model, checkpoint=checkpoint)
    workload = make_user_workload(loaded, (data, data), config, loss=loss or no_loss, **options)
    workload.model.to(chosen)
    assert workload.val is not None
    runtime = Runtime(device=chosen)
    loader = open_loader(workload.val, config, runtime, shuffle=False)
    result = evaluate_split(workload, loader, runtime)
    scores = {name: value for name, value in result.scores.items() if loss or name != "loss"}
    return {**scores, "checkpoint": checkpoint, "run": str(run)}


@torch.no_grad()
def predict(
    run: Path | str,
    model: nn.Module | None,
    data: Any,
    *,
    collate_fn: Collate | None = None,
    forward: Callable[[nn.Module, Any], Any] | None = None,
    device: str = "auto",
) -> Iterator[Any]:
    """Yield what a run's model says of each sample of a data set, in their order, on the CPU."""
    chosen, config = choose_device(device), _config_of(run)
    loaded = load_model(run, model=model).to(chosen)
    task = UserTask(no_loss, model=loaded, forward=forward)
    split = read_split("data", data, config, collate=collate_fn)
    for batch in open_loader(split, config, Runtime(device=chosen), shuffle=False).batches():
        output = as_float(task.call(loaded, batch.to(chosen)))
        for row in range(len(batch)):
            yield take_sample(output, row, len(batch))


def _config_of(run: Path | str) -> TrainConfig:
    """Return the settings of a run for one process that takes samples in their order."""
    return config_of(run).replace(
        workers=0, parallel="single", processes=1, bucket_by_length=False, resume=False
    )
