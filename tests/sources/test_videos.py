from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from posemill.sources import find_clips

MakeTree = Callable[..., Path]


def test_all_videos_below_a_folder_are_clips(tmp_path: Path, make_tree: MakeTree) -> None:
    make_tree(tmp_path, "b.MP4", "a/x.avi", "a/y.v2.mkv", "a/notes.txt", "move.gif")
    clips = find_clips(tmp_path)
    assert clips.layout == "videos"
    assert [clip.clip_id for clip in clips] == ["a/x", "a/y.v2", "b", "move"]
    assert {clip.kind for clip in clips} == {"video"}
    assert {clip.num_frames for clip in clips} == {None}
    assert clips[2].path == str(tmp_path / "b.MP4")
    assert clips.num_ignored == 1


def test_videos_that_differ_in_the_suffix_keep_it(tmp_path: Path, make_tree: MakeTree) -> None:
    make_tree(tmp_path, "train/a.mp4", "train/a.avi", "test/a.mp4")
    found = [(clip.split, clip.clip_id) for clip in find_clips(tmp_path)]
    assert found == [("train", "a.avi"), ("train", "a.mp4"), ("test", "a")]


def test_videos_can_be_asked_for_where_pictures_are_too(
    tmp_path: Path, make_tree: MakeTree
) -> None:
    make_tree(tmp_path, "a.mp4", "a_thumbnail.png")
    clips = find_clips(tmp_path, layout="videos")
    assert [clip.clip_id for clip in clips] == ["a"]
    assert clips.num_ignored == 1


def test_a_broken_link_to_a_video_stays_in_the_list(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").symlink_to("gone.mp4")
    assert [clip.clip_id for clip in find_clips(tmp_path)] == ["a"]
