from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from posemill.errors import DecodeError, SourceError
from posemill.sources import find_clips
from posemill.sources.reading import read_clip

MakeTree = Callable[..., Path]


def summary(clips: object) -> list[tuple[str, str, str, int | None]]:
    return [(clip.split, clip.clip_id, clip.kind, clip.num_frames) for clip in clips]  # type: ignore[attr-defined]


def test_each_folder_with_pictures_is_a_clip_at_any_depth(
    tmp_path: Path, make_tree: MakeTree
) -> None:
    make_tree(tmp_path, "b/10.png", "b/2.jpg", "a/x/1.JPEG", "a/x/deep/er/1.png", "a/notes.txt")
    clips = find_clips(tmp_path)
    assert clips.layout == "frames"
    assert summary(clips) == [
        ("all", "a/x", "frames", 1),
        ("all", "a/x/deep/er", "frames", 1),
        ("all", "b", "frames", 2),
    ]
    assert clips.num_ignored == 1
    assert clips[0].path == str(tmp_path / "a" / "x")


def test_first_folders_named_like_splits_are_splits(tmp_path: Path, make_tree: MakeTree) -> None:
    make_tree(
        tmp_path, "test/a/1.png", "train/a/1.png", "train/b/c/1.png", "Val/a/1.png", "more/a/1.png"
    )
    clips = find_clips(tmp_path)
    assert summary(clips) == [
        ("train", "a", "frames", 1),
        ("train", "b/c", "frames", 1),
        ("val", "a", "frames", 1),
        ("test", "a", "frames", 1),
        ("all", "more/a", "frames", 1),
    ]
    assert clips.splits == ("train", "val", "test", "all")
    assert len(find_clips(tmp_path, splits=[])) == 5
    assert [clip.split for clip in find_clips(tmp_path, splits=["test", "val"])] == ["val", "test"]
    with pytest.raises(SourceError, match="has no split 'dve'; it has: train, val, test, all"):
        find_clips(tmp_path, splits=["train", "dve"])


def test_a_flat_folder_of_pictures_is_loose_pictures(tmp_path: Path, make_tree: MakeTree) -> None:
    make_tree(tmp_path / "photos", "b.png", "a.jpg")
    loose = find_clips(tmp_path / "photos")
    assert loose.layout == "pictures"
    assert summary(loose) == [("all", "photos", "pictures", 2)]
    assert summary(find_clips(tmp_path / "photos", layout="frames")) == [
        ("all", "photos", "frames", 2)
    ]


def test_the_folder_s_name_is_found_however_it_is_written(
    tmp_path: Path, make_tree: MakeTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tree(tmp_path / "photos", "a.jpg")
    monkeypatch.chdir(tmp_path / "photos")
    for path in (".", "../photos/", "../photos/../photos"):
        assert find_clips(path)[0].clip_id == "photos"


def test_pictures_beside_folders_are_loose_and_that_is_told(
    tmp_path: Path, make_tree: MakeTree
) -> None:
    make_tree(tmp_path / "set", "overview.png", "clip/1.png")
    clips = find_clips(tmp_path / "set")
    assert summary(clips) == [("all", "clip", "frames", 1), ("all", "set", "pictures", 1)]
    assert clips.problems == (
        "pictures beside the folders of frames are taken as loose ones, each by itself",
    )


def test_loose_pictures_may_have_splits(tmp_path: Path, make_tree: MakeTree) -> None:
    make_tree(tmp_path, "train/a.png", "test/b.png")
    assert summary(find_clips(tmp_path)) == [
        ("train", "train", "pictures", 1),
        ("test", "test", "pictures", 1),
    ]


def test_a_clip_called_like_a_split_is_a_clip(tmp_path: Path, make_tree: MakeTree) -> None:
    make_tree(tmp_path, "walk/1.png", "test/1.png")
    assert summary(find_clips(tmp_path)) == [
        ("all", "test", "frames", 1),
        ("all", "walk", "frames", 1),
    ]


def test_the_layout_pictures_tracks_nothing(tmp_path: Path, make_tree: MakeTree) -> None:
    make_tree(tmp_path, "a/1.png", "b/1.png")
    assert {clip.kind for clip in find_clips(tmp_path, layout="pictures")} == {"pictures"}


def test_hidden_and_foreign_files_are_ignored_but_counted(
    tmp_path: Path, make_tree: MakeTree
) -> None:
    make_tree(
        tmp_path, "a/1.png", "a/._1.png", "a/Thumbs.db", ".cache/2.png", "__MACOSX/a/1.png", "x.py"
    )
    clips = find_clips(tmp_path)
    assert summary(clips) == [("all", "a", "frames", 1)]
    assert clips.num_ignored == 5


def test_a_folder_called_like_a_picture_is_a_folder(tmp_path: Path, make_tree: MakeTree) -> None:
    make_tree(tmp_path, "odd.png/1.png")
    assert summary(find_clips(tmp_path)) == [("all", "odd.png", "frames", 1)]


def test_links_are_followed_but_not_in_circles(tmp_path: Path, make_tree: MakeTree) -> None:
    make_tree(tmp_path / "real", "clip/1.png")
    data = tmp_path / "data"
    data.mkdir()
    (data / "linked").symlink_to(tmp_path / "real" / "clip")
    (data / "again").symlink_to(tmp_path / "real" / "clip")
    (data / "loop").symlink_to(data)
    clips = find_clips(data)
    assert [clip.clip_id for clip in clips] == ["again", "linked"]
    assert len(clips.problems) == 1
    assert clips.problems[0].endswith("loop' links to a folder above itself")


def test_broken_links_and_pipes_are_frames_that_fail_later(
    tmp_path: Path, make_tree: MakeTree
) -> None:
    make_tree(tmp_path, "a/1.png")
    (tmp_path / "a" / "2.png").symlink_to("gone")
    os.mkfifo(tmp_path / "a" / "3.png")
    assert summary(find_clips(tmp_path)) == [("all", "a", "frames", 3)]


def test_names_that_are_no_utf8_get_an_id_that_is_text(tmp_path: Path, make_tree: MakeTree) -> None:
    make_tree(tmp_path, "caf\udce9/1.png", 'it\'s "a"\nname/1.png')
    clips = find_clips(tmp_path)
    assert [clip.clip_id for clip in clips] == ["caf\\xe9", 'it\'s "a"\nname']
    assert os.path.isdir(clips[0].path)  # noqa: PTH112


def test_two_folders_that_read_the_same_are_refused(tmp_path: Path, make_tree: MakeTree) -> None:
    make_tree(tmp_path, "\udce9/1.png", "\\xe9/1.png")
    with pytest.raises(SourceError, match=r"two clips have the id '\\\\xe9' in split 'all'.*"):
        find_clips(tmp_path)


def test_a_folder_that_cannot_be_read_is_told(tmp_path: Path, make_tree: MakeTree) -> None:
    make_tree(tmp_path, "a/1.png", "secret/1.png")
    (tmp_path / "secret").chmod(0)
    try:
        if os.access(tmp_path / "secret", os.R_OK):
            pytest.skip("this user may read everything")
        assert "secret' cannot be read: Permission denied" in find_clips(tmp_path).problems[0]
    finally:
        (tmp_path / "secret").chmod(0o700)


def test_a_picture_that_links_to_itself_is_a_frame_of_its_clip(
    tmp_path: Path, make_tree: MakeTree
) -> None:
    make_tree(tmp_path, "train/a/1.png", "train/a/2.png")
    (tmp_path / "train" / "a" / "3.png").symlink_to("3.png")
    (tmp_path / "train" / "a" / "notes.txt").symlink_to("notes.txt")
    clips = find_clips(tmp_path)
    assert summary(clips)[0] == ("train", "a", "frames", 3)
    frames = list(read_clip(clips[0]))
    assert [isinstance(frame.content, DecodeError) for frame in frames] == [False, False, True]
    assert frames[2].content.reason == "broken link"  # type: ignore[union-attr]


@pytest.mark.parametrize("names", [("a/1.png", "a/2.png"), ("a/x.mp4", "b/y.mp4")])
def test_a_folder_that_cannot_be_looked_at_is_a_clip_with_a_reason(
    tmp_path: Path, make_tree: MakeTree, names: tuple[str, ...]
) -> None:
    make_tree(tmp_path, *names)
    (tmp_path / "lost").symlink_to("lost")
    (tmp_path / "train").symlink_to("train")
    clips = find_clips(tmp_path)
    lost = {
        (clip.split, clip.clip_id): clip for clip in clips if clip.path.endswith(("lost", "train"))
    }
    assert set(lost) == {("all", "lost"), ("train", "train")}
    for clip in lost.values():
        (frame,) = read_clip(clip)
        assert isinstance(frame.content, DecodeError)
        assert frame.content.reason == "broken link"
    assert "lost' cannot be read: Too many levels of symbolic links" in clips.problems[0]


def test_a_loop_among_loose_pictures_loses_only_itself(tmp_path: Path, make_tree: MakeTree) -> None:
    make_tree(tmp_path, "1.png", "2.png")
    (tmp_path / "3.png").symlink_to("3.png")
    (clip,) = find_clips(tmp_path, layout="pictures")
    assert clip.num_frames == 3
    assert sum(isinstance(frame.content, DecodeError) for frame in read_clip(clip)) == 1
