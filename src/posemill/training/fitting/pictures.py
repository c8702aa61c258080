"""Sample pictures of `fit`, drawn by a function of the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from posemill.training.data.loaders import open_loader
from posemill.training.fitting.batches import UserBatch, take_sample
from posemill.training.loop.distributed import World
from posemill.training.loop.precision import as_float
from posemill.training.runs.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from posemill.training.loop.trainer import Trainer

DrawSample = Callable[[Any, Any, Any], None]
_NUM_SAMPLES = 8
_COLUMNS = 4


def draw_user_samples(
    draw: DrawSample, batch: UserBatch, output: Any, name: str, *, most: int = _NUM_SAMPLES
) -> Figure:
    """Return a figure of the first samples of a batch.

    Args:
        draw: `draw(axes, sample, output)`, called with matplotlib axes, a sample as the data set
            gives it, and what the model said about it, tensors on the CPU.
        batch: Samples.
        output: What the model said about them.
        name: Title.
        most: Samples to draw.
    """
    count = len(batch)
    shown = min(most, count)
    rows = -(-shown // _COLUMNS)
    figure = new_figure(2.7 * _COLUMNS, 2.7 * rows + 0.4)
    grid = figure.subplots(rows, _COLUMNS, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for row, axes in zip(range(shown), grid.flat, strict=False):
        draw(axes, take_sample(batch.values, row, count), take_sample(output, row, count))
    figure.suptitle(name, fontsize=10)
    return figure


@torch.no_grad()
def draw_first_samples(trainer: Trainer) -> Figure | None:
    """Return the first samples of the validation set with the trainer's weights, None of none."""
    workload, device = trainer.workload, trainer.device
    if workload.draw_sample is None:
        return None
    is_scored = workload.val is not None
    split = workload.train if workload.val is None else workload.val
    config = trainer.config.replace(workers=0, parallel="single", processes=1)
    loader = open_loader(split, config, World(), shuffle=not is_scored)
    batch: UserBatch = next(loader.batches()).to(device)
    model = workload.model.eval()
    with trainer.stepper.precision.autocast():
        output = workload.forward(model, batch)
    return draw_user_samples(
        workload.draw_sample,
        batch,
        as_float(output),
        trainer.config.val_split if is_scored else "train",
    )
