"""Names from data become paths below the folder, whatever they hold; pictures are shown."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from posemill.errors import PosemillError
from posemill.inspection.drawing.picture_files import open_viewer, safe_path, writing


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "/etc/passwd", "..", "", ".", "a/../../b", "C:\\Windows\\x", "..\\..\\x",
     "a\0b", "x" * 4000, "é" * 300, "con", "a/nul.txt", "trailing. ", "\udcff", "new\nline"],
)  # fmt: skip
def test_hostile_names_stay_below_the_folder_and_can_be_written(name, tmp_path):
    path = safe_path(tmp_path, "train", name, suffix=".png")
    assert path.resolve().is_relative_to(tmp_path.resolve() / "train")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("fits")


@given(st.text(), st.text())
def test_two_names_never_share_a_file_and_plain_ones_stay(one, other):
    path = safe_path(Path("/out"), "train", "01April/7-1 (über)", suffix="_frame000001.png")
    assert path == Path("/out/train/01April/7-1 (über)_frame000001.png")
    paths = [safe_path(Path("/out"), name, suffix=".png") for name in (one, other)]
    assert (paths[0] == paths[1]) == (one == other)
    assert all(".." not in path.parts for path in paths)


def test_a_link_that_leads_out_is_refused(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "train").symlink_to(tmp_path / "out")
    with pytest.raises(PosemillError, match=r"leads out of .* by a link; choose another folder"):
        safe_path(tmp_path / "in", "train", "x", suffix=".png")


def test_what_is_in_the_way_of_a_file_is_said(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    below = tmp_path / "file" / "x.png"
    message = r"x.png cannot be written: File exists; choose another place"
    with pytest.raises(PosemillError, match=message), writing(below):
        pass
    with pytest.raises(KeyboardInterrupt), writing(tmp_path / "new" / "x.png"):
        raise KeyboardInterrupt
    assert not (tmp_path / "new").exists()
    (tmp_path / ".posemill-files").symlink_to("elsewhere")
    with writing(tmp_path / "x.png"):  # only the note of it cannot be made
        (tmp_path / "x.png").touch()
    assert ".posemill-files cannot be written: Too many" in caplog.text


@pytest.mark.parametrize(
    ("name", "marks"),
    [
        ("new/deep/x.png", ["new/.posemill-output"]),
        ("new/x.html", []),
        ("x.png", [".posemill-files"]),
        ("x.html", []),
    ],
)
def test_the_first_new_folder_of_pictures_is_marked_as_no_data_or_each_in_one_of_the_user(
    name, marks, tmp_path
):
    for _ in range(2):
        with writing(tmp_path / name):
            (tmp_path / name).write_text("")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob(".pose*")] == marks


PICTURE = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)


@pytest.mark.parametrize(
    ("platform", "variables", "is_shown"),
    [
        ("linux", {}, False),
        ("linux", {"DISPLAY": ":0"}, True),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, True),
        ("darwin", {}, True),
    ],
)
def test_the_viewer_opens_where_there_is_a_screen(platform, variables, is_shown, monkeypatch):
    shown = []
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os, "environ", variables)
    monkeypatch.setattr(Image.Image, "show", lambda image: shown.append(np.asarray(image)))
    if is_shown:
        open_viewer(PICTURE)
        np.testing.assert_array_equal(shown[0], PICTURE)
    else:
        with pytest.raises(PosemillError, match="there is no screen here; write a file"):
            open_viewer(PICTURE)
        assert not shown
