from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from posemill.sources import ClipList, SplitTotals, find_clips

MakeTree = Callable[..., Path]


@pytest.fixture
def dataset(tmp_path: Path, make_tree: MakeTree) -> Path:
    return make_tree(tmp_path / "data", "train/a/1.png", "train/a/2.png", "test/b/1.png")


def test_it_is_a_sequence_with_totals(dataset: Path) -> None:
    clips = find_clips(dataset)
    assert isinstance(clips, ClipList)
    assert len(clips) == 2
    assert clips[0].clip_id == "a"
    assert clips[1:] == (clips[1],)
    assert [clip.split for clip in clips] == ["train", "test"]
    assert clips.totals == {"train": SplitTotals(1, 2, 0), "test": SplitTotals(1, 1, 0)}
    assert repr(clips).endswith("layout='frames', train: 1 clip, 2 frames; test: 1 clip, 1 frame)")


def test_videos_are_not_counted(tmp_path: Path, make_video: Callable[..., Path]) -> None:
    make_video(tmp_path / "a.mp4")
    clips = find_clips(tmp_path)
    assert clips.totals == {"all": SplitTotals(1, 0, 1)}
    assert "0 frames and 1 video not counted" in repr(clips)


def test_the_fingerprint_stays_when_nothing_changes_or_the_data_moves(dataset: Path) -> None:
    before = find_clips(dataset).fingerprint
    assert len(before) == 64
    (dataset / "README.txt").write_text("ignored")
    assert find_clips(dataset).fingerprint == before
    moved = dataset.parent / "elsewhere"
    shutil.move(dataset, moved)
    assert find_clips(moved).fingerprint == before


@pytest.mark.parametrize(
    "change",
    [
        lambda root: shutil.copyfile(root / "train/a/1.png", root / "train/a/3.png"),
        lambda root: (root / "train/a/2.png").unlink(),
        lambda root: (root / "train/a/2.png").rename(root / "train/a/3.png"),
        lambda root: (root / "train/a").rename(root / "train/z"),
        lambda root: (root / "test").rename(root / "dev"),
        lambda root: shutil.copytree(root / "test/b", root / "test/c"),
    ],
    ids=["frame added", "removed", "renamed", "clip renamed", "split renamed", "clip added"],
)
def test_the_fingerprint_notices(dataset: Path, change: Callable[[Path], object]) -> None:
    before = find_clips(dataset).fingerprint
    change(dataset)
    assert find_clips(dataset).fingerprint != before


def test_the_fingerprint_notices_a_video_of_another_size(
    tmp_path: Path, make_video: Callable[..., Path]
) -> None:
    make_video(tmp_path / "a.mp4")
    before = find_clips(tmp_path).fingerprint
    make_video(tmp_path / "a.mp4", 20)
    assert find_clips(tmp_path).fingerprint != before
