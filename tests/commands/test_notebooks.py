"""Clips and runs as a notebook shows them, and the tour that shows it."""

import ast
import base64
import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import cv2
import numpy as np
from made_up_people import write_run

import posemill

TOUR = Path(__file__).parent.parent.parent / "examples" / "tour.ipynb"
HOSTILE = """<img src=x onerror=alert(1)>"'&\x1b[31m"""
SHOWN = """<img src=x onerror=alert(1)>"'&?[31m"""


def clip_of(name, *, frames=4, hand=1):
    """Returns a clip of 543 points: no right hand, and the left one in the first `hand` frames."""
    points = np.full((frames, 543, 3), 0.5, np.float32)
    points[hand:, 501:522] = np.nan
    points[:, 522:] = np.nan
    return posemill.PoseClip(
        points, (~np.isnan(points[..., 0])).astype(np.float32),
        np.full((frames, 2), (64, 48), np.int32), clip_id=name, split="train", fps=12.5, label="hi",
    )  # fmt: skip


def cells(html):
    """Return the text of a table's cells, row by row."""
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    return [[unescape(each) for each in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
            for row in rows]  # fmt: skip


def picture_in(html):
    (data,) = re.findall(r'<img src="data:image/jpeg;base64,([\w+/=]+)">', html)
    return cv2.imdecode(np.frombuffer(base64.b64decode(data), np.uint8), cv2.IMREAD_COLOR)[
        ..., ::-1
    ]


def cells_of_code():
    book = json.loads(TOUR.read_text(encoding="utf-8"))
    return [each for each in book["cells"] if each["cell_type"] == "code"]


def test_a_clip_shows_its_facts_and_its_frames():
    clip = clip_of("a")
    html = clip._repr_html_()
    assert cells(html) == [
        ["clip", "split", "label", "skeleton", "frames", "frames/s", "size",
         "pose", "face", "left hand", "right hand"],
        ["a", "train", "hi", "holistic-543", "4", "12.5", "64x48",
         "100.0%", "100.0%", "25.0%", "0.0%"],
    ]  # fmt: skip
    sheet = clip.plot()
    wanted = cv2.resize(sheet, (640, round(sheet.shape[0] * 640 / sheet.shape[1])),
                        interpolation=cv2.INTER_AREA)  # fmt: skip
    assert np.abs(picture_in(html).astype(int) - wanted).mean() < 4  # JPEG
    assert len(html) < 200_000


def test_a_clip_without_frames_labels_and_sizes_shows_what_there_is():
    empty = replace(clip_of("b", frames=0), label=None, fps=None)
    assert cells(empty._repr_html_()) == [["clip", "split", "skeleton", "frames"],
                                          ["b", "train", "holistic-543", "0"]]  # fmt: skip
    assert "<img" not in empty._repr_html_()


def test_a_run_shows_its_splits(tmp_path):
    clips = clip_of("a"), replace(clip_of("b", hand=4), split="dev")
    html = posemill.open_run(write_run(tmp_path / "run", *clips))._repr_html_()
    assert f"<b>{tmp_path / 'run'}</b> holistic-543, finished" in html
    rows = cells(html)
    assert rows[0] == ["split", "clips", "frames", "length", "size", "pose", "face", "left hand",
                       "right hand", "clips failed", "frames failed"]  # fmt: skip
    train = ["train", "1", "4", "4", "64x48", "100%", "100%", "25.0%", "0.0%", "0", "0"]
    dev = ["dev", "1", "4", "4", "64x48", "100%", "100%", "100%", "0.0%", "0", "0"]
    assert rows[1:3] == [train, dev]


def test_hostile_names_are_text(tmp_path):
    clip = replace(clip_of(HOSTILE), label=HOSTILE, split=HOSTILE)
    html = clip._repr_html_()
    assert cells(html)[1][:3] == [SHOWN] * 3
    assert re.findall(r"<(\w+)", html).count("img") == 1
    folder = write_run(tmp_path / "<b>run", replace(clip, split="<i>x"))
    html = posemill.open_run(folder)._repr_html_()
    assert cells(html)[1][0] == "<i>x"
    assert "&lt;b&gt;run" in html
    assert "<i>" not in html


def test_a_run_whose_ledger_is_gone_says_so(tmp_path):
    run = posemill.open_run(write_run(tmp_path / "run", clip_of("a")))
    (tmp_path / "run" / "ledger.sqlite").unlink()
    html = run._repr_html_()
    assert "holistic-543" in html
    assert "ledger.sqlite" in html
    assert "<table>" not in html


def test_the_tour_is_kept_without_outputs():
    assert len(cells_of_code()) >= 6
    assert all(each["outputs"] == [] for each in cells_of_code())
    assert {each["execution_count"] for each in cells_of_code()} == {None}


def test_the_tour_runs_from_a_clip_to_a_trained_model(
    tmp_path, media, need_model, monkeypatch, capsys
):
    media("carphone")
    need_model("pose_landmark_full")
    monkeypatch.chdir(tmp_path)
    names = {}
    sources = ["".join(each["source"]) for each in cells_of_code()]
    shown = [said_by(source, names, capsys) for source in sources]
    assert cells(shown[1])[1][:3] == ["all", "8", "48"]
    assert cells(shown[2])[1][:3] == ["talk1", "all", "talk"]
    assert picture_in(shown[2]).shape[1] <= 640
    assert "'keypoints': (48, 143, 3)" in shown[4]
    assert "'accuracy'" in shown[5]
    assert re.findall(r"^(\w+) (?:talk|listen) \d\.\d\d$", shown[6], re.MULTILINE) == sorted(
        f"{'talk' if number % 2 else 'listen'}{number}" for number in range(8)
    )


def said_by(source, names, capsys):
    """Return what a cell prints, and its last value as a notebook would show it."""
    *statements, last = ast.parse(source).body
    is_value = isinstance(last, ast.Expr)
    body = ast.Module(statements if is_value else [*statements, last], [])
    exec(compile(body, "tour", "exec"), names)
    value = eval(compile(ast.Expression(last.value), "tour", "eval"), names) if is_value else None
    html = getattr(value, "_repr_html_", lambda: repr(value))()
    return capsys.readouterr().out + html
