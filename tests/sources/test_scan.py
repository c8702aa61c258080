"""One walk over a tree: what is found, what is left out, and what is said about the rest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from posemill.sources.scan import (
    MISSING,
    joined_version,
    picture_versions,
    scan_tree,
)


def touch(root: Path, *names: str, content: bytes = b"12345") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def found(root: Path) -> dict[str, tuple[int, list[str]]]:
    """Pictures and videos of each folder, by its name below the root, in the order of the walk."""
    scan = scan_tree(str(root))
    assert all(folder.path == str(root.joinpath(*folder.parts)) for folder in scan.folders)
    return {"/".join(each.parts): (each.num_pictures, [*each.videos]) for each in scan.folders}


def test_a_tree_that_is_too_deep_is_cut_and_said(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*"d" * 64)
    touch(folder, "1.png", "e/1.png")
    scan = scan_tree(str(tmp_path))
    assert [len(each.parts) for each in scan.folders] == [64]
    (problem,) = scan.problems
    assert problem.endswith("e' is too deep and was left out")


def test_broken_links_are_what_their_name_says(tmp_path: Path) -> None:
    tmp_path.joinpath("a").mkdir()
    for name in ("1.png", "x.mp4", "notes"):
        (tmp_path / "a" / name).symlink_to("nowhere")
    (tmp_path / "a" / "2.png").symlink_to("2.png")  # a circle, and a picture by its name
    scan = scan_tree(str(tmp_path))
    (folder,) = scan.folders
    assert (folder.num_pictures, folder.videos) == (2, {"x.mp4": MISSING})
    assert scan.num_ignored == 1
    assert scan.unreadable == []


def test_the_version_of_pictures_changes_with_any_file_and_not_with_their_order() -> None:
    assert joined_version({"a": "1", "b": "2"}) == joined_version({"b": "2", "a": "1"})
    others = [{"a": "1"}, {"a": "1", "b": "2"}, {"a": "2", "b": "1"}, {"a": "1", "c": "2"}, {}]
    assert len({joined_version(each) for each in others}) == 5


def test_a_file_that_is_written_anew_has_another_version(tmp_path: Path) -> None:
    touch(tmp_path, "1.png", "2.png", "v/x.mp4")
    pictures, videos = scan_tree(str(tmp_path)).folders
    assert pictures.version == joined_version(picture_versions(str(tmp_path)))
    os.utime(tmp_path / "2.png", (1, 1))
    os.utime(tmp_path / "v" / "x.mp4", (1, 1))
    again = scan_tree(str(tmp_path)).folders
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
def test_what_posemill_wrote_is_no_data(name: str, content: bytes, tmp_path: Path) -> None:
    touch(tmp_path, "a/1.png", "own/x.png", "own/deep/er/2.png", "own/b.mp4")
    (tmp_path / "own" / name).write_bytes(content)
    assert list(found(tmp_path)) == ["a"]
    scan = scan_tree(str(tmp_path))
    assert scan.problems == [f"{str(tmp_path / 'own')!r} was written by posemill; left out"]
    # Whoever names it means it.
    assert list(found(tmp_path / "own")) == ["", "deep/er"]


def test_files_of_others_with_such_names_are_no_mark(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.png", "a/manifest.json", "a/run.json", "a/posemill.jsonl")
    assert list(found(tmp_path)) == ["a"]
