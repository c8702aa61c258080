"""Clips that gave no keypoints: counted and explained by every command that looks at a run."""

import json

import pytest
from cli_runner import call, said_by
from made_up_people import make_person, write_run

from posemill.runs.queries import Failure

LOST = [
    Failure("a", "train", 4, 1, "a/4.png", "not an image", "a/4.png is no picture"),
    Failure("b", "train", None, 9, "b.mp4", "truncated", "b.mp4 ends too early"),
    Failure("c", "test", None, 0, "c.mp4", "truncated", "c.mp4 has no end"),
]


def clips(*clip_ids):
    return [make_person(8, clip_id=clip_id, split="train") for clip_id in clip_ids]


@pytest.fixture
def some(tmp_path):
    """A run of a clip with a bad frame, and of two clips that failed."""
    return write_run(tmp_path / "some", *clips("a"), failures=LOST)


@pytest.fixture
def none(tmp_path):
    """A run in which everything failed."""
    return write_run(tmp_path / "none", failures=LOST[1:])


def rows_of(text):
    return [line.split() for line in text.splitlines()]


def counts_of(run, command):
    splits = json.loads(said_by(command, run, "--json"))["splits"]
    return {each["split"]: (each["clips_failed"], each["frames_failed"]) for each in splits}


def test_failed_clips_are_counted_by_status(some):
    text = said_by("status", some)
    assert "18/18 frames (100.0%), 10 frames and 2 clips failed; train 18/18" in text
    assert ["train", "2", "2", "1", "18", "8", "10"] in rows_of(text)
    assert ["test", "1", "1", "1", "0", "0", "0"] in rows_of(text)
    assert ["truncated", "2", "9"] in rows_of(text)
    assert counts_of(some, "status") == {"train": (1, 10), "test": (1, 0)}
    assert json.loads(said_by("status", some, "--json"))["clips_failed"] == 2


def test_failed_clips_are_counted_and_explained_by_view(some):
    text = said_by("view", some)
    assert [row[-2:] for row in rows_of(text) if row[:1] in (["train"], ["test"], ["total"])][
        :3
    ] == [["1", "10"], ["1", "0"], ["2", "10"]]
    assert ["truncated", "2", "9", "2"] in rows_of(text)
    assert ["not", "an", "image", "1", "1", "1"] in rows_of(text)
    assert counts_of(some, "view") == {"train": (1, 10), "test": (1, 0), "all splits": (2, 10)}
    only = json.loads(said_by("view", some, "--splits", "test", "--json"))
    assert only["reasons"] == [{"reason": "truncated", "failures": 1, "frames": 0, "clips": 1}]


def test_a_run_in_which_everything_failed_can_be_looked_at(none, tmp_path):
    drawn = call("visualize", none, "--out", tmp_path / "pictures").exception
    assert "no frames to draw; what failed, and why: posemill view" in str(drawn)
    text = said_by("view", none, "--detailed")
    assert text.startswith(f"{none}  run  holistic-543  finished")
    assert ["truncated", "2", "9", "2"] in rows_of(text)
    said_by("report", none, "--out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "<b>0</b>clips<" in page
    assert "<b>2</b>clips failed" in page
    assert "b.mp4 ends too early" in page
    assert "No clip has a fault" not in page


def test_merged_runs_show_the_failures_of_all(none, tmp_path):
    other = write_run(tmp_path / "other", *clips("a", "d"), failures=LOST[:1])
    said_by("merge", none, other, "--out", tmp_path / "all")
    assert counts_of(tmp_path / "all", "status") == {"train": (1, 10), "test": (1, 0)}
    assert counts_of(tmp_path / "all", "view")["all splits"] == (2, 10)
    listed = json.loads(said_by("status", tmp_path / "all", "--failures", "--json"))["failures"]
    assert {each["message"] for each in listed} == {each.message for each in LOST}
    said_by("report", tmp_path / "all", "--out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "<b>2</b>clips failed" in page
    assert "<b>10</b>frames failed" in page
    assert all(each.message in page for each in LOST)


def test_runs_in_which_everything_failed_can_be_merged(none, tmp_path):
    out = said_by("merge", none, "--out", tmp_path / "all")
    assert f"{tmp_path / 'all'}: 0 clips, 0 frames; 2 failures kept" in out
    assert counts_of(tmp_path / "all", "view") == counts_of(none, "view")
    said_by("merge", tmp_path / "all", "--skeleton", "143", "--out", tmp_path / "small")
    assert json.loads(said_by("view", tmp_path / "small", "--json"))["skeleton_names"] == [
        "holistic-143"
    ]
    assert "nothing was written" in said_by("merge", none, "--out", tmp_path / "dry", "--dry-run")
    assert not (tmp_path / "dry").exists()
