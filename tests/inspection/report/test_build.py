"""The report: one file that parses, loads nothing, runs nothing, and says what was found."""

import numpy as np
import pytest
from made_up_people import write_run

import posemill
from posemill.clips.inputs import ClipInput
from posemill.inspection.drawing.originals import Originals
from posemill.inspection.quality import measure
from posemill.inspection.report import build
from posemill.inspection.report.build import measure_all, telling_rows, write_report
from tests.inspection.pages import HOSTILE, check_on_phone, words_of_page
from tests.runs.conftest import change_ledger

FACTS = {"engine": {"engine": HOSTILE}, "options": {"mode": "video"}, "source": {"path": "x"}}


def report_of(folder):
    material = ClipInput(folder)
    out = folder.parent / "report.html"
    write_report(material, measure_all(material.clips()), out, originals=Originals())
    return out.read_text(encoding="utf-8")


@pytest.fixture
def content(make_clip, tmp_path):
    clips = [
        make_clip(30, clip_id="fine", split="train"),
        make_clip(30, clip_id=HOSTILE, split=HOSTILE, missing=("face",)),
    ]
    write_run(tmp_path / "run", *clips, **FACTS)
    row = "INSERT INTO failures (clip_no, num_frames, path, reason, message) VALUES (1, 1, ?, ?, ?)"
    change_ledger(tmp_path / "run", row, HOSTILE, "truncated", f"no end {HOSTILE}")
    return report_of(tmp_path / "run")


def test_the_report_is_a_page_that_says_what_was_found(content, tmp_path):
    words = words_of_page(content)
    for said in (
        "face missing in 100%", "truncated", "engine.engine", "options.mode", "0.0% bad",
        "100% good", "Presence", "Worst clips", "Missing over time", "Failures", "Jumps, swaps",
    ):  # fmt: skip
        assert said in words, said
    check_on_phone(tmp_path / "report.html")


def test_worst_clips_come_with_pictures_and_first(make_clip, tmp_path):
    write_run(tmp_path / "perfect" / "run", make_clip(20, clip_id="good"))
    content = report_of(tmp_path / "perfect" / "run")
    assert "No clip has a fault that was looked for." in content
    assert "None: every clip and every frame was read." in content
    clips = [make_clip(20, clip_id=f"good{number}") for number in range(3)]
    clips.append(make_clip(20, clip_id="bad", missing=("pose", "face", "left_hand", "right_hand")))
    write_run(tmp_path / "run", *clips, **FACTS)
    content = report_of(tmp_path / "run")
    assert content.count("<figure>") == 4  # of the only clip with a fault
    assert content.index("bad") < content.index("good0")


def test_many_clips_make_a_report_of_bounded_size_that_says_so(make_clip, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "WORST_SHOWN", 2)
    monkeypatch.setattr(build, "STRIPS_SHOWN", 6)
    rng = np.random.default_rng(0)
    clips = []
    for number in range(15):
        clip = make_clip(8, clip_id=f"clip{number:03d}")
        clip.points[rng.random(8) < 0.5, 33:501] = np.nan
        clips.append(clip)
    write_run(tmp_path / "run", *clips, **FACTS)
    content = report_of(tmp_path / "run")
    assert "The 2 worst of 15 clips" in content
    assert "The 6 worst of 15 clips" in content
    assert content.count("<figure>") == 2 * 4


@pytest.mark.parametrize(("step", "way"), [(1, 0.4), (2, 0.9)])
def test_pictures_of_a_jump_show_the_row_before_too(make_clip, step, way):
    clip = make_clip(40, frame_indices=step * np.arange(40))
    clip.points[20, 522:, 1] -= way
    rows = telling_rows(clip, measure(clip))
    assert len(rows) == 4
    assert [entry for entry in rows if entry[1]] == [
        (19, "just before"), (20, "jump of right hand"),
    ]  # fmt: skip


def test_a_clip_of_one_frame_has_one_picture(make_clip):
    clip = make_clip(1, missing=("face",))
    assert telling_rows(clip, measure(clip)) == [(0, "")]


def test_the_report_is_chinese_where_the_reader_is_and_names_stay(make_clip, tmp_path, monkeypatch):
    clips = [make_clip(20, clip_id="Videos of Anna", split="train", missing=("face",))]
    write_run(tmp_path / "run", *clips, **FACTS)
    monkeypatch.setenv("POSEMILL_LANG", "zh")
    posemill.report(tmp_path / "run", tmp_path / "report.html", progress=False)
    content = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '<html lang="zh-CN">' in content
    for english in ("Presence", "Worst clips", "What the words mean", "missing in"):
        assert english not in content
    for chinese in ("检出率", "最差的片段", "术语说明", "的帧缺少面部"):
        assert chinese in content
    assert "Videos of Anna" in content
