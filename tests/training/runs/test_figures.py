from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from small_sets import BareClips

from posemill.skeletons.palette import GREY, grade, part_colour
from posemill.training.launch.start import train
from posemill.training.loop.evaluation import Evaluation
from posemill.training.record.run_folder import RunFolder
from posemill.training.runs.figures import (
    draw_confusion,
    draw_curves,
    draw_per_class,
    draw_training,
    new_figure,
    save_figure,
    smooth,
)
from posemill.training.tasks.task import Classify, Ctc, Row
from posemill.training.tasks.workload import Workload

RIGHT_HAND, LEFT_HAND = part_colour("right_hand"), part_colour("left_hand")
Settings = Callable[..., dict[str, Any]]


def is_picture(path: Path) -> bool:
    return path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_training_leaves_its_pictures(settings: Settings) -> None:
    result = train(settings(figures=True, epochs=1))
    paths = sorted((result.out / "figures").glob("*.png"))
    names = ["confusion", "curves", "per_class", "samples"]
    assert [path.stem for path in paths] == names
    assert all(is_picture(path) for path in paths)


@pytest.mark.parametrize("num_epochs", [1, 2])
def test_the_curves_of_a_short_training_are_to_be_seen(num_epochs: int) -> None:
    rows: list[dict[str, Any]] = []
    for epoch in range(num_epochs):
        at = {"step": 4 * (epoch + 1), "epoch": epoch}
        rows.append({"event": "train", "loss": 1.0 - epoch / 4, "lr": 0.1, **at})
        rows.append({"event": "eval", "loss": 0.5, "accuracy": 0.25, **at})
    figure = draw_curves(rows)
    for axes in figure.axes:
        # The smoothed curve is the last of its panel; the pale one behind it may have no marks.
        assert axes.lines[-1].get_marker() == "o"
        assert axes.get_xlim() == (0, pytest.approx(4.16 * num_epochs))
    assert figure.axes[0].lines[1].get_marker() == "o"
    ticks = [tick for axes in figure.axes for tick in axes.get_xticks()]
    assert all(tick == int(tick) for tick in ticks), "there is no half step"


def test_a_long_training_has_lines_without_marks() -> None:
    rows = [{"event": "train", "step": step, "epoch": 0, "loss": 1.0, "lr": 0.1}
            for step in range(1, 100)]  # fmt: skip
    assert {line.get_marker() for axes in draw_curves(rows).axes for line in axes.lines} == {"None"}


def test_the_confusion_matrix_counts_and_names(tmp_path: Path) -> None:
    confusion = np.array([[3, 1], [0, 2]])
    figure = draw_confusion(confusion, ["yes", "不"], "test")
    axes, bar = figure.axes
    assert axes.get_title() == "test: 5 of 6 right"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted", "true")
    assert bar.get_ylabel() == "share of the true class"
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        assert [tick.get_text() for tick in labels] == ["yes", "不"]
        assert labels[0].get_fontsize() == 8
    assert axes.get_xticklabels()[0].get_rotation() == 90
    texts = {text.get_position(): (text.get_text(), text.get_color()) for text in axes.texts}
    assert texts == {(0, 0): ("3", "white"), (1, 0): ("1", "black"), (1, 1): ("2", "white")}
    assert {(text.get_ha(), text.get_va(), text.get_fontsize()) for text in axes.texts} == {
        ("center", "center", 8)
    }
    (image,) = axes.images
    assert image.get_array().tolist() == [[0.75, 0.25], [0, 1]]
    assert (image.get_cmap().name, *image.get_clim()) == ("Blues", 0, 1)
    assert figure.get_size_inches().tolist() == pytest.approx([4.5, 4.5 * 0.92])
    assert is_picture(save_figure(figure, tmp_path / "a.png"))


@pytest.mark.parametrize(
    ("count", "side", "size", "num_texts"),
    [(15, 5.8, 8, 15), (16, 6.02, 8, 0), (30, 9.1, 8, 0), (31, 9.32, 6, 0), (60, 13, 6, 0),
     (61, 13, None, 0)],
)  # fmt: skip
def test_many_classes_make_a_confusion_matrix_large_and_its_text_small(
    count: int, side: float, size: int | None, num_texts: int
) -> None:
    figure = draw_confusion(np.eye(count, dtype=np.int64), ["a" * 18, *["b" * 19] * count][:count],
                            "dev")  # fmt: skip
    axes = figure.axes[0]
    assert figure.get_size_inches()[0] == pytest.approx(side)
    assert len(axes.texts) == num_texts
    labels = axes.get_yticklabels()
    if size is None:
        assert len(labels) < count
    else:
        assert [label.get_text() for label in labels[:2]] == ["a" * 18, "b" * 17 + "…"]
        assert {label.get_fontsize() for label in [*labels, *axes.get_xticklabels()]} == {size}


def test_a_class_nobody_made_has_an_empty_row() -> None:
    figure = draw_confusion(np.array([[2, 3], [0, 0]]), ["a", "b"], "dev")
    axes = figure.axes[0]
    assert axes.images[0].get_array().tolist() == [[0.4, 0.6], [0, 0]]
    assert [text.get_color() for text in axes.texts] == ["black", "black"], "white above 0.6"
    alone = draw_confusion(np.eye(2, dtype=np.int64), ["a", "b"], "dev").axes[0]
    assert alone.images[0].get_array().tolist() == [[1, 0], [0, 1]]
    assert [text.get_color() for text in alone.texts] == ["white", "white"]


def test_the_worst_classes_are_on_top_and_empty_ones_left_out() -> None:
    confusion = np.diag([2, 0, 1])
    confusion[2, 0] = 1
    figure = draw_per_class(confusion, ["good", "absent", "poor"], "dev")
    axes = figure.axes[0]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["poor (2)", "good (2)"]
    assert axes.get_yticklabels()[0].get_fontsize() == 7
    assert axes.yaxis_inverted(), "the lowest is on top"
    assert axes.get_title() == "dev: accuracy of each class"
    assert axes.get_xlabel() == "accuracy (how many there are in brackets)"
    assert axes.get_xlim() == (0, 1)
    assert [(bar.get_width(), bar.get_height()) for bar in axes.patches] == [(0.5, 0.75), (1, 0.75)]
    assert [bar.get_y() for bar in axes.patches] == [-0.375, 0.625]
    assert axes.get_ylim() == pytest.approx((1.375 + 0.0175, -0.375 - 0.0175)), "a small margin"
    assert figure.get_size_inches().tolist() == [7, 2.5]
    assert not axes.spines["top"].get_visible()
    assert not axes.spines["right"].get_visible()
    assert axes.spines["left"].get_visible()
    assert {line.get_alpha() for line in axes.get_xgridlines()} == {0.2}


def test_the_colour_of_a_bar_says_whether_all_half_or_few_are_right() -> None:
    confusion = np.array([[4, 0, 0], [2, 2, 0], [0, 3, 1]])
    axes = draw_per_class(confusion, ["all", "half", "few"], "dev").axes[0]
    assert [to_hex(bar.get_facecolor()) for bar in axes.patches] == [
        grade(share).colour for share in (0.25, 0.5, 1.0)
    ]


def test_many_classes_are_cut_and_it_is_said() -> None:
    figure = draw_per_class(np.eye(70, dtype=np.int64), [str(i) for i in range(70)], "dev")
    assert figure.axes[0].get_title() == "dev: accuracy of each class, the lowest 60 of 70"
    assert figure.get_size_inches().tolist() == pytest.approx([7, 0.2 * 60 + 1.2])


def test_curves_hold_what_the_log_says() -> None:
    rows = [
        {"event": "train", "step": 1, "epoch": 0, "loss": 2.0, "lr": 0.1},
        {"event": "train", "step": 2, "epoch": 0, "loss": 1.0, "lr": 0.05},
        {"event": "eval", "step": 2, "epoch": 0, "loss": 1.5, "accuracy": 0.75},
    ]
    figure = draw_curves(rows)
    loss, scores, rate = figure.axes
    for line, label, alpha in zip(loss.lines[:2], ("_child0", "train"), (0.25, None), strict=True):
        assert line.get_xydata().tolist() == [[1, 2.0], [2, 1.0]]
        assert (line.get_label(), line.get_alpha()) == (label, alpha)
        assert line.get_color() == RIGHT_HAND
    assert loss.lines[0].get_linewidth() == 1
    dev = loss.lines[2]
    assert dev.get_xydata().tolist() == [[2, 1.5]]
    assert (dev.get_label(), dev.get_color()) == ("dev", LEFT_HAND)
    assert (dev.get_marker(), dev.get_linestyle(), dev.get_markersize()) == ("o", "-", 4)
    assert scores.lines[0].get_xydata().tolist() == [[2, 0.75]]
    assert (scores.lines[0].get_marker(), scores.lines[0].get_markersize()) == ("o", 4)
    assert scores.get_ylim() == (0, 1.02)
    assert rate.lines[0].get_xydata().tolist() == [[1, 0.1], [2, 0.05]]
    assert rate.lines[0].get_color() == GREY
    assert [axes.get_title() for axes in figure.axes] == ["loss", "dev", "learning rate"]
    assert [axes.get_xlabel() for axes in figure.axes] == ["step"] * 3
    assert [[text.get_text() for text in axes.get_legend().get_texts()]
            for axes in (loss, scores)] == [["train", "dev"], ["accuracy"]]  # fmt: skip
    assert not any(axes.get_legend().get_frame_on() for axes in (loss, scores))
    assert not loss.spines["top"].get_visible()
    assert figure.get_size_inches().tolist() == [11, 3.6]
    assert figure.dpi == 110


def test_without_evaluations_the_middle_says_so() -> None:
    (text,) = draw_curves([]).axes[1].texts
    assert (text.get_text(), text.get_position()) == ("no scores", (0.5, 0.5))
    assert (text.get_ha(), text.get_va(), text.get_color()) == ("center", "center", GREY)


def test_a_score_that_is_that_of_a_head_lies_broad_behind_it_and_high_ones_fit() -> None:
    row = {"event": "eval", "step": 5, "epoch": 0, "loss": 9.0, "wer": 1.5, "wer_conv": 1.5}
    loss, scores, _ = draw_curves([row]).axes
    whole, head = scores.lines
    assert [line.get_label() for line in scores.lines] == ["wer", "wer_conv"]
    assert (whole.get_linewidth(), whole.get_alpha(), whole.get_marker()) == (6, 0.3, "o")
    assert (head.get_alpha(), head.get_marker()) == (None, "o")
    assert scores.get_ylim() == (0, 1.5)
    assert loss.lines[-1].get_ydata().tolist() == [9.0]


def test_an_evaluation_without_a_loss_leaves_a_gap() -> None:
    rows = [{"event": "eval", "step": step, "epoch": 0, "accuracy": 1.0} for step in (1, 2)]
    rows[1]["loss"] = 3.0
    assert np.isnan(draw_curves(rows).axes[0].lines[-1].get_ydata()).tolist() == [True, False]


def test_small_learning_rates_are_written_with_their_power_of_ten() -> None:
    rows = [{"event": "train", "step": step, "loss": 1.0, "lr": 0.001 * step} for step in (1, 2)]
    figure = draw_curves(rows)
    figure.draw_without_rendering()
    offset = figure.axes[2].yaxis.get_offset_text().get_text()
    assert "10^{-3}" in offset or offset == "1e−3"


def test_the_last_evaluation_is_drawn_and_drawn_again(tmp_path: Path) -> None:
    split = BareClips(2)
    rest: list[Any] = [None, split, split, Classify(), {}]
    workload = Workload(*rest, tests={"test": split}, class_names=("a", "b"))
    results = {
        name: Evaluation({}, [Row(0, 0, 0, 1.0), Row(1, label, 1, 1.0)])
        for name, label in (("dev", 0), ("more", 0), ("test", 1))
    }
    for _ in range(2):
        paths = draw_training(RunFolder(tmp_path), workload, results)
        assert [path.name for path in paths] == ["curves.png", "confusion.png", "per_class.png"]
        assert all(is_picture(path) for path in paths)
    workload.task = Ctc()
    spelled = {"dev": Evaluation({}, [Row(0, {"sequence": [1]}, [1])])}
    assert len(draw_training(RunFolder(tmp_path), workload, spelled)) == 1
    assert len(draw_training(RunFolder(tmp_path), workload, {})) == 1


def test_smoothing_keeps_the_mean_and_takes_the_noise() -> None:
    noisy = np.random.default_rng(0).normal(size=400) + 5
    assert np.std(smooth(noisy.tolist())) < np.std(noisy) / 3
    assert smooth([1.0, 2.0]) == [1.0, 2.0]
    spike = smooth([0.0] * 20 + [3.0] + [0.0] * 19)  # 40 values: one on each side
    assert spike == [0.0] * 19 + [1.0] * 3 + [0.0] * 18
    assert smooth([2.0, *[0.0] * 39])[:3] == [1.0, pytest.approx(2 / 3), 0.0], "cut at the edge"
    assert smooth([*[0.0] * 39, 2.0])[-2:] == [pytest.approx(2 / 3), 1.0]
    assert smooth([]) == []


def test_chinese_names_are_drawn_with_a_font_that_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.font_manager import FontEntry, fontManager

    there = [*fontManager.ttflist, FontEntry(fname="here.ttf", name="SimHei")]
    monkeypatch.setattr(fontManager, "ttflist", there)
    figure = new_figure(2, 2)
    names = [figure.text(0, 0, text) for text in ("停止", "stop")]
    monkeypatch.setattr(figure, "savefig", lambda _: None)
    save_figure(figure, tmp_path / "x.png")
    families = [text.get_fontfamily() for text in names]
    assert families[0][0] == "DejaVu Sans"
    assert "SimHei" in families[0]
    assert "SimHei" not in families[1]
