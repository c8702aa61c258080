"""Several people in a frame: into the shards of a run and out again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posemill.records import OtherPeople, PersonIds, PoseClip, join_people, nobody_else
from tests.runs.conftest import write_run


def clip_of(counts: list[int], clip_id: str = "a", *, seed: int = 0) -> PoseClip:
    """Return a clip of openpose-18 with so many people beside the first in each frame."""
    rng = np.random.default_rng(seed)
    points = rng.random((len(counts), 18, 3), np.float32)
    others = OtherPeople(
        np.array(counts, np.int64),
        rng.random((sum(counts), 18, 3), np.float32),
        rng.random((sum(counts), 18), np.float32),
        ids=PersonIds(np.arange(len(counts)), 100 + np.arange(sum(counts))),
    )
    sizes = np.full((len(counts), 2), 100, np.int32)
    return PoseClip(points, np.ones(points.shape[:2], np.float32), sizes, "openpose-18",
                    clip_id=clip_id, others=others)  # fmt: skip


def same_people(one: Any, other: Any) -> None:
    for name in ("counts", "points", "scores"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    if other.ids is not None and one.ids is not None:
        np.testing.assert_array_equal(np.concatenate(one.ids), np.concatenate(other.ids))


def test_people_come_back_as_they_were(tmp_path: Path) -> None:
    clips = [clip_of([0, 2, 1], "a"), clip_of([0], "b", seed=1), clip_of([3, 0], "c", seed=2)]
    run = write_run(tmp_path / "run", *clips)
    for clip, read in zip(clips, run, strict=True):
        same_people(read.others, clip.others)
        np.testing.assert_array_equal(read.points, clip.points)
    same_people(run["c"].others, clips[2].others)
    assert run["c"].others.ids.others.tolist() == [100, 101, 102]


def test_clips_of_one_person_beside_clips_of_several_have_nobody_else(tmp_path: Path) -> None:
    alone = replace(clip_of([0, 0], "alone"), others=None)
    for rows, name in ((4096, "one-shard"), (1, "two-shards")):
        both = clip_of([2], "both", seed=3)
        run = write_run(tmp_path / name, alone, both, rows_per_shard=rows)
        read = {clip.clip_id: clip for clip in run}
        same_people(read["both"].others, both.others)
        same_people(read["alone"].others, nobody_else(2, 18))
    run = write_run(tmp_path / "run", alone)
    assert run["alone"].others is None
    assert "other_keypoints" not in run.table().column_names


def test_people_that_do_not_fit_the_clip_are_refused() -> None:
    clip = clip_of([1, 1])
    with pytest.raises(ValueError, match=r"others.counts: expected shape \(2,\)"):
        PoseClip(clip.points, clip.scores, clip.sizes_wh, "openpose-18", others=nobody_else(1, 18))
    with pytest.raises(ValueError, match=r"others.points: expected shape \(0, 18, 3\)"):
        PoseClip(clip.points, clip.scores, clip.sizes_wh, "openpose-18", others=nobody_else(2, 17))


def test_others_take_another_layout_with_the_clip(tmp_path: Path) -> None:
    clip = clip_of([1, 2]).as_skeleton("coco-133")
    assert clip.others is not None
    assert clip.others.points.shape == (3, 133, 3)
    np.testing.assert_array_equal(clip.others.points[:, 0], clip_of([1, 2]).others.points[:, 0])  # type: ignore[union-attr]
    assert np.isnan(clip.others.points[:, 17:]).all()


def test_what_does_not_know_its_people_joins_to_what_does_not() -> None:
    both = join_people([nobody_else(2, 18), clip_of([1]).others])
    assert both
    assert both.counts.tolist() == [0, 0, 1]
    assert join_people([nobody_else(2, 18), None]) is None
    assert join_people([]) is None
