import os
from pathlib import Path

import pytest

from posemill.errors import DecodeError, SourceError
from posemill.sources import find_clips
from posemill.sources.reading import read_clip


def summary(clips):
    return [(clip.split, clip.clip_id, clip.kind, clip.num_frames) for clip in clips]


def one_each(kind, *names, num_frames=1):
    """Clips of one frame; `train/a` is clip `a` of the split `train`, `a` one without a split."""
    parts = [name.partition(":") for name in names]
    return [(split if sep else "all", rest if sep else split, kind, num_frames)
            for split, sep, rest in parts]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "layout", "expected", "num_ignored"),
    [
        # Each folder with pictures is a clip, at any depth.
        ("b/10.png a/x/1.JPEG a/x/deep/er/1.png a/notes.txt odd.png/1.png", "frames",
         one_each("frames", "a/x", "a/x/deep/er", "b", "odd.png"), 1),
        # First folders named like splits are splits,
        ("test/a/1.png train/a/1.png train/b/c/1.png Val/a/1.png more/a/1.png", "frames",
         one_each("frames", "train:a", "train:b/c", "val:a", "test:a", "more/a"), 0),
        # also of loose pictures; beside clips, one that holds pictures itself is a clip.
        ("train/a.png test/b.png", "pictures",
         one_each("pictures", "train:train", "test:test"), 0),
        ("walk/1.png test/1.png", "frames", one_each("frames", "test", "walk"), 0),
        # Hidden and foreign files are ignored, but counted.
        ("a/1.png a/._1.png a/Thumbs.db .cache/2.png __MACOSX/a/1.png x.py", "frames",
         one_each("frames", "a"), 5),
        # All videos below a folder; those that differ in the suffix keep it.
        ("b.MP4 a/x.avi a/y.v2.mkv a/notes.txt move.gif", "videos",
         one_each("video", "a/x", "a/y.v2", "b", "move", num_frames=None), 1),
        ("train/a.mp4 train/a.avi test/a.mp4", "videos",
         one_each("video", "train:a.avi", "train:a.mp4", "test:a", num_frames=None), 0),
    ],
)  # fmt: skip
def test_a_tree_of_files_becomes_clips(tmp_path, make_tree, names, layout, expected, num_ignored):
    make_tree(tmp_path, *names.split())
    clips = find_clips(tmp_path)
    assert (clips.layout, summary(clips), clips.num_ignored) == (layout, expected, num_ignored)
    for clip in clips:
        assert clip.path.startswith(f"{tmp_path}/")
        assert Path(clip.path).exists()


def test_splits_can_be_chosen(tmp_path, make_tree):
    make_tree(tmp_path, "test/a/1.png", "train/a/1.png", "Val/a/1.png", "more/a/1.png")
    assert len(find_clips(tmp_path, splits=[])) == 4
    assert [clip.split for clip in find_clips(tmp_path, splits=["test", "val"])] == ["val", "test"]
    with pytest.raises(SourceError, match="has no split 'dve'; it has: train, val, test, all"):
        find_clips(tmp_path, splits=["train", "dve"])


def test_the_layout_says_whether_pictures_follow_each_other(tmp_path, make_tree):
    make_tree(tmp_path, "photos/b.png", "photos/a.jpg", "mixed/a.mp4", "mixed/thumbnail.png")
    photos, mixed = tmp_path / "photos", tmp_path / "mixed"
    assert find_clips(photos).layout == "pictures"
    assert summary(find_clips(photos)) == [("all", "photos", "pictures", 2)]
    assert summary(find_clips(photos, layout="frames")) == [("all", "photos", "frames", 2)]
    assert {clip.kind for clip in find_clips(tmp_path, layout="pictures")} == {"pictures"}
    for layout, clip in (("videos", ("a", "video", None)), ("frames", ("mixed", "frames", 1))):
        found = find_clips(mixed, layout=layout)
        assert (summary(found), found.num_ignored) == ([("all", *clip)], 1)


def test_the_folder_s_name_is_found_however_it_is_written(tmp_path, make_tree, monkeypatch):
    make_tree(tmp_path / "photos", "a.jpg")
    monkeypatch.chdir(tmp_path / "photos")
    for path in (".", "../photos/", "../photos/../photos"):
        assert find_clips(path)[0].clip_id == "photos"


def test_pictures_beside_folders_are_loose_and_that_is_told(tmp_path, make_tree):
    make_tree(tmp_path / "set", "overview.png", "clip/1.png")
    clips = find_clips(tmp_path / "set")
    assert summary(clips) == [("all", "clip", "frames", 1), ("all", "set", "pictures", 1)]
    assert clips.layout == "frames"
    assert clips.problems == (
        "pictures beside the folders of frames are taken as loose ones, each by itself",
    )


def test_links_are_followed_but_not_in_circles(tmp_path, make_tree):
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


def test_names_that_are_no_utf8_get_an_id_that_is_text(tmp_path, make_tree):
    make_tree(tmp_path, "caf\udce9/1.png", 'it\'s "a"\nname/1.png')
    clips = find_clips(tmp_path)
    assert [clip.clip_id for clip in clips] == ["caf\\xe9", 'it\'s "a"\nname']
    assert os.path.isdir(clips[0].path)  # noqa: PTH112
    make_tree(tmp_path, "caf\\xe9/1.png")
    with pytest.raises(SourceError, match=r"two clips have the id 'caf\\\\xe9' in split 'all'.*"):
        find_clips(tmp_path)


def test_a_folder_that_cannot_be_read_is_told(tmp_path, make_tree):
    make_tree(tmp_path, "a/1.png", "secret/1.png")
    (tmp_path / "secret").chmod(0)
    try:
        if os.access(tmp_path / "secret", os.R_OK):
            pytest.skip("this user may read everything")
        assert "secret' cannot be read: Permission denied" in find_clips(tmp_path).problems[0]
    finally:
        (tmp_path / "secret").chmod(0o700)


@pytest.mark.parametrize("names", [("a/1.png", "a/2.png"), ("a/x.mp4", "b/y.mp4")])
def test_a_folder_that_cannot_be_looked_at_is_a_clip_with_a_reason(tmp_path, make_tree, names):
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
