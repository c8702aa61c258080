"""One batch before the first step: what does not fit together is one sentence, with shapes."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from posemill.training.config.train_config import TrainConfig
from posemill.training.data.batches import Batch
from posemill.training.data.clips import Clips
from posemill.training.data.loaders import open_loader
from posemill.training.fitting.user_task import UserTask, no_loss
from posemill.training.loop.passes import call_model
from posemill.training.runs.figure_samples import draw_user_samples
from posemill.training.runtime import Runtime, random_states_kept
from posemill.training.tasks.workload import Workload

# What user code raises; memory that runs out says enough by itself.
_FAULTS = (
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    OSError,
)


def try_one_batch(workload: Workload, config: TrainConfig) -> None:
    """Do with one batch what a step and an evaluation do; raise `ValueError` where it fails.

    The model, the data's order and all random generators are as before afterwards.
    """
    runtime = Runtime().using(config)
    device, task = runtime.device, cast(UserTask, workload.task)
    model = copy.deepcopy(workload.model).to(device).train()
    with random_states_kept():
        name, batch = "train_set", _first_batch(workload.train, "train_set", config).to(device)
        output = _run(task, model, batch, runtime)
        loss = _loss(task, output, batch)
        if not loss.requires_grad:
            raise ValueError(
                "the loss does not depend on the model's weights: is there a detach(), no_grad(), "
                "argmax or .item() between them?"
            )
        with _naming("the backward pass failed"):
            loss.backward()  # type: ignore[no-untyped-call]
        if workload.make_optimizer is not None:
            made = workload.make_optimizer(model, config, device)
            if workload.val is None and made.is_told_scores:
                raise ValueError("scheduler: ReduceLROnPlateau goes by scores: give a val_set")
        if workload.val is not None:
            name, batch = "val_set", _first_batch(workload.val, "val_set", config).to(device)
            with torch.no_grad():
                output = _run(task, model.eval(), batch, runtime)
                _loss(task, output, batch)
            for metric_name, metric in task.metrics.items():
                what = f"metric {metric_name!r} failed with {_met(output, batch)}"
                with _naming(what, passed="metric "):
                    UserTask(no_loss, {metric_name: metric}, metric_name).observe(output, batch)
        if workload.draw_sample is not None and config.figures:
            with _naming(f"draw_sample(axes, sample, output) failed on the first batch of {name}"):
                draw_user_samples(workload.draw_sample, batch, output, name, most=1)


def _first_batch(clips: Clips, name: str, config: TrainConfig) -> Batch:
    alone = config.replace(workers=0, parallel="single", processes=1)
    loader = open_loader(clips, alone, Runtime(), shuffle=name == "train_set")
    with (
        _naming(f"{name}: its first samples do not make a batch"),
        closing(loader.batches()) as batches,
    ):
        batch: Batch | None = next(batches, None)
    if batch is None:
        raise ValueError(f"{name}: expected samples, got none")
    values = batch.inputs
    is_too_short = isinstance(values, (tuple, list)) and len(values) < 2
    if is_too_short or isinstance(values, (Tensor, np.ndarray, str, bytes)):
        expected = "samples (input, …, target) or a dict"
        raise ValueError(f"{name}: expected {expected}, got a batch of {describe(values)}")
    return batch


def _run(task: UserTask, model: nn.Module, batch: Batch, runtime: Runtime) -> Any:
    if missing := task.missing_in(batch.inputs):
        needed, known = (", ".join(map(repr, names)) for names in (missing, batch.inputs))
        raise ValueError(
            f"the model's forward needs {needed}, and a batch has {known}: name them alike, or "
            "give forward=, a function of model and batch"
        )
    with _naming(f"the model cannot take a batch of {describe(batch.inputs)}"):
        return call_model(task, model, batch, runtime)


def _loss(task: UserTask, output: Any, batch: Batch) -> Tensor:
    with _naming(f"loss(output, target) failed with {_met(output, batch)}", passed="loss: "):
        total, count = task.loss(output, batch)
    if not bool(torch.isfinite(total.detach()).all()):
        raise ValueError(
            f"the loss of the first batch is {float(total.detach())} with {_met(output, batch)}: "
            "look for a division by zero, a log of 0 or NaN in the data"
        )
    if not float(count) > 0:
        raise ValueError(f"loss: expected a number of samples above 0, got {float(count)}")
    return total


def _met(output: Any, batch: Batch) -> str:
    return f"output {describe(output)}, target {describe(batch.targets)}"


@contextmanager
def _naming(what: str, passed: str = "") -> Iterator[None]:
    """Say what was tried when user code raises; messages that begin with `passed` say it."""
    try:
        yield
    except _FAULTS as error:
        text = next(iter(str(error).splitlines()), "")
        if isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in text:
            raise
        if passed and text.startswith(passed):
            raise
        raise ValueError(f"{what}: {type(error).__name__}: {text}") from error


def describe(value: Any) -> str:
    """Return kinds and shapes: `(float32 (6, 3, 8, 8), int64 (6,))`."""
    if isinstance(value, (Tensor, np.ndarray)):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {describe(part)}" for name, part in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        shown = [describe(part) for part in value[:6]] + ["…"] * (len(value) > 6)
        return "(" + ", ".join(shown) + ")"
    return type(value).__name__
