"""`posemill.view`, `visualize` and `report`, with plain words, on tiny data."""

from __future__ import annotations

import json

import posemill
from posemill.commands.look import View


def view(**split: object) -> View:
    row = {"split": "train", "num_clips": 2, "num_frames": 9, "presence": {}, **split}
    return View(
        path="runs/a", kind="run", skeleton_names=["holistic-543", "coco-133"], splits=[row]
    )


def test_a_view_prints_a_line_for_each_split():
    assert repr(view()) == (
        "View of runs/a: run, holistic-543, coco-133\n  train: 2 clips, 9 frames"
    )
    presence = {"pose": 1.0, "face": 0.25, "left_hand": None}
    assert repr(view(presence=presence)).endswith("9 frames; pose 100.0%, face 25.0%")
    assert repr(view(frames_failed=3)).endswith("9 frames, 3 failed")
    assert repr(view(frames_failed=0, presence=presence)).endswith(
        "frames; pose 100.0%, face 25.0%"
    )


def test_view_gives_values_and_prints_lines(run):
    found = posemill.view(str(run), splits="train", detailed=True, rows=1)
    assert found["splits"][0]["num_frames"] == 10
    assert [each["clip_id"] for each in found["clips"]] == ["a", "b"]
    first, second = repr(found).splitlines()
    assert first == f"View of {run}: run, holistic-543"
    assert second.startswith("  train: 2 clips, 10 frames; pose ")
    assert json.loads(json.dumps(found)) == found


def test_visualize_and_report_write_files(run, tmp_path):
    drawn = posemill.visualize(run, str(tmp_path / "pictures"), num_samples=1, clips="a")
    assert [path.name for path in drawn] == [path.name for path in drawn.paths]
    assert all(path.is_file() for path in drawn)
    assert (len(drawn), drawn.num_originals_gone, drawn.notes) == (2, 0, ())
    page = posemill.report(str(run), str(tmp_path / "report.html"))
    assert page.paths == (tmp_path / "report.html",)
    assert "<html" in page.paths[0].read_text()


def test_originals_that_are_gone_are_counted_and_noted(run, tmp_path):
    (tmp_path / "tree").rename(tmp_path / "moved")
    drawn = posemill.visualize(run, tmp_path / "pictures", num_samples=1)
    assert drawn.num_originals_gone == 2
    assert "2 of 2 original pictures could not be read" in drawn.notes[0]
    drawn = posemill.visualize(
        run, tmp_path / "pictures", num_samples=1, originals=str(tmp_path / "moved")
    )
    assert drawn.num_originals_gone == 0
