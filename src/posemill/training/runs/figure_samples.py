"""Sample predictions drawn on their skeletons, and by a function of the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from posemill.records import BoolArray, FloatArray
from posemill.skeletons import get_skeleton
from posemill.skeletons.palette import (
    BAD,
    COLOURS,
    GOOD,
    GREY,
    bone_keys,
    hex_of,
    part_colour,
    point_keys,
)
from posemill.training.data.batches import Batch
from posemill.training.data.clips import Clips
from posemill.training.data.loaders import open_loader
from posemill.training.fitting.user_clips import take_sample
from posemill.training.loop.evaluation import Evaluation
from posemill.training.loop.trainer import Trainer
from posemill.training.precision import as_float
from posemill.training.runs.figures import new_figure
from posemill.training.runtime import Runtime
from posemill.training.tasks.task import Row, Task
from posemill.training.tasks.workload import Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NUM_SAMPLES = 8
_WIDTH = 10.8  # inches of all columns
_COLUMNS = 4
DrawSample = Callable[[Any, Any, Any], None]


def draw_samples(
    workload: Workload, clips: Clips, result: Evaluation, split_name: str
) -> Figure | None:
    """Return up to eight clips with what was said about them, half of them wrong where there are.

    None where clips have no keypoints to draw.
    """
    task = workload.task
    chosen = choose_samples(task, result.rows)
    pictures = [clips.picture(row.sample) for row in chosen]
    points = [(each.clip_id, each.points) for each in pictures if each and each.points]
    if not points:
        return None
    columns = 2 if task.is_sequence else 4  # sentences need room
    rows = -(-len(chosen) // columns)
    figure = new_figure(_WIDTH, 3.1 * rows + 0.4)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for axes, row, (clip_id, clip_points) in zip(grid.flat, chosen, points, strict=False):
        draw_skeleton(axes, *clip_points, workload.skeleton_name)
        text, is_right = describe_sample(task, row, workload.class_names), task.is_right(row)
        mark = "✓" if is_right else "✗"
        axes.set_title(f"{mark} {clip_id}\n{text}", fontsize=8, color=GOOD if is_right else BAD)
    figure.suptitle(f"{split_name}: ✓ right, ✗ wrong", fontsize=10)
    return figure


def draw_skeleton(
    axes: Axes, points: FloatArray, mask: BoolArray, skeleton_name: str | None
) -> None:
    """Draw the frame with most points, and the paths of the points through the clip behind it.

    Args:
        axes: Where to.
        points: `(frames, keypoints, dims)`, y down.
        mask: `(frames, keypoints)`.
        skeleton_name: One of ours, or None: then the points alone.
    """
    frame = _busiest(mask)
    seen = np.where(mask[..., None], points[..., :2], np.nan)
    parts: Any = get_skeleton(skeleton_name).parts if skeleton_name else ()
    for part in parts:
        if part.name.endswith("hand"):
            colour = part_colour(part.name)
            path = seen[:, part.start : part.stop]
            found = mask[:, part.start : part.stop].sum(1, keepdims=True)
            centre = np.divide(
                np.nan_to_num(path).sum(1),
                found,
                out=np.full((len(path), 2), np.nan),
                where=found > 0,
            )
            axes.plot(centre[:, 0], centre[:, 1], color=colour, alpha=0.35, linewidth=4)
    now = seen[frame]
    if skeleton_name:
        bones = get_skeleton(skeleton_name).bones
        for (one, other), key in zip(bones, bone_keys(skeleton_name), strict=True):
            ends = now[[one, other]]
            axes.plot(ends[:, 0], ends[:, 1], color=hex_of(COLOURS[key]), linewidth=1.2)
    else:
        for point in range(seen.shape[1]):
            axes.plot(seen[:, point, 0], seen[:, point, 1], color=GREY, alpha=0.3, linewidth=1)
    keys = point_keys(skeleton_name) if skeleton_name else ()
    dots = [hex_of(COLOURS[key]) for key in keys] or GREY
    axes.scatter(now[:, 0], now[:, 1], s=3 if skeleton_name else 8, c=dots, zorder=3)
    axes.set_aspect("equal", adjustable="datalim")
    axes.invert_yaxis()


def _busiest(mask: BoolArray) -> int:
    """The frame with most points, the one nearest to the middle among equals."""
    counts = mask.sum(1)
    best = np.flatnonzero(counts == counts.max())
    return int(best[np.argmin(np.abs(best - len(mask) / 2))])


def choose_samples(task: Task, rows: list[Row]) -> list[Row]:
    """Return up to eight rows, the wrong ones first, drawn the same every time."""
    wrong = [row for row in rows if not task.is_right(row)]
    right = [row for row in rows if task.is_right(row)]
    rng = np.random.default_rng(0)
    for group in (wrong, right):
        rng.shuffle(group)
    num_wrong = min(len(wrong), max(_NUM_SAMPLES // 2, _NUM_SAMPLES - len(right)))
    return wrong[:num_wrong] + right[: _NUM_SAMPLES - num_wrong]


def describe_sample(task: Task, row: Row, names: tuple[str, ...]) -> str:
    """Return what was said and, unless that is the same, what is true."""
    words = task.describe(row, names)
    if words.chance is None:
        return f"said {_cut(words.said or 'nothing')}\ntrue {_cut(words.true or 'nothing')}"
    text = f"{words.said} {words.chance:.0%}"
    return text if task.is_right(row) else f"{text}, true {words.true}"


def _cut(text: str) -> str:
    return text if len(text) <= 75 else text[:74] + "…"


def draw_user_samples(
    draw: DrawSample, batch: Batch, output: Any, name: str, *, most: int = _NUM_SAMPLES
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
        draw(axes, take_sample(batch.inputs, row, count), take_sample(output, row, count))
    figure.suptitle(name, fontsize=10)
    return figure


@torch.no_grad()
def draw_first_samples(trainer: Trainer) -> Figure | None:
    """Return the first samples of the validation set with the trainer's weights, None of none."""
    workload = trainer.workload
    if workload.draw_sample is None:
        return None
    is_scored = workload.val is not None
    split = workload.train if workload.val is None else workload.val
    config = trainer.config.replace(workers=0, parallel="single", processes=1)
    loader = open_loader(split, config, Runtime(), shuffle=not is_scored)
    batch: Batch = next(loader.batches()).to(trainer.runtime.device)
    model = workload.model.eval()
    with trainer.runtime.autocast():
        output = workload.task.call(model, batch)
    return draw_user_samples(
        workload.draw_sample,
        batch,
        as_float(output),
        trainer.config.val_split if is_scored else "train",
    )
