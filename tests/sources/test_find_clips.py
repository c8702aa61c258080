import pytest

from posemill.errors import ConfigError, SourceError
from posemill.sources import LAYOUTS, find_clips


def test_layouts_are_found_by_what_is_there(tmp_path, make_tree):
    make_tree(
        tmp_path, "frames/a/1.png", "loose/1.png", "videos/x/a.mp4", "list.csv", "a.jsonl", "b.TSV"
    )
    (tmp_path / "list.csv").write_text("path\nloose/1.png\n")
    (tmp_path / "b.TSV").write_text("path\nloose/1.png\n")
    (tmp_path / "a.jsonl").write_text('{"path": "loose/1.png"}\n')
    expected = {
        "frames": "frames",
        "loose": "pictures",
        "loose/1.png": "pictures",
        "videos": "videos",
        "videos/x/a.mp4": "videos",
        "list.csv": "list",
        "a.jsonl": "list",
        "b.TSV": "list",
    }
    assert {name: find_clips(tmp_path / name).layout for name in expected} == expected
    assert set(expected.values()) < set(LAYOUTS)


def test_videos_and_pictures_together_are_a_question(tmp_path, make_tree):
    make_tree(tmp_path, "a.mp4", "b.avi", "c/1.png")
    message = r"holds both 2 videos and 1 picture; extract one kind by layout=\"videos\", layout="
    with pytest.raises(SourceError, match=message):
        find_clips(tmp_path)
    assert len(find_clips(tmp_path, layout="videos")) == 2
    assert len(find_clips(tmp_path, layout="frames")) == 1


def test_nothing_to_read_says_what_was_looked_for_and_what_is_there(tmp_path, make_tree):
    make_tree(tmp_path, "notes.txt", "data/x.npy")
    with pytest.raises(SourceError, match=r"looked for folders of pictures, loose pictures, videos a") as caught:  # noqa: E501  # fmt: skip
        find_clips(tmp_path)
    assert "found 2 other files (first entries: 'data', 'notes.txt')" in str(caught.value)
    with pytest.raises(SourceError, match=r"no clips in .*: looked for videos .*found 2 other"):
        find_clips(tmp_path, layout="videos")
    with pytest.raises(SourceError, match=r"no clips in .*: looked for folders that hold \.png"):
        find_clips(tmp_path, layout="frames")


def test_a_path_or_a_layout_that_does_not_fit_is_refused(tmp_path, make_tree):
    make_tree(tmp_path, "a.mp4", "b.png", "notes.txt")
    for name, layout, message in (
        ("gone", "auto", "gone' cannot be read: No such file or directory"),
        (".", "tree", "unknown layout 'tree'; known: auto, frames, pictures"),
        (".", "list", "is a folder; layout 'list' expects a file"),
        ("a.mp4", "phoenix", "and a layout that fits"),
        ("notes.txt", "auto", "notes.txt': expected a picture, a video or a list"),
        ("b.png", "list", "and a layout that fits"),
    ):
        error = ConfigError if layout == "tree" else SourceError
        with pytest.raises(error, match=message):
            find_clips(tmp_path / name, layout=layout)
    assert find_clips(tmp_path / "notes.txt", layout="videos")[0].kind == "video"
