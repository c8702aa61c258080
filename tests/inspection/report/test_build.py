"""The report: one file that parses, loads nothing, runs nothing, and says what was found."""

from __future__ import annotations

import dataclasses
import re
import sqlite3
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import posemill
from posemill.clips.inputs import ClipInput
from posemill.inspection.drawing.originals import Originals
from posemill.inspection.quality import measure
from posemill.inspection.report import build
from posemill.inspection.report.build import measure_all, telling_rows, write_report
from posemill.records import PoseClip
from posemill.runs.manifest import Manifest
from posemill.runs.writer import RunWriter
from tests.inspection.report.chromium import PROGRAM, STICKING_OUT, TEXT_SIZES, Chromium

Maker = Callable[..., PoseClip]
HOSTILE = '<script>alert("x")</script><img src=http://evil.example/x.png onerror=alert(1)>&\x00\x1b'
VOID = {"meta", "img", "br", "line", "rect"}


class Page(HTMLParser):
    """Collects tags, attributes and text, and sees that every tag is closed."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def write_run(folder: Path, clips: list[PoseClip]) -> None:
    manifest = Manifest(
        "holistic-543", engine={"engine": HOSTILE}, options={"mode": "video"}, source={"path": "x"}
    )
    with RunWriter(folder, manifest) as writer:
        for clip in clips:
            writer.add(clip)


def add_failure(folder: Path, reason: str, message: str) -> None:
    with sqlite3.connect(folder / "ledger.sqlite") as database:
        database.execute(
            "INSERT INTO failures (clip_no, frame_index, num_frames, path, reason, message) "
            "VALUES (1, 3, 1, ?, ?, ?)",
            (HOSTILE, reason, message),
        )
    database.close()


def report_of(folder: Path) -> str:
    material = ClipInput(folder)
    out = folder.parent / "report.html"
    write_report(material, measure_all(material.clips()), out, originals=Originals())
    return out.read_text(encoding="utf-8")


@pytest.fixture
def content(make_clip: Maker, tmp_path: Path) -> str:
    clips = [
        make_clip(30, clip_id="fine", split="train"),
        make_clip(30, clip_id=HOSTILE, split=HOSTILE, missing=("face",)),
    ]
    write_run(tmp_path / "run", clips)
    add_failure(tmp_path / "run", "truncated", f"no end {HOSTILE}")
    return report_of(tmp_path / "run")


def test_the_report_is_well_formed(content: str) -> None:
    page = Page(content)
    assert page.open == []
    assert content.startswith("<!doctype html>")


def test_the_report_loads_and_runs_nothing(content: str) -> None:
    page = Page(content)
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "link", "iframe", "object", "embed", "base", "form", "video"}
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href", "srcset", "data", "xlink:href"):
            if name in attributes:
                assert tag == "img"
                assert str(attributes[name]).startswith(
                    ("data:image/jpeg;base64,", "data:image/png;base64,")
                )
    assert not re.search(r"url\(|@import", content)
    assert "default-src 'none'; img-src data:; style-src 'unsafe-inline'" in content


def test_names_from_data_are_shown_as_text(content: str) -> None:
    words = "".join(Page(content).words)
    assert '<script>alert("x")</script>' in words
    assert "<script" not in content
    assert "\x1b" not in content


def test_the_report_says_what_was_found(content: str) -> None:
    words = " ".join(" ".join(Page(content).words).split())
    assert "face missing in 100%" in words
    assert "truncated" in words
    assert "engine.engine" in words
    assert "options.mode" in words
    assert "0.0% bad" in words
    assert "100% good" in words
    for heading in ("Presence", "Worst clips", "Missing over time", "Failures", "Jumps, swaps"):
        assert heading in words


def test_worst_clips_come_with_pictures_and_first(make_clip: Maker, tmp_path: Path) -> None:
    clips = [make_clip(20, clip_id=f"good{number}") for number in range(3)]
    clips.append(make_clip(20, clip_id="bad", missing=("pose", "face", "left_hand", "right_hand")))
    write_run(tmp_path / "run", clips)
    content = report_of(tmp_path / "run")
    assert content.count("<figure>") == 4  # of the only clip with a fault
    assert content.index("bad") < content.index("good0")


def test_a_perfect_run_says_so(make_clip: Maker, tmp_path: Path) -> None:
    write_run(tmp_path / "run", [make_clip(20, clip_id="good")])
    content = report_of(tmp_path / "run")
    assert "No clip has a fault that was looked for." in content
    assert "None: every clip and every frame was read." in content


def test_many_clips_make_a_report_of_bounded_size_that_says_so(
    make_clip: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "WORST_SHOWN", 2)
    monkeypatch.setattr(build, "STRIPS_SHOWN", 6)
    rng = np.random.default_rng(0)
    clips = []
    for number in range(15):
        clip = make_clip(8, clip_id=f"clip{number:03d}")
        clip.points[rng.random(8) < 0.5, 33:501] = np.nan
        clips.append(clip)
    write_run(tmp_path / "run", clips)
    content = report_of(tmp_path / "run")
    assert "The 2 worst of 15 clips" in content
    assert "The 6 worst of 15 clips" in content
    assert content.count("<figure>") == 2 * 4


def test_pictures_of_a_jump_show_the_frame_before_too(make_clip: Maker) -> None:
    clip = make_clip(40)
    clip.points[20, 522:, 1] -= 0.4
    rows = telling_rows(clip, measure(clip))
    assert len(rows) == 4
    assert [entry for entry in rows if entry[1]] == [
        (19, "just before"), (20, "jump of right hand"),
    ]  # fmt: skip


def test_of_every_other_frame_the_picture_before_a_jump_is_the_row_before_it(
    make_clip: Maker,
) -> None:
    clip = dataclasses.replace(make_clip(40), frame_indices=np.arange(0, 80, 2))
    clip.points[20, 522:, 1] -= 0.9
    rows = telling_rows(clip, measure(clip))
    assert [entry for entry in rows if entry[1]] == [
        (19, "just before"), (20, "jump of right hand"),
    ]  # fmt: skip


def test_a_clip_of_one_frame_has_one_picture(make_clip: Maker) -> None:
    clip = make_clip(1, missing=("face",))
    assert telling_rows(clip, measure(clip)) == [(0, "")]


@pytest.mark.skipif(PROGRAM is None, reason="needs chromium: apt install chromium")
def test_the_report_is_readable_on_a_phone(content: str, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(content, encoding="utf-8")
    (tmp_path / "profile").mkdir()
    with Chromium(tmp_path / "profile", (420, 900)) as browser:
        browser.open(file)
        browser.run("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert browser.run("innerWidth") == 420
        assert browser.run("document.documentElement.scrollWidth") <= 420
        assert browser.run(STICKING_OUT) == []
        assert min(browser.run(TEXT_SIZES)) >= 10.5


def test_the_report_is_chinese_where_the_reader_is_and_names_stay(
    make_clip: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clips = [make_clip(20, clip_id="Videos of Anna", split="train", missing=("face",))]
    write_run(tmp_path / "run", clips)
    monkeypatch.setenv("POSEMILL_LANG", "zh")
    posemill.report(tmp_path / "run", tmp_path / "report.html", progress=False)
    content = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '<html lang="zh-CN">' in content
    for english in (
        "Presence",
        "Worst clips",
        "What the words mean",
        "frozen frames",
        "missing in",
    ):
        assert english not in content
    for chinese in ("检出率", "最差的片段", "术语说明", "的帧缺少面部"):
        assert chinese in content
    assert "Videos of Anna" in content
    monkeypatch.setenv("POSEMILL_LANG", "en")
    posemill.report(tmp_path / "run", tmp_path / "english.html", progress=False)
    content = (tmp_path / "english.html").read_text(encoding="utf-8")
    assert '<html lang="en">' in content
    assert "face missing in 100%" in content
