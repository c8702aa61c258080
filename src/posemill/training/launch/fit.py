"""`fit`: a user's own model and data, with all modes and settings; its runs put to use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
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
from posemill.training.fitting.workload import make_user_workload, read_split, settings_of_loader
from posemill.training.launch.start import TrainResult, run_training
from posemill.training.loggers import make_loggers
from posemill.training.loop.passes import evaluate_split
from posemill.training.precision import as_float, choose_device
from posemill.training.record.checkpoints import load_into
from posemill.training.record.run_folder import RunFolder
from posemill.training.runs.inference import config_of, load_model
from posemill.training.runtime import Runtime


def fit(
    model: nn.Module,
    train_set: Any,
    val_set: Any = None,
    *,
    loss: Callable[[Any, Any], Any],
    metric: Callable[[Any, Any], Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
    choose_by: str = "",
    collate_fn: Callable[[list[Any]], Any] | None = None,
    forward: Callable[[nn.Module, Any], Any] | None = None,
    optimizer: Any = None,
    scheduler: Any = None,
    scheduler_by: str = "epoch",
    steps_per_epoch: int = 0,
    on_step: Callable[[Any], Any] | None = None,
    on_evaluate: Callable[[Any], Any] | None = None,
    on_epoch: Callable[[Any], Any] | None = None,
    loggers: Iterable[Any] = (),
    draw_sample: Callable[[Any, Any, Any], None] | None = None,
    class_names: Iterable[str] = (),
    config: TrainConfig | None = None,
    **settings: Any,
) -> TrainResult:
    """Return the result of training any torch model on any data; the model is left trained.

    Before the first step one batch is tried: what does not fit together is one sentence.

    Args:
        model: Trained in place, left with the best weights. Called with the inputs of a batch; of a
            dict with the entries that its `forward` names.
        train_set: A data set (`len()` and `[index]`; `lengths` is used where it has it), an
            `IterableDataset`, or a ready `DataLoader`. A sample is `(input, …, target)` or a dict;
            `target` of a dict is the target, and where it has none the whole dict is.
        val_set: The same, to choose the best weights; None keeps the last.
        loss: `loss(output, target)`: the mean over samples, or `(sum, number of samples)`.
        metric: `metric(output, target)`, the higher the better: short for one of `metrics`.
        metrics: By name: a function, or `(function, "max" or "min")`. It returns the mean over the
            batch, or one number for each sample `(B,)`, NaN where a sample has none.
        choose_by: The metric that chooses the best weights, or `loss`; the first by default.
        collate_fn: Makes a batch of a list of samples; torch's default where None.
        forward: `forward(model, batch)` returns the output, where calling the model takes more.
        optimizer: A name (`adamw`, `adam`, `sgd`), an optimizer of torch or several, which then
            step together, or `function(model)` that returns them. Its learning rate is its own.
        scheduler: A name (`cosine` …), a scheduler of torch or several, or `function(optimizer)`
            that returns them. `ReduceLROnPlateau` is told the score that chooses.
        scheduler_by: Whether a scheduler of torch moves after each `epoch` or each `step`.
        steps_per_epoch: Of data without `len()`, which begins again when it is read through.
        on_step: Called with a `Moment` (step, epoch, model, optimizer, lr, loss, scores, is_first,
            out) after each step, in every process; True ends the training.
        on_evaluate: The same after each evaluation, with its `scores`.
        on_epoch: The same after each epoch.
        loggers: `tensorboard`, `wandb`, `mlflow`, or objects as in `posemill.training.loggers`.
        draw_sample: `draw_sample(axes, sample, output)` draws a sample on matplotlib axes.
        class_names: For the confusion matrix, where the model classifies.
        config: Settings; those of data and model are not used.
        settings: Fields of `TrainConfig`, as a shorter way to write `config`. Without `out` the run
            goes to `runs/fit1`, `runs/fit2`, …
    """
    choices = {"optimizer": optimizer, "scheduler": scheduler}
    names = {name: value for name, value in choices.items() if isinstance(value, str)}
    if "scheduler" in names and optimizer is not None and "optimizer" not in names:
        raise ConfigError(
            "{--scheduler:{scheduler}} goes with an optimizer by name; to an optimizer of your own "
            "give a scheduler of torch, or a function that builds one",
            scheduler=scheduler,
        )
    given = {"on_step": on_step, "on_evaluate": on_evaluate, "on_epoch": on_epoch}
    callbacks = {name: function for name, function in given.items() if function is not None}
    for name, function in callbacks.items():
        if not callable(function):
            raise TypeError(f"{name}: expected a function, got {type(function).__name__}")
    chosen = (config or TrainConfig()).replace(**settings).replace(**names)
    chosen = chosen.replace(**settings_of_loader(train_set, chosen.given))
    make = partial(
        make_user_workload,
        model,
        (train_set, val_set),
        loss=loss,
        metric=metric,
        metrics=metrics,
        choose_by=choose_by,
        collate_fn=collate_fn,
        forward=forward,
        optimizer=None if "optimizer" in names else optimizer,
        scheduler=None if "scheduler" in names else scheduler,
        scheduler_by=scheduler_by,
        steps_per_epoch=steps_per_epoch,
        callbacks=callbacks,
        loggers=make_loggers(loggers),
        draw_sample=draw_sample,
        class_names=tuple(class_names),
    )
    if chosen.out:
        expect_folder(chosen.out, kind="a run")
    elif chosen.resume:
        raise ConfigError(
            "{--resume:True} continues the run in {--out}, which is empty: give its folder, for "
            "example {--out:runs/fit1}"
        )
    folder = chosen.out or str(_new_folder())
    try:
        result = run_training(make, Resolved.of(chosen.replace(out=folder)))
    finally:
        with suppress(OSError):
            if not chosen.out:
                Path(folder).rmdir()  # empty still: nothing began
    load_into(model, RunFolder(result.out).checkpoints.load_weights("best"), where="best")
    return result


def _new_folder() -> Path:
    """Return a new folder below `runs`: what `fit` returns stays, wherever it was called."""
    if under_torchrun():
        raise ConfigError(
            "{--out}: expected the folder of the run, for example {--out:runs/fit1}: the "
            "processes of torchrun have to agree on it"
        )
    number = 1
    while True:
        folder = Path("runs").absolute() / f"fit{number}"
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            number += 1
        except OSError as error:
            raise ConfigError(
                "{--out}: cannot make {folder} ({reason}); give the folder of the run: {--out:…}",
                folder=folder,
                reason=error.strerror,
            ) from error


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
