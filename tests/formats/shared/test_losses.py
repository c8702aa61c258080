"""What is told as lost was in the clips."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from posemill.formats import FORMATS, get_format
from posemill.formats.shared.contract import Recipe
from posemill.records import PoseClip
from posemill.testing.formats import make_clip, out_of


def plain_clip(skeleton: str) -> PoseClip:
    """A clip that has nothing but points, whose depth is 0 and whose scores are 1."""
    clip = make_clip(1, frames=2, skeleton=skeleton, image_paths=(), label=None, fps=None)
    points = np.full_like(clip.points, 0.5)
    points[..., 2] = 0
    return replace(clip, points=points, scores=np.ones_like(clip.scores))


@pytest.mark.parametrize("name", FORMATS)
def test_a_clip_without_it_does_not_lose_it(name: str, tmp_path: Path) -> None:
    form = get_format(name)
    clip = plain_clip(form.layouts[0])
    if name == "pkl":
        clip = replace(clip, sizes_wh=np.zeros_like(clip.sizes_wh))
    summary = form.write([clip], out_of(form, tmp_path), recipe=Recipe())
    assert summary.losses == form.losses
    full = make_clip(2, skeleton=form.layouts[0], frame_indices=np.arange(6) * 2, extra={"a": 1})
    full.scores[full.mask] *= 1e-7
    full.sizes_wh[1] += 8
    no_frames = make_clip(3, frames=0, skeleton=form.layouts[0])
    clips = [clip, full, no_frames]
    (tmp_path / "full").mkdir()
    summary = form.write(clips, out_of(form, tmp_path / "full"), recipe=Recipe())
    assert sorted(summary.losses) == sorted(form.all_losses)
