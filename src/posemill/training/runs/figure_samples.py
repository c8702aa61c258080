"""Sample predictions drawn on their skeletons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

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
from posemill.training.loop.evaluation import Evaluation
from posemill.training.runs.figures import new_figure
from posemill.training.tasks.scorers import ClassScorer, CtcScorer
from posemill.training.tasks.workload import Row, Split, Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NUM_SAMPLES = 8
_WIDTH = 10.8  # inches of all columns


def draw_samples(
    workload: Workload, split: Split, result: Evaluation, split_name: str
) -> Figure | None:
    """Return up to eight clips with what was said about them, half of them wrong where there are.

    None where the data cannot be drawn (a user's own data set).
    """
    if split.show is None or not result.rows:
        return None
    chosen = choose_samples(split, result.rows)
    columns = 2 if isinstance(split.scorer, CtcScorer) else 4  # sentences need room
    rows = -(-len(chosen) // columns)
    figure = new_figure(_WIDTH, 3.1 * rows + 0.4)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for axes, row in zip(grid.flat, chosen, strict=False):
        clip_id, points, mask = split.show(row[0])
        draw_skeleton(axes, points, mask, workload.skeleton_name)
        text, is_right = describe_sample(split, row, workload.class_names)
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
                np.nan_to_num(path).sum(1), found, out=np.full((len(path), 2), np.nan),
                where=found > 0,
            )  # fmt: skip
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


def choose_samples(split: Split, rows: list[Row]) -> list[Row]:
    """Return up to eight rows, the wrong ones first, drawn the same every time."""
    wrong = [row for row in rows if not describe_sample(split, row, ())[1]]
    right = [row for row in rows if describe_sample(split, row, ())[1]]
    rng = np.random.default_rng(0)
    for group in (wrong, right):
        rng.shuffle(group)
    num_wrong = min(len(wrong), max(_NUM_SAMPLES // 2, _NUM_SAMPLES - len(right)))
    return wrong[:num_wrong] + right[: _NUM_SAMPLES - num_wrong]


def describe_sample(split: Split, row: Row, names: tuple[str, ...]) -> tuple[str, bool]:
    """Return (what was said and what is true, whether they are the same)."""
    index, value = row
    scorer = split.scorer
    if isinstance(scorer, CtcScorer):
        head = scorer.head or "sequence"
        said, true = list(value[head]), list(scorer.targets[index])
        listed = [" ".join(names[i] for i in one) if names else "" for one in (said, true)]
        listed = [text or "nothing" for text in listed]
        return f"said {_cut(listed[0])}\ntrue {_cut(listed[1])}", said == true
    if isinstance(scorer, ClassScorer):
        label, chance = value
        true_label = int(scorer.targets[index])
        if not names:
            return "", label == true_label
        text = f"{names[label]} {chance:.0%}"
        if label != true_label:
            text += f", true {names[true_label]}"
        return text, bool(label == true_label)
    return "", True


def _cut(text: str) -> str:
    return text if len(text) <= 75 else text[:74] + "…"
