"""One walk over a tree: what is found, what is left out, and what is said about the rest."""

import os

import pytest

from posemill.files import mark_file
from posemill.sources.clip_list import Collector
from posemill.sources.scan import MISSING, Folder, joined_version, list_pictures, look_at, scan


def walk(root):
    """Folders with pictures or videos, in the order of the walk, and what is said of the rest."""
    collector = Collector("auto", str(root))
    folders = scan(str(root), collector)
    assert all(folder.path == str(root.joinpath(*folder.parts)) for folder in folders)
    return folders, collector


def test_a_tree_that_is_too_deep_is_cut_and_said(tmp_path, make_tree):
    make_tree(tmp_path.joinpath(*"d" * 64), "1.png", "e/1.png")
    folders, said = walk(tmp_path)
    assert [len(each.parts) for each in folders] == [64]
    (problem,) = said.problems
    assert problem.endswith("e' is too deep and was left out")


def test_broken_links_are_what_their_name_says(tmp_path):
    tmp_path.joinpath("a").mkdir()
    for name in ("1.png", "x.mp4", "notes"):
        (tmp_path / "a" / name).symlink_to("nowhere")
    (tmp_path / "a" / "2.png").symlink_to("2.png")  # a circle, and a picture by its name
    (folder,), said = walk(tmp_path)
    assert (folder.num_pictures, folder.videos) == (2, {"x.mp4": MISSING})
    assert said.num_ignored == 1


def test_the_version_of_pictures_changes_with_any_file_and_not_with_their_order():
    assert joined_version({"a": "1", "b": "2"}) == joined_version({"b": "2", "a": "1"})
    others = [{"a": "1"}, {"a": "1", "b": "2"}, {"a": "2", "b": "1"}, {"a": "1", "c": "2"}, {}]
    assert len({joined_version(each) for each in others}) == 5


def test_a_file_that_is_written_anew_has_another_version(tmp_path, make_tree):
    make_tree(tmp_path, "1.png", "2.png", "v/x.mp4")
    pictures, videos = walk(tmp_path)[0]
    folder = Folder(str(tmp_path), ())
    folder.look()
    assert folder == pictures
    os.utime(tmp_path / "2.png", (1, 1))
    os.utime(tmp_path / "v" / "x.mp4", (1, 1))
    again = walk(tmp_path)[0]
    assert again[0].version != pictures.version
    assert again[1].videos["x.mp4"] != videos.videos["x.mp4"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".posemill-output", b""),
        ("manifest.json", b'{"posemill_run": 1}'),
        ("run.json", b'{"kind": "posemill-training"}'),
        ("posemill.jsonl", b'{"posemill": "0.1.0"}'),
    ],
)
def test_what_posemill_wrote_is_no_data(name, content, tmp_path, make_tree):
    make_tree(tmp_path, "a/1.png", "own/x.png", "own/deep/er/2.png", "own/b.mp4")
    (tmp_path / "own" / name).write_bytes(content)
    folders, said = walk(tmp_path)
    assert [folder.parts for folder in folders] == [("a",)]
    assert said.num_ignored == 3  # the mark, a picture and a video
    assert said.problems == [f"{str(tmp_path / 'own')!r} was written by posemill; left out"]
    # Whoever names it means it.
    assert [folder.parts for folder in walk(tmp_path / "own")[0]] == [(), ("deep", "er")]


def test_pictures_that_posemill_wrote_among_data_are_left_out_until_they_are_replaced(
    tmp_path, make_tree, caplog
):
    make_tree(tmp_path, "a/1.png", "a/2.mp4")
    before = walk(tmp_path)[0]
    make_tree(tmp_path, "a/sheet.png", "a/drawn.mp4")
    for name in ("sheet.png", "drawn.mp4"):
        mark_file(tmp_path / "a" / name)
    after, said = walk(tmp_path)
    assert after == before
    assert said.problems == [f"{str(tmp_path / 'a')!r}: left out 2 pictures that posemill drew"]
    assert look_at(str(tmp_path / "a"))[1].num_pictures == 1
    assert said.problems[0] in caplog.text
    assert list_pictures(str(tmp_path / "a")) == ["1.png"]
    (tmp_path / "a" / "sheet.png").write_bytes(b"of the user")
    assert list_pictures(str(tmp_path / "a")) == ["1.png", "sheet.png"]
    for text in (b"\xff[]", b" " * (1 << 24) + b'["sheet.png", 11]'):  # broken, or larger than ours
        (tmp_path / "a" / ".posemill-files").write_bytes(text)
        assert walk(tmp_path)[0][0].num_pictures == 2


def test_files_of_others_with_such_names_are_no_mark(tmp_path, make_tree):
    make_tree(tmp_path, "a/1.png", "a/manifest.json", "a/run.json", "a/posemill.jsonl")
    assert [folder.parts for folder in walk(tmp_path)[0]] == [("a",)]
