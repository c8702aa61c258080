"""The page about two runs: well formed, loads nothing, and shows where they differ."""

import base64
import dataclasses
import re

import cv2
import numpy as np
import pytest
from made_up_people import write_run

import posemill
from posemill.inspection.comparison.page import pixels_in_words
from tests.inspection.pages import HOSTILE, check_on_phone, words_of_page


@pytest.fixture
def pair(make_clip, tmp_path):
    """Two runs: one clip without a difference, one moved, one with a face in one run only."""
    clips = [
        make_clip(8, clip_id="same", split="train"),
        make_clip(8, clip_id="moved", split="train"),
        make_clip(8, clip_id=HOSTILE, split=HOSTILE),
    ]
    points = clips[1].points.copy()
    points[3, 501:522, 0] += 6 / 320
    others = [
        clips[0],
        dataclasses.replace(clips[1], points=points),
        make_clip(8, clip_id=HOSTILE, split=HOSTILE, missing=("face",)),
    ]
    second = write_run(tmp_path / "second", *others, engine={"engine": HOSTILE})
    return write_run(tmp_path / "first", *clips), second


def test_the_page_is_well_formed_loads_nothing_and_shows_names_as_text(pair, tmp_path):
    found = posemill.compare(*pair, tmp_path / "page.html", progress=False)
    assert found["page"] == str(tmp_path / "page.html")
    content = (tmp_path / "page.html").read_text(encoding="utf-8")
    words = words_of_page(content)
    assert " good" not in words, "that a part is in both says nothing of where it is"
    for said in (
        "first, second", "compared in 543 points of holistic-543", "3 clips in both",
        "24 frames in both", "0 clips in first only", "left hand: 6 px apart on average",
        "moved, frame 3", "face in first only", "Farthest apart", "Found by one only",
        "engine.engine", "Quantiles are exact to 0.1 %",
    ):  # fmt: skip
        assert said in words, said
    posemill.compare(*pair[::-1], tmp_path / "back.html", progress=False)
    assert "face in first only" in (tmp_path / "back.html").read_text(encoding="utf-8")
    # two frames, each as both runs have it, cut to the same part of the picture
    pictures = [
        cv2.imdecode(np.frombuffer(base64.b64decode(data), np.uint8), cv2.IMREAD_COLOR)
        for data in re.findall(r'src="data:image/jpeg;base64,([^"]+)"', content)
    ]
    assert len(pictures) == 4
    for one, other in (pictures[:2], pictures[2:]):
        assert one.shape == other.shape
        assert (one != other).any()
        assert 300 < max(one.shape) <= 525, "as large as it is shown"
    check_on_phone(tmp_path / "page.html")


def test_without_a_difference_there_are_no_worst_frames(pair, tmp_path):
    posemill.compare(pair[0], pair[0], tmp_path / "page.html", progress=False)
    content = (tmp_path / "page.html").read_text()
    assert "There is no difference in any frame." in content
    assert "<img" not in content


def test_runs_of_two_skeletons_are_drawn_each_in_its_own(make_clip, tmp_path):
    clip = make_clip(3, clip_id="c")
    other = dataclasses.replace(clip.as_skeleton("openpose-18"))
    other.points[1, 4, 1] += 0.1
    pair = write_run(tmp_path / "a" / "run", clip), write_run(tmp_path / "b" / "run", other)
    posemill.compare(*pair, tmp_path / "page.html", progress=False)
    content = (tmp_path / "page.html").read_text()
    assert content.count("<img ") == 2
    assert f"{pair[0]}, {pair[1]} - posemill compare" in content  # both are called run


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "-"), (0.0, "0"), (0.0004, "0"), (0.0234, "0.023"), (1.234, "1.23"), (170.4, "170")],
)
def test_pixels_are_said_in_three_digits(value, words):
    assert pixels_in_words(value) == words
