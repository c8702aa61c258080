from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posemill.skeletons import get_skeleton
from posemill.training.launch.start import train
from posemill.training.runs.figure_samples import draw_skeleton
from posemill.training.runs.figures import (
    draw_confusion,
    draw_curves,
    draw_per_class,
    new_figure,
    save_figure,
    smooth,
)

Settings = Callable[..., dict[str, Any]]


def is_picture(path: Path) -> bool:
    return path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_training_leaves_its_pictures(settings: Settings) -> None:
    result = train(settings(figures=True, epochs=1))
    paths = sorted((result.out / "figures").glob("*.png"))
    names = ["confusion", "curves", "per_class", "samples"]
    assert [path.stem for path in paths] == names
    assert all(is_picture(path) for path in paths)


def test_the_confusion_matrix_counts_and_names(tmp_path: Path) -> None:
    confusion = np.array([[3, 1], [0, 2]])
    figure = draw_confusion(confusion, ["yes", "不"], "test")
    axes = figure.axes[0]
    assert axes.get_title() == "test: 5 of 6 right"
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["yes", "不"]
    assert sorted(text.get_text() for text in axes.texts) == ["1", "2", "3"]
    assert is_picture(save_figure(figure, tmp_path / "a.png"))


def test_the_worst_classes_are_on_top_and_empty_ones_left_out() -> None:
    confusion = np.diag([2, 0, 1])
    confusion[2, 0] = 1
    figure = draw_per_class(confusion, ["good", "absent", "poor"], "dev")
    labels = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert labels == ["poor (2)", "good (2)"]
    assert figure.axes[0].yaxis_inverted(), "the lowest is on top"


def test_many_classes_are_cut_and_it_is_said() -> None:
    figure = draw_per_class(np.eye(70, dtype=np.int64), [str(i) for i in range(70)], "dev")
    assert figure.axes[0].get_title().endswith("the lowest 60 of 70")


def test_curves_hold_what_the_log_says() -> None:
    rows = [
        {"event": "train", "step": 1, "epoch": 0, "loss": 2.0, "lr": 0.1},
        {"event": "train", "step": 2, "epoch": 0, "loss": 1.0, "lr": 0.05},
        {"event": "eval", "step": 2, "epoch": 0, "loss": 1.5, "accuracy": 0.75},
    ]
    loss, scores, rate = draw_curves(rows).axes
    assert loss.lines[0].get_ydata().tolist() == [2.0, 1.0]
    assert scores.lines[0].get_ydata().tolist() == [0.75]
    assert rate.lines[0].get_ydata().tolist() == [0.1, 0.05]
    assert draw_curves([]).axes[1].texts[0].get_text() == "no scores"


def test_smoothing_keeps_the_mean_and_takes_the_noise() -> None:
    noisy = np.random.default_rng(0).normal(size=400) + 5
    assert np.std(smooth(noisy.tolist())) < np.std(noisy) / 3
    assert smooth([1.0, 2.0]) == [1.0, 2.0]
    assert smooth([]) == []


@pytest.mark.parametrize("name", ["holistic-143", "openpose-18", None])
def test_a_skeleton_is_drawn_with_its_bones(name: str | None) -> None:
    count = get_skeleton(name).num_points if name else 7
    bones = len(get_skeleton(name).bones) if name else 0
    points = np.random.default_rng(0).random((4, count, 2)).astype(np.float32)
    mask = np.ones((4, count), bool)
    mask[0] = False
    axes = new_figure(2, 2).subplots()
    draw_skeleton(axes, points, mask, name)
    assert len(axes.lines) >= max(bones, 7)
