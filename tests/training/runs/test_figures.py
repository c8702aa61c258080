import numpy as np
import pytest
from small_sets import BareClips

from posemill.training.loop.passes import Evaluation
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


def is_picture(path):
    return path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_confusion_matrix_counts_and_names(tmp_path):
    figure = draw_confusion(np.array([[3, 1], [0, 2]]), ["yes", "不"], "test")
    axes, _ = figure.axes
    assert axes.get_title() == "test: 5 of 6 right"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted", "true")
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        assert [tick.get_text() for tick in labels] == ["yes", "不"]
    texts = {text.get_position(): text.get_text() for text in axes.texts}
    assert texts == {(0, 0): "3", (1, 0): "1", (1, 1): "2"}
    (image,) = axes.images
    assert image.get_array().tolist() == [[0.75, 0.25], [0, 1]]
    assert is_picture(save_figure(figure, tmp_path / "a.png"))


def test_the_worst_classes_are_on_top_and_empty_ones_left_out():
    confusion = np.diag([2, 0, 1])
    confusion[2, 0] = 1
    (axes,) = draw_per_class(confusion, ["good", "absent", "poor"], "dev").axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["poor (2)", "good (2)"]
    assert axes.yaxis_inverted(), "the lowest is on top"
    assert axes.get_title() == "dev: accuracy of each class"
    assert [bar.get_width() for bar in axes.patches] == [0.5, 1]


def test_curves_hold_what_the_log_says():
    rows = [
        {"event": "train", "step": 1, "epoch": 0, "loss": 2.0, "lr": 0.1},
        {"event": "train", "step": 2, "epoch": 0, "loss": 1.0, "lr": 0.05},
        {"event": "eval", "step": 2, "epoch": 0, "loss": 1.5, "accuracy": 0.75},
    ]
    figure = draw_curves(rows)
    assert {axes.get_xlabel() for axes in figure.axes} == {"step"}
    loss, scores, rate = figure.axes
    *train_lines, dev = loss.lines
    for line in train_lines:
        assert line.get_xydata().tolist() == [[1, 2.0], [2, 1.0]]
    assert dev.get_xydata().tolist() == [[2, 1.5]]
    assert scores.lines[0].get_xydata().tolist() == [[2, 0.75]]
    assert rate.lines[0].get_xydata().tolist() == [[1, 0.1], [2, 0.05]]
    assert [axes.get_title() for axes in figure.axes] == ["loss", "dev", "learning rate"]
    legends = [axes.get_legend().get_texts() for axes in (loss, scores)]
    assert [[text.get_text() for text in texts] for texts in legends] == [
        ["train", "dev"],
        ["accuracy"],
    ]
    (text,) = draw_curves([]).axes[1].texts
    assert text.get_text() == "no scores"


def test_the_last_evaluation_is_drawn_and_drawn_again(tmp_path):
    split = BareClips(2)
    rest = [None, split, split, Classify(), {}]
    workload = Workload(*rest, tests={"test": split}, class_names=("a", "b"))
    results = {
        name: Evaluation({}, [Row(0, 0, 0, 1.0), Row(1, label, 1, 1.0)])
        for name, label in (("dev", 0), ("more", 0), ("test", 1))
    }
    paths = draw_training(RunFolder(tmp_path), workload, results)
    assert [path.name for path in paths] == ["curves.png", "confusion.png", "per_class.png"]
    assert all(is_picture(path) for path in paths)
    workload.task = Ctc()
    spelled = {"dev": Evaluation({}, [Row(0, {"sequence": [1]}, [1])])}
    assert len(draw_training(RunFolder(tmp_path), workload, spelled)) == 1
    assert len(draw_training(RunFolder(tmp_path), workload, {})) == 1


def test_smoothing_keeps_the_mean_and_takes_the_noise():
    noisy = np.random.default_rng(0).normal(size=400) + 5
    assert np.std(smooth(noisy.tolist())) < np.std(noisy) / 3
    assert smooth([1.0, 2.0]) == [1.0, 2.0]
    spike = smooth([0.0] * 20 + [3.0] + [0.0] * 19)  # 40 values: one on each side
    assert spike == [0.0] * 19 + [1.0] * 3 + [0.0] * 18
    assert smooth([2.0, *[0.0] * 39])[:3] == [1.0, pytest.approx(2 / 3), 0.0], "cut at the edge"
    assert smooth([*[0.0] * 39, 2.0])[-2:] == [pytest.approx(2 / 3), 1.0]
    assert smooth([]) == []


def test_chinese_names_are_drawn_with_a_font_that_has_them(tmp_path, monkeypatch):
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
