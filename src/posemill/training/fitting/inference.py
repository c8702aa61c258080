"""A run of `fit` put to use: scores of a data set, and what its model says of each sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from posemill.training.config.resolve import read_config
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.loaders import open_loader
from posemill.training.fitting.batches import CallModel, Collate, take_sample
from posemill.training.fitting.data_sets import ReadData
from posemill.training.fitting.workload import FitOptions, make_user_workload
from posemill.training.launch.start import load_model
from posemill.training.loop.distributed import World
from posemill.training.loop.evaluation import evaluate_split
from posemill.training.loop.precision import Precision, as_float, choose_device
from posemill.training.runs.run_folder import RunFolder


def evaluate(
    run: Path | str,
    model: nn.Module | None,
    data: Any,
    *,
    loss: Callable[[Any, Any], Any] | None = None,
    metric: Any = None,
    metrics: Mapping[str, Any] | None = None,
    collate_fn: Collate | None = None,
    forward: Callable[[nn.Module, Any], Any] | None = None,
    checkpoint: str = "best",
    device: str = "auto",
) -> dict[str, Any]:
    """Return the scores of a run's model on a data set; the arguments are those of `fit`.

    The model is left with the run's weights. Without a `loss` there is none among the scores.
    """
    chosen, config = choose_device(device), _config_of(run)
    loaded = load_model(run, model=model, checkpoint=checkpoint)
    options = FitOptions(
        loss or _no_loss, metric=metric, metrics=metrics, collate_fn=collate_fn, forward=forward
    )
    workload = make_user_workload(loaded, (data, data), options, config)
    workload.model.to(chosen)
    assert workload.val is not None
    result = evaluate_split(
        workload,
        workload.val,
        open_loader(workload.val, config, World(), shuffle=False),
        device=chosen,
        precision=Precision("fp32", "of an evaluation", chosen.type),
        world=World(),
    )
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
    call = CallModel(loaded, forward)
    split = ReadData(collate_fn, 0, config).split("data", data)
    for batch in open_loader(split, config, World(), shuffle=False).batches():
        output = as_float(call(loaded, batch.to(chosen)))
        for row in range(len(batch)):
            yield take_sample(output, row, len(batch))


def _config_of(run: Path | str) -> TrainConfig:
    """Return the settings of a run for one process that takes samples in their order."""
    config = TrainConfig(**read_config(RunFolder(run).config_path))
    return config.replace(
        workers=0, parallel="single", processes=1, bucket_by_length=False, resume=False
    )


def _no_loss(output: Any, target: Any) -> Tensor:
    return torch.zeros(())
