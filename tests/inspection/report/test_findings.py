"""The sections of numbers: what is divided by what, and which words stand beside it."""

import re
from dataclasses import replace

import numpy as np
import pytest
from made_up_people import make_person

from posemill.clips.smoothing import METHODS
from posemill.inspection.quality import RunQuality, measure
from posemill.inspection.report import findings
from posemill.skeletons.palette import part_colour, part_label


@pytest.fixture
def quality(make_clip):
    """Of 1,500 frames, the left hand found in all but one, the right hand never."""
    found = measure(make_clip(2, skeleton_name="holistic-143", clip_id="<c>", split="dev"))
    counts = {"face": 750, "left_hand": 1499, "right_hand": 0, "pose": 1500}
    parts = tuple(
        replace(part, num_present=counts[part.name], longest_gap=1500 - counts[part.name],
                num_jumps=3 * (part.name == "pose"), strip=np.full(2, 255, np.uint8))
        for part in found.parts
    )  # fmt: skip
    return replace(found, num_frames=1500, parts=parts, num_swaps=2, num_doubled=3, num_frozen=4)


def run_of(*clips, keep=9):
    run = RunQuality(keep=keep)
    for clip in clips:
        run.add(clip)
    return run


def words_of(content):
    """Return every word of charts: those of SVG, of headings, and beside bars."""
    return [
        re.sub("<.*?>", "", words)
        for words in re.findall(r"<(?:text|h3|span)\b[^>]*>(.*?)</(?:text|h3|span)>", content)
    ]


def lengths_of(content):
    return [float(width) for width in re.findall(r'width[=:]"?([\d.]+)[%"]', content)]


def test_presence_is_a_share_of_the_frames(quality):
    empty = replace(quality, split="none", num_frames=0, parts=quality.parts[2:3])
    content = findings.presence_section(run_of(quality, empty))
    assert words_of(content) == [
        "dev  (1,500 frames)", "face", "50.0% weak", "left hand", "99.9% good",
        "right hand", "0.0% bad", "pose", "100% good", "none  (0 frames)", "right hand",
        "0.0% bad",
    ]  # fmt: skip
    assert lengths_of(content) == [50, 99.9, 0, 100, 0]
    assert 'aria-label="Share of frames with each part"' in content
    assert content.startswith('<section><h2>Presence</h2><p class="quiet">Share of frames in whic')


@pytest.mark.parametrize(("share", "expected"), [
    (100, "100% good"), (99.96, "&lt;100% good"), (99.94, "99.9% good"), (0, "0.0% bad"),
])  # fmt: skip
def test_a_part_that_is_missing_once_is_not_complete(share, expected, quality):
    part = replace(quality.parts[0], num_present=round(100 * share))
    run = run_of(replace(quality, num_frames=10_000, parts=(part,)))
    content = findings.presence_section(run)
    assert words_of(content)[-1] == expected


def test_strips_name_clips_and_parts(quality):
    unnamed = replace(quality, clip_id="", badness=0.0)
    content = findings.strips_section(run_of(replace(quality, badness=0.9), unnamed))
    names = re.findall(r"<span.*?>(.*?)</span>", content.partition('"strips"')[2])
    said = "dev, 1,500 frames"
    assert names == ["&lt;c&gt;", said, "(no name)", said]
    assert re.findall(r'<i style="background:(.*?)"></i>([a-z ]+)', content) == [
        (part_colour(part.name), part_label(part.name)) for part in quality.parts
    ]
    assert content.count('alt="presence over time in &lt;c&gt;"') == 1
    assert '<p class="quiet">All 2 clips, the worst first. Each clip runs from left' in content
    content = findings.strips_section(run_of(quality, unnamed, keep=1))
    assert '<p class="quiet">The 1 worst of 2 clips. Each clip' in content


def test_jumps_are_counted_in_a_thousand_frames(quality):
    content = findings.motion_section(run_of(quality, replace(quality, split="test", num_swaps=0)))
    assert "2.00 (3 in 1 clips)" in words_of(content)
    assert words_of(content).count("0.00 (0 in 0 clips)") == 6
    assert "dev: jumps in 1,000 frames" in words_of(content)
    assert max(lengths_of(content)) == 100  # the longest is as wide as the chart
    cells = re.findall(r"<td.*?>(.*?)</td>", content)
    assert cells == ["dev", "2", "1", "3", "1", "4", "1", "test", "0", "0", "3", "1", "4", "1"]
    assert re.findall(r"<th.*?>(.*?)</th>", content) == [
        "split", "left/right suspects", "in clips", "both hands on one spot", "in clips",
        "frozen frames", "in clips",
    ]  # fmt: skip
    assert "A suspect is a frame to look at, not a proven fault." in content
    no_frames = replace(quality, num_frames=0)
    assert "3000.00 (3 in 1 clips)" in words_of(findings.motion_section(run_of(no_frames)))
    assert findings.motion_section(run_of()).count('class="bars"') == 1


TIME = np.arange(60)


def waves(late=0.0):
    """Return `(60, 2, 2)`: two points that go to and fro, so many frames late."""
    wave = 50 * np.sin((TIME - late) / 6)
    return np.stack([wave, -wave], 1)[..., None].repeat(2, -1).astype(np.float32)


@pytest.mark.parametrize("late", [0.0, 1.0, 2.5, 4.0])
def test_the_lag_is_the_shift_that_fits_best(late):
    raw = waves()
    raw[20:23, 0] = np.nan
    assert findings.lag_of(raw, waves(late)) == pytest.approx(late, abs=0.05)


def test_jitter_is_the_change_of_speed_and_a_straight_way_has_none():
    straight = np.zeros((9, 1, 2), np.float32)
    straight[:, 0, 0] = 7 * np.arange(9)
    assert findings.jitter_of(straight) == 0
    straight[1::2, 0, 1] = 3  # up and down by 3: the speed changes by 6
    assert findings.jitter_of(straight) == 6
    assert findings.jitter_of(np.full((9, 1, 2), np.nan, np.float32)) == 0


def test_the_section_has_a_row_and_a_curve_of_each_filter():
    clip = replace(make_person(100), fps=25.0, clip_id="<b>")
    clip.points[50:, 0] += 0.3
    noise = np.random.default_rng(0).normal(0, 0.01, clip.points.shape)
    content = findings.smoothing_section(
        replace(clip, points=(clip.points + noise).astype(np.float32))
    )
    assert content.count("<polyline") == 1 + len(METHODS)
    assert all(f">{name}</td>" in content for name in ("none", *METHODS))
    assert "frames 19 to 78" in content, "those around the quickest change"
    assert "&lt;b&gt;" in content
    assert "<b>" not in content


def test_the_longest_clip_that_moves_is_chosen():
    assert findings.clip_to_smooth(run_of()) is None
    lengths = {"short": 5, "long": 40, "longer": 50}
    clips = (make_person(length, clip_id=name) for name, length in lengths.items())
    chosen = findings.clip_to_smooth(run_of(*map(measure, clips)))
    assert chosen.clip_id == "longer"
