"""The figure on smoothing: jitter and lag are measured, and the page has one clip's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from posemill.clips.smoothing import METHODS
from posemill.inspection.quality import RunQuality, measure
from posemill.inspection.report.smoothing import (
    clip_to_smooth,
    jitter_of,
    lag_of,
    smoothing_section,
)
from tests.inspection.conftest import make_person

TIME = np.arange(60)


def waves(late=0.0):
    """Return `(60, 2, 2)`: two points that go to and fro, so many frames late."""
    wave = 50 * np.sin((TIME - late) / 6)
    return np.stack([wave, -wave], 1)[..., None].repeat(2, -1).astype(np.float32)


@pytest.mark.parametrize("late", [0.0, 1.0, 2.5, 4.0])
def test_the_lag_is_the_shift_that_fits_best(late):
    raw = waves()
    raw[20:23, 0] = np.nan
    assert lag_of(raw, waves(late)) == pytest.approx(late, abs=0.05)


def test_jitter_is_the_change_of_speed_and_a_straight_way_has_none():
    straight = np.zeros((9, 1, 2), np.float32)
    straight[:, 0, 0] = 7 * np.arange(9)
    assert jitter_of(straight) == 0
    straight[1::2, 0, 1] = 3  # up and down by 3: the speed changes by 6
    assert jitter_of(straight) == 6
    assert jitter_of(np.full((9, 1, 2), np.nan, np.float32)) == 0


def test_the_section_has_a_row_and_a_curve_of_each_filter():
    clip = replace(make_person(40), fps=25.0, clip_id="<b>")
    noise = np.random.default_rng(0).normal(0, 0.01, clip.points.shape)
    content = smoothing_section(replace(clip, points=(clip.points + noise).astype(np.float32)))
    assert content.count("<polyline") == 1 + len(METHODS)
    assert all(f">{name}</td>" in content for name in ("none", *METHODS))
    assert "&lt;b&gt;" in content
    assert "<b>" not in content


def test_the_longest_clip_that_moves_is_chosen():
    quality = RunQuality(keep=9)
    assert clip_to_smooth(quality) is None
    for name, frames in (("short", 5), ("long", 40), ("longer", 50)):
        quality.add(measure(replace(make_person(frames), clip_id=name)))
    chosen = clip_to_smooth(quality)
    assert chosen is not None
    assert chosen.clip_id == "longer"
