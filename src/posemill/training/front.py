"""The public calls of the training half; torch is imported when one of them runs.

`docs/architecture.md` has the way from `posemill train` to a step of the optimizer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from posemill.errors import ConfigError, naming_the_extra
from posemill.files import atomic_path
from posemill.outputs import Outputs
from posemill.settings import setting
from posemill.training.config.resolve import Resolved, resolve_config, resolve_made
from posemill.training.config.train_config import TrainConfig

if TYPE_CHECKING:
    from torch import nn

    from posemill.training.launch.start import TrainResult
    from posemill.training.tuning.tune import Tuned


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
        resolved = resolve_config(None if config is None else Path(config), settings)
    elif settings:
        template = "a {kind} says everything; {names} came beside it"
        raise ConfigError(template, kind=type(config).__name__, names=", ".join(settings))
    elif isinstance(config, TrainConfig):
        resolved = resolve_made(config)
    elif isinstance(config, Mapping):
        resolved = resolve_config(None, config)
    else:
        resolved = config
    with naming_the_extra():
        from posemill.training.launch.start import train as start_training
    return start_training(resolved)


def tune(
    config: Annotated[
        os.PathLike[str] | str | None,
        setting("TOML file; every flag below is a field of it.", metavar="CONFIG", argument=True),
    ] = None,
    *,
    out: Annotated[
        os.PathLike[str] | str | None, setting("TOML file to write: yours, with what was found.")
    ] = None,
    keep_maths: Annotated[bool, setting("Leave batch and precision alone.")] = False,
    overwrite: Annotated[
        bool, setting("Replace files that posemill did not write for this source.")
    ] = False,
    **settings: Annotated[Any, TrainConfig],
) -> Tuned:
    """Return faster settings for a training, measured on this machine, its data and its model.

    Settings that are given beside the file stay as they are. The result is never slower than what
    it began with: both are measured in turns at the end, and unless the new is clearly faster
    nothing is changed.

    Args:
        config: A TOML file.
        out: TOML file to write: what the user gave, and what was found, with the reason.
        keep_maths: Leave batch and precision alone.
        overwrite: Replace a file `out` that did not come of tuning this configuration.
        settings: Fields of `TrainConfig`, alone or on top of a file; `tune_seconds` is the time
            that it may take.
    """
    outputs = Outputs(config or "", overwrite=overwrite)
    if out is not None:
        outputs.claim_file(Path(out))
        Path(out).absolute().parent.mkdir(parents=True, exist_ok=True)  # not after a minute
    settings["tune"] = "speed" if keep_maths else "all"
    resolved = resolve_config(None if config is None else Path(config), settings)
    with naming_the_extra():
        from posemill.training.tasks.workload import build_workload
        from posemill.training.tuning.modes import processor_made_ready
        from posemill.training.tuning.tune import tune_training
    with processor_made_ready(resolved.config):
        found = tune_training(build_workload, resolved)
    if out is not None:
        with outputs.writing_file(Path(out)), atomic_path(Path(out)) as temporary:
            temporary.write_text(found.resolved.to_toml(is_short=True), encoding="utf-8")
    return found


def evaluate(
    run: Annotated[
        os.PathLike[str] | str,
        setting("Folder that `posemill train` wrote.", metavar="RUN", argument=True),
    ],
    *,
    split: Annotated[
        str, setting("Split to score; empty: the one that the training was judged by.")
    ] = "",
    checkpoint: Annotated[str, setting("Checkpoint to use: best or last.")] = "best",
    data: Annotated[Any, setting("Score other data than the run's own.")] = "",
    labels: Annotated[str, setting("Labels of that data.")] = "",
    device: Annotated[str, setting("auto, cpu, cuda or cuda:N.")] = "auto",
    model: nn.Module | None = None,
    loss: Callable[[Any, Any], Any] | None = None,
    metric: Callable[[Any, Any], Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    forward: Callable[[nn.Module, Any], Any] | None = None,
) -> dict[str, Any]:
    """Return the scores of a run on a split of its data, or of other data of the same kind.

    Args:
        run: Folder that `train` or `fit` wrote.
        split: Which clips; of a run of `train`. Empty: those that the training was judged by at its
            end, test or else dev; of other data test.
        checkpoint: `best` or `last`.
        device: Where to compute: `auto`, `cpu`, `cuda` or `cuda:N`.
        data: Other data than the run's own. Of a run of `fit`: the data set to score.
        labels: Labels of that data.
        model: Of a run of `fit`: a model of the same class and sizes, which gets the weights.
        loss: Of a run of `fit`: as `fit` was given it.
        metric: Likewise.
        metrics: Likewise.
        collate_fn: Likewise.
        forward: Likewise.
    """
    with naming_the_extra():
        from posemill.training.launch.fit import evaluate as evaluate_model
        from posemill.training.runs.inference import evaluate as evaluate_run
    if model is None:
        return evaluate_run(
            Path(run), split=split, checkpoint=checkpoint, device=device, data=data, labels=labels
        )
    options = {"metric": metric, "metrics": metrics, "collate_fn": collate_fn, "forward": forward}
    return evaluate_model(
        Path(run), model, data, loss=loss, options=options, checkpoint=checkpoint, device=device
    )
