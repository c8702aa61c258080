"""Pictures of a finished training: curves, confusion matrix, accuracy of each class, samples."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posemill.records import IntArray
from posemill.skeletons.palette import GREY, grade, part_colour
from posemill.training.loop.passes import Evaluation
from posemill.training.record.run_folder import RunFolder
from posemill.training.tasks.metrics import accuracy_per_class
from posemill.training.tasks.workload import Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TRAIN_COLOUR, _VAL_COLOUR = part_colour("right_hand"), part_colour("left_hand")
_MOST_CLASSES = 60  # with names, or bars
# Fonts with Chinese letters, as systems have them; of Noto's collection matplotlib sees the first.
_OTHER_FONTS = (
    "Noto Sans CJK SC, Noto Sans CJK JP, WenQuanYi Zen Hei, WenQuanYi Micro Hei, PingFang SC, "
    "Hiragino Sans GB, Microsoft YaHei, SimHei, Arial Unicode MS"
).split(", ")
_FEW_POINTS = 12  # each is marked: a line through one point is not to be seen


def draw_training(
    folder: RunFolder,
    workload: Workload,
    results: Mapping[str, Evaluation],
    *,
    samples: Figure | None = None,
) -> list[Path]:
    """Write the PNGs of a training into its `figures` folder and return their paths."""
    from posemill.training.runs.figure_samples import draw_looks, draw_samples

    figures = folder.path / "figures"
    figures.mkdir(exist_ok=True)
    pictures: dict[str, Figure | None] = {"curves": draw_curves(folder.read_metrics())}
    if results:
        name, result = list(results.items())[-1]
        clips = workload.tests.get(name, workload.val)
        confusion = workload.task.confusion(result.rows, len(workload.class_names))
        if confusion is not None:
            names = workload.class_names
            if len(names) != len(confusion):  # a user's own classes without names
                names = tuple(str(number) for number in range(len(confusion)))
            pictures["confusion"] = draw_confusion(confusion, names, name)
            pictures["per_class"] = draw_per_class(confusion, names, name)
        if clips is not None:
            pictures["samples"] = draw_samples(workload, clips, result, name)
            pictures["looks"] = draw_looks(workload, clips, result, name)
    if samples is not None:
        pictures["samples"] = samples
    drawn = {name: figure for name, figure in pictures.items() if figure is not None}
    return [save_figure(figure, figures / f"{name}.png") for name, figure in drawn.items()]


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, in inches; no window, no global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=110, layout="constrained")


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure as PNG; a name in a script that no font here has is drawn as boxes."""
    from matplotlib.font_manager import fontManager
    from matplotlib.text import Text

    known = {font.name for font in fontManager.ttflist}
    families = ["DejaVu Sans", *(name for name in _OTHER_FONTS if name in known)]
    for part in figure.findobj(Text):
        if any(letter >= "\u2e80" for letter in part.get_text()):  # which DejaVu Sans lacks
            part.set_fontfamily(families)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(path)
    return path


def draw_curves(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Return loss, scores and learning rate over the steps, from the lines of the log."""
    train = [row for row in rows if row["event"] == "train"]
    evals = [row for row in rows if row["event"] == "eval"]
    figure = new_figure(11, 3.6)
    loss, scores, rate = figure.subplots(1, 3)
    steps = [row["step"] for row in train]
    losses = [row["loss"] for row in train]
    marks = {"marker": "o", "markersize": 4} if len(train) <= _FEW_POINTS else {}
    loss.plot(steps, losses, color=_TRAIN_COLOUR, alpha=0.25, linewidth=1)
    loss.plot(steps, smooth(losses), color=_TRAIN_COLOUR, label="train", **marks)
    at = [row["step"] for row in evals]
    if evals:
        known = [row.get("loss", np.nan) for row in evals]
        loss.plot(at, known, "o-", ms=4, color=_VAL_COLOUR, label="dev")
    loss.set_title("loss")
    loss.legend(frameon=False)
    known_scores = evals[0] if evals else {}
    names = [name for name in known_scores if name not in ("event", "step", "epoch", "loss")]
    for name in names:
        # The score that chooses may be that of a head: it lies broad and pale behind it.
        is_sum = any(other.startswith(f"{name}_") for other in names)
        style = {"linewidth": 6, "alpha": 0.3} if is_sum else {"markersize": 4}
        scores.plot(at, [row[name] for row in evals], label=name, marker="o", **style)
    scores.set_title("dev")
    if names:
        known = [row[name] for row in evals for name in names if math.isfinite(row[name])]
        scores.set_ylim(min([0.0, *known]), max([1.02, *known]))
        scores.legend(frameon=False)
    else:
        scores.text(0.5, 0.5, "no scores", ha="center", va="center", color=GREY)
    rate.plot(steps, [row["lr"] for row in train], color=GREY, **marks)
    rate.set_title("learning rate")
    rate.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
    for axes in (loss, scores, rate):
        axes.set_xlabel("step")
        axes.set_xlim(0, 1.04 * max([1, *steps, *at]))
        axes.xaxis.get_major_locator().set_params(integer=True)
        _plain(axes)
    return figure


def smooth(values: Sequence[float]) -> list[float]:
    """Return the mean over a window of about a twentieth of the values around each."""
    half = len(values) // 40
    sums = np.concatenate([[0.0], np.cumsum(values)])
    starts = np.maximum(np.arange(len(values)) - half, 0)
    stops = np.minimum(np.arange(len(values)) + half + 1, len(values))
    return [float(value) for value in (sums[stops] - sums[starts]) / (stops - starts)]


def draw_confusion(confusion: IntArray, names: Sequence[str], split: str) -> Figure:
    """Return the confusion matrix, each row as shares of its class."""
    count = len(names)
    side = min(13.0, max(4.5, 0.22 * count + 2.5))
    figure = new_figure(side, side * 0.92)
    axes = figure.subplots()
    totals = confusion.sum(1, keepdims=True)
    image = axes.imshow(confusion / np.maximum(totals, 1), cmap="Blues", vmin=0, vmax=1)
    bar = figure.colorbar(image, ax=axes, shrink=0.7)
    bar.set_label("share of the true class")
    if count <= _MOST_CLASSES:
        size = 8 if count <= 30 else 6
        axes.set_xticks(range(count), [_short(name) for name in names], rotation=90, fontsize=size)
        axes.set_yticks(range(count), [_short(name) for name in names], fontsize=size)
    if count <= 15:
        centred: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8}
        for row, column in zip(*np.nonzero(confusion), strict=True):
            number = confusion[row, column]
            colour = "white" if number / max(1, int(totals[row, 0])) > 0.6 else "black"
            axes.text(column, row, str(number), color=colour, **centred)
    right, total = int(confusion.diagonal().sum()), int(confusion.sum())
    axes.set_title(f"{split}: {right} of {total} right")
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    return figure


def draw_per_class(confusion: IntArray, names: Sequence[str], split: str) -> Figure:
    """Return the accuracy of each class as bars, the lowest on top; at most 60 of them."""
    values = accuracy_per_class(confusion)
    totals = confusion.sum(1)
    order = [int(i) for i in np.argsort(values, kind="stable") if totals[i]]
    shown = order[:_MOST_CLASSES]
    figure = new_figure(7, max(2.5, 0.2 * len(shown) + 1.2))
    axes = figure.subplots()
    heights = [float(values[index]) for index in shown]
    colours = [grade(value).colour for value in heights]
    axes.barh(range(len(shown)), heights, color=colours, height=0.75)
    labels = [f"{_short(names[index])} ({totals[index]})" for index in shown]
    axes.set_yticks(range(len(shown)), labels, fontsize=7)
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.set_xlim(0, 1)
    axes.set_xlabel("accuracy (how many there are in brackets)")
    rest = f", the lowest {len(shown)} of {len(order)}" if len(shown) < len(order) else ""
    axes.set_title(f"{split}: accuracy of each class{rest}")
    _plain(axes)
    return figure


def _short(name: str) -> str:
    return name if len(name) <= 18 else name[:17] + "…"


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.2)
