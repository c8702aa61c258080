"""Clips drawn with what a model said of them: at the end of a training, and by `predict`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from posemill.errors import ConfigError
from posemill.files import atomic_path, mark_file
from posemill.outputs import Outputs
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
from posemill.training.data.batches import Batch, Draw
from posemill.training.data.clips import Clips, Picture
from posemill.training.data.loaders import open_loader
from posemill.training.fitting.user_clips import take_sample
from posemill.training.loop.passes import Evaluation, call_model
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
_MOST_FRAMES = 8  # of a strip of film
_WIDTH = 10.8  # inches of all columns
_NUM_LOOKS = 4
_CELLS = 7  # of the picture's side; a square of two by two is covered at a time
_AT_ONCE = 16
_GREY = (124, 116, 104)  # what ImageNet's mean is: 0 after `ClipTransform`
DrawSample = Callable[[Any, Any, Any], None]


def draw_samples(
    workload: Workload, clips: Clips, result: Evaluation, split_name: str
) -> Figure | None:
    """Return up to eight clips with what was said about them, half of them wrong where there are.

    Keypoints are drawn as skeletons, video as strips of film; None where clips have neither.
    """
    task, names = workload.task, workload.class_names
    pictures = [(row, clips.picture(row.sample)) for row in choose_samples(task, result.rows)]
    shown = [
        (row, picture)
        for row, picture in pictures
        if picture and (picture.points is not None or picture.frames is not None)
    ]
    if not shown:
        return None
    film = next((each.frames for _, each in shown if each.points is None), None)
    columns = 2 if task.is_sequence else 4  # sentences need room
    height = 3.1
    if film is not None:
        columns, height = 1, _film_height(film) + 0.35
    figure, places = _grid(len(shown), columns, (_WIDTH / columns, height))
    for axes, (row, picture) in zip(places, shown, strict=False):
        _draw_picture(axes, picture, workload.skeleton_name)
        title = f"{picture.clip_id}\n{describe_sample(task, row, names)}"
        if film is not None:
            title = title.replace("\n", ": ", 1).replace("\n", "; ")
        _judge(axes, title, is_right=task.is_right(row), loc="center" if film is None else "left")
    figure.suptitle(f"{split_name}: ✓ right, ✗ wrong", fontsize=10)
    return figure


def _grid(count: int, columns: int, size_wh: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """Return a figure with places for pictures of a size in inches, without scales; the places."""
    rows = -(-count // columns)
    figure = new_figure(size_wh[0] * columns, size_wh[1] * rows + 0.4)
    places = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in places:
        axes.axis("off")
    return figure, places


def _judge(
    axes: Axes, text: str, *, is_right: bool, loc: Literal["left", "center"] = "center"
) -> None:
    """Write above a picture what was said of it, and whether that is true."""
    mark, colour = ("✓", GOOD) if is_right else ("✗", BAD)
    axes.set_title(f"{mark} {text}", fontsize=8, loc=loc, color=colour)


def _draw_picture(axes: Axes, picture: Picture, skeleton_name: str | None) -> None:
    """Draw the keypoints of a clip, or its frames side by side where it has none."""
    if picture.points is not None:
        draw_skeleton(axes, *picture.points, skeleton_name)
    elif picture.frames is not None:
        axes.imshow(film_strip(picture.frames))


def _film_height(frames: npt.NDArray[np.uint8]) -> float:
    """Return the height in inches of a strip of film that is as wide as a figure."""
    height, width = film_strip(frames).shape[:2]
    return _WIDTH * float(height / width)


def film_strip(frames: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return up to eight frames of a clip side by side, white lines between them."""
    shown = frames[np.linspace(0, len(frames) - 1, _MOST_FRAMES).round().astype(int)]
    edged = np.pad(shown, ((0, 0), (0, 0), (0, 2), (0, 0)), constant_values=255)
    return np.concatenate(list(edged), axis=1)


def draw_skeleton(
    axes: Axes, points: FloatArray, mask: BoolArray, skeleton_name: str | None
) -> None:
    """Draw the frame with most points, and the paths of the points through the clip behind it.

    Points are `(frames, keypoints, dims)`, y down; without a skeleton they are drawn alone.
    """
    seen = np.where(mask[..., None], points[..., :2], np.nan)
    counts = mask.sum(1)
    busiest = np.flatnonzero(counts == counts.max())
    now = seen[busiest[np.argmin(np.abs(busiest - len(mask) / 2))]]  # nearest to the middle
    if skeleton_name:
        skeleton = get_skeleton(skeleton_name)
        for part in skeleton.parts:
            if part.name.endswith("hand"):
                path = np.ma.masked_invalid(seen[:, part.start : part.stop]).mean(1).filled(np.nan)
                axes.plot(*path.T, color=part_colour(part.name), alpha=0.35, linewidth=4)
        for ends, key in zip(skeleton.bones, bone_keys(skeleton_name), strict=True):
            axes.plot(*now[list(ends)].T, color=hex_of(COLOURS[key]), linewidth=1.2)
        colours = [hex_of(COLOURS[key]) for key in point_keys(skeleton_name)]
        axes.scatter(now[:, 0], now[:, 1], s=3, c=colours, zorder=3)
    else:
        axes.plot(seen[..., 0], seen[..., 1], color=GREY, alpha=0.3, linewidth=1)
        axes.scatter(now[:, 0], now[:, 1], s=8, c=GREY, zorder=3)
    axes.set_aspect("equal", adjustable="datalim")
    axes.invert_yaxis()


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
    said, true = task.describe(row, names)
    if row.chance is None:
        return f"said {_cut(said or 'nothing')}\ntrue {_cut(true or 'nothing')}"
    text = f"{said} {row.chance:.0%}"
    return text if task.is_right(row) else f"{text}, true {true}"


def _cut(text: str) -> str:
    return text if len(text) <= 75 else text[:74] + "…"


def draw_user_samples(
    draw: DrawSample, batch: Batch, output: Any, name: str, *, most: int = _NUM_SAMPLES
) -> Figure:
    """Return a figure of the first samples of a batch."""
    count = len(batch)
    shown = min(most, count)
    figure, places = _grid(shown, 4, (_WIDTH / 4, _WIDTH / 4))
    for row, axes in zip(range(shown), places, strict=False):
        draw(axes, take_sample(batch.inputs, row, count), take_sample(output, row, count))
    figure.suptitle(name, fontsize=10)
    return figure


@torch.no_grad()
def draw_first_samples(trainer: Trainer) -> Figure | None:
    """Return the first samples of the validation set with the trainer's weights, None of none."""
    workload = trainer.workload
    if workload.draw_sample is None:
        return None
    split, name = workload.val, trainer.config.val_split
    if split is None:
        split, name = workload.train, "train"
    config = trainer.config.replace(workers=0, parallel="single", processes=1)
    loader = open_loader(split, config, Runtime(), shuffle=workload.val is None)
    batch: Batch = next(loader.batches()).to(trainer.runtime.device)
    output = call_model(workload.task, workload.model.eval(), batch, trainer.runtime)
    return draw_user_samples(workload.draw_sample, batch, output, name)


class PredictionPictures:
    """The folder of the pictures; one is called like its clip.

    Pictures that are there are looked at before the work: `outputs` must let each be replaced.
    """

    def __init__(self, folder: Path, outputs: Outputs) -> None:
        if folder.exists() and not folder.is_dir():
            template = "{folder} is a file; expected a folder for {--pictures}"
            raise ConfigError(template, folder=folder)
        for path in sorted(folder.glob("*.png")):
            outputs.claim_file(path)
        self._folder, self._outputs = folder, outputs
        self._drawn: set[Path] = set()

    def draw(self, clip: Picture, title: str, skeleton_name: str | None = None) -> None:
        """Write the picture of a clip: frames of a video, or keypoints and the way of the hands."""
        path = self._folder / f"{clip.clip_id.replace('/', '_')}.png"
        if path in self._drawn:
            raise ConfigError(
                "{path} is the picture of two clips; predict them one at a time, with two folders "
                "for {--pictures}",
                path=path,
            )
        self._drawn.add(path)
        self._folder.mkdir(parents=True, exist_ok=True)
        size_wh = 4.0, 4.0
        if clip.frames is not None:
            size_wh = _WIDTH, _film_height(clip.frames) + 0.1
            clip = clip._replace(points=None)
        figure, (axes,) = _grid(1, 1, size_wh)
        _draw_picture(axes, clip, skeleton_name)
        axes.set_title(f"{clip.clip_id}: {title}", fontsize=9)
        with self._outputs.writing_file(path), atomic_path(path) as temporary:
            figure.savefig(temporary, format="png")
        mark_file(path)


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
    side = _WIDTH / _NUM_LOOKS
    figure, places = _grid(2 * _NUM_LOOKS, _NUM_LOOKS, (side, side + 0.25))
    image: Any = None
    for top, below, row in zip(places, places[_NUM_LOOKS:], chosen, strict=False):
        clip = clips[Draw(row.sample)]
        frames = clip.inputs[0][0].numpy()
        of_frames = chances_lost(workload, clip, row.said, _covered_frames(frames))
        lost = chances_lost(workload, clip, row.said, _covered_places(frames))
        key = int(of_frames.argmax())
        top.imshow(frames[key])
        text = describe_sample(task, row, workload.class_names).replace(", true", "\ntrue")
        _judge(top, text, is_right=task.is_right(row))
        height, width = frames.shape[1:3]
        extent = 0, width, height, 0
        below.imshow(frames[key], extent=extent)
        most = max(0.05, float(lost.max()))
        heat = lost.clip(0, most).reshape(_CELLS, _CELLS) / most
        style: dict[str, Any] = {"cmap": "inferno", "alpha": 0.55, "vmin": 0, "vmax": 1}
        image = below.imshow(heat, extent=extent, interpolation="bilinear", **style)
        title = f"frame {key + 1} of {len(frames)}; covered: {-lost.max():+.0%}"
        below.set_title(title, fontsize=8)
    bar = figure.colorbar(image, ax=places, shrink=0.5, aspect=30)
    bar.set_label("chance lost, of the most", fontsize=8)
    figure.suptitle(f"{split_name}: where predictions look, found by covering", fontsize=10)
    return figure


@torch.no_grad()
def chances_lost(
    workload: Workload, clip: Batch, said: int, covered: npt.NDArray[np.uint8]
) -> FloatArray:
    """Return `(N,)`: how much the chance of the class `said` falls for changed forms of a clip.

    The clip is alone in a batch; `covered` are its frames, changed: `(N, T, height, width, 3)`.
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
