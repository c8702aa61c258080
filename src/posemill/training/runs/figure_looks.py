"""Which frame and which part of the picture predictions on video rest on."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from posemill.records import FloatArray
from posemill.skeletons.palette import BAD, GOOD
from posemill.training.data.batches import Batch, Draw
from posemill.training.data.clips import Clips
from posemill.training.loop.passes import Evaluation
from posemill.training.precision import as_float
from posemill.training.runs.figure_samples import choose_samples, describe_sample
from posemill.training.runs.figures import new_figure
from posemill.training.tasks.workload import Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NUM_LOOKS = 4
_CELLS = 7  # of the picture's side; a square of two by two is covered at a time
_AT_ONCE = 16
_GREY = (124, 116, 104)  # what ImageNet's mean is: 0 after `ClipTransform`
_WIDTH = 10.8


def draw_looks(
    workload: Workload, clips: Clips, result: Evaluation, split_name: str
) -> Figure | None:
    """Return the frame that some predictions need most, and where in the picture they look.

    A grey square covers a place in all frames of a clip: the more the chance of the class falls by
    that, the warmer the place. The same with whole frames finds the frame that is shown. None
    where a clip has no one class, or the model is not given its pixels.
    """
    task = workload.task
    if task.is_sequence or not clips.gives_frames or not result.rows:
        return None
    chosen = choose_samples(task, result.rows)[::2][:_NUM_LOOKS]
    figure = new_figure(_WIDTH, 2 * (_WIDTH / _NUM_LOOKS) + 0.9)
    grid = figure.subplots(2, _NUM_LOOKS, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    image: Any = None
    for (top, below), row in zip(grid.T, chosen, strict=False):
        clip = clips[Draw(row.sample)]
        frames = clip.inputs[0][0].numpy()
        said = int(row.said)
        of_frames = chances_lost(workload, clip, said, _covered_frames(frames))
        lost = chances_lost(workload, clip, said, _covered_places(frames)).reshape(_CELLS, _CELLS)
        key = int(of_frames.argmax())
        text, is_right = describe_sample(task, row, workload.class_names), task.is_right(row)
        top.imshow(frames[key])
        top.set_title(
            f"{'✓' if is_right else '✗'} {text}".replace(", true", "\ntrue"),
            fontsize=8,
            color=GOOD if is_right else BAD,
        )
        height, width = frames.shape[1:3]
        below.imshow(frames[key], extent=(0, width, height, 0))
        most = max(0.05, float(lost.max()))
        image = below.imshow(
            lost.clip(0, most) / most,
            cmap="inferno",
            alpha=0.55,
            vmin=0,
            vmax=1,
            extent=(0, width, height, 0),
            interpolation="bilinear",
        )
        below.set_title(
            f"frame {key + 1} of {len(frames)}; covered: {-lost.max():+.0%}", fontsize=8
        )
    bar = figure.colorbar(image, ax=grid.ravel().tolist(), shrink=0.5, aspect=30)
    bar.set_label("chance lost, of the most", fontsize=8)
    figure.suptitle(f"{split_name}: where predictions look, found by covering", fontsize=10)
    return figure


@torch.no_grad()
def chances_lost(
    workload: Workload, clip: Batch, said: int, covered: npt.NDArray[np.uint8]
) -> FloatArray:
    """Return `(N,)`: how much the chance of a class falls for each changed form of a clip.

    Args:
        workload: Its model, on any device.
        clip: A batch of the clip alone.
        said: The class.
        covered: `(N, T, height, width, 3)`: the clip's frames, changed.
    """
    model = workload.model.eval()
    device = next(model.parameters()).device
    forms = torch.cat([clip.inputs[0], torch.from_numpy(covered)])
    found = []
    for part in torch.split(forms, _AT_ONCE):
        lengths = clip.lengths.expand(len(part))
        batch = dataclasses.replace(clip, inputs=(part, lengths), lengths=lengths).to(device)
        found.append(as_float(workload.task.call(model, batch)).softmax(-1)[:, said].cpu())
    chances = torch.cat(found)
    lost: FloatArray = (chances[0] - chances[1:]).numpy()
    return lost


def _covered_frames(frames: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return `(T, T, …)`: the clip with one frame after the other grey."""
    forms = np.repeat(frames[None], len(frames), 0)
    forms[np.arange(len(frames)), np.arange(len(frames))] = _GREY
    return forms


def _covered_places(frames: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return `(49, T, …)`: the clip with a grey square at each place, row by row."""
    height, width = frames.shape[1:3]
    forms = np.repeat(frames[None], _CELLS**2, 0)
    for number, (row, column) in enumerate(np.ndindex(_CELLS, _CELLS)):
        top, left = (row - 0.5) * height / _CELLS, (column - 0.5) * width / _CELLS
        down = slice(max(0, round(top)), round(top + 2 * height / _CELLS))
        across = slice(max(0, round(left)), round(left + 2 * width / _CELLS))
        forms[number, :, down, across] = _GREY
    return forms
