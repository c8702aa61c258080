"""What the formats that write folders share: places, the index, names of frames, pixels."""

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from posemill.errors import ContentError
from posemill.formats.shared import folders, json_text
from posemill.formats.shared.contract import ClipStream, Format, Recipe
from posemill.formats.shared.folders import Index, new_folder, picture_folder, place_of
from posemill.testing.formats import make_clip


def stream(path, **recipe):
    form = Format()
    form.name = "made-up"
    return ClipStream(form, (), path, Recipe(**recipe))


def mirror(tmp_path, replace, **fields):
    index = Index(tmp_path, io.StringIO(), stream(tmp_path, replace=replace))
    found = index.place(make_clip(1, **fields)).relative_to(tmp_path).as_posix()
    index.finish()
    return found


def test_folders_are_renamed_and_pictures_lie_beside_one_another(tmp_path):
    swap = {"frames": "notes"}
    picture = {"frames": 1, "clip_id": "frames/x", "image_paths": ("frames/x.jpg",)}
    assert mirror(tmp_path, swap, **picture) == "train/notes"
    assert mirror(tmp_path, swap, **picture | {"image_paths": ("frames/y.jpg",)}) == "train/notes/x"
    assert mirror(tmp_path, swap, clip_id="frames/x") == "train/notes/x"
    assert mirror(tmp_path, {"x": "z"}, clip_id="frames/x") == "train/frames/z"
    alone = {"frames": 1, "clip_id": "x", "image_paths": ("x.jpg",), "split": "all"}
    assert mirror(tmp_path, {"x": "z"}, **alone) == "z"


@pytest.mark.parametrize(("split", "clip_id", "expected"), [
    ("all", "a", "a"), ("dev", "a/b", "dev/a/b"), ("dev", "a//./b", "dev/a/b"),
    ("all", "a\\..\\b", "a%5C..%5Cb"),
])  # fmt: skip
def test_places_are_below_the_folder(split, clip_id, expected):
    assert place_of(make_clip(1, split=split, clip_id=clip_id)) == expected


@pytest.mark.parametrize(("split", "clip_id"), [
    ("all", ""), ("dev", ""), ("all", "."), ("all", "/a"), ("dev", "/a"), ("all", "a/../../b"),
    ("dev", ".."), ("..", "a"), ("dev", "a\0"),
])  # fmt: skip
def test_ids_that_are_no_places_are_refused(split, clip_id):
    with pytest.raises(ContentError, match="cannot be a path inside a folder"):
        place_of(make_clip(1, split=split, clip_id=clip_id))


def test_a_record_of_no_frames_and_of_other_frames():
    record = json_text.record_of(make_clip(1, frames=0))
    assert (record["sizes_wh"], record["frame_indices"]) == ([], None)
    assert json_text.fields_of(record, 0)["sizes_wh"].shape == (0, 2)
    with pytest.raises(ValueError, match=r"^expected 0 frames, found 2$"):
        json_text.fields_of(record, 2)


@pytest.mark.parametrize(("below", "expected"), [
    ("dev/a/b", ("dev", "a/b")), ("a/dev", ("all", "a/dev")), ("dev", ("all", "dev")),
    ("", ("all", "data")),
])  # fmt: skip
def test_folders_tell_split_and_id(below, expected):
    assert folders.split_and_id(Path("data"), Path("data") / below) == expected


def test_frames_are_called_like_their_pictures_and_found_in_order(tmp_path):
    assert folders.frame_names(("a/x.png", "a/b.c.png"), np.array([3, 12])) == ["x", "b.c"]
    for paths in ((), ("a/x.png", "b/x.png"), ("", "y.png")):  # they do not name the frames
        assert folders.frame_names(paths, np.array([3, 12])) == ["000003", "000012"]
    long = f"f{'9' * 30}.txt"
    for name in ("f10.txt", "f2.txt", "f1.json", "e11.txt", long, f"f{'9' * 17}.txt"):
        (tmp_path / name).touch()
    ((files, fields, skeleton),) = folders.read_clip_folders(tmp_path, ".txt", (4, 3))
    assert [file.name for file in files] == [
        "e11.txt", "f2.txt", "f10.txt", f"f{'9' * 17}.txt", long
    ]  # fmt: skip
    assert (fields["split"], fields["clip_id"], skeleton) == ("all", tmp_path.name, None)
    assert fields["sizes_wh"].tolist() == [[4, 3]] * 5
    with new_folder(stream(tmp_path / "ours")) as index:
        index.place(make_clip(1, frames=2, image_paths=("b/z.png", "b/a.png")))
    ((files, fields, skeleton),) = folders.read_clip_folders(tmp_path / "ours", ".txt", None)
    assert [file.name for file in files] == ["z.txt", "a.txt"]
    assert (fields["clip_id"], skeleton) == ("clip_1", "holistic-143")


@pytest.mark.parametrize(
    ("root", "split", "clip_id", "picture", "place"),
    [
        ("/data/frames", "all", "frames", "/data/frames/1.jpg", ""),
        ("/data/frames", "all", "frames", "frames/1.jpg", ""),
        ("/data/frames", "all", "frames", "1.jpg", ""),
        ("/data/frames", "all", "x", "frames/x/1.jpg", "x"),
        ("/data/frames", "all", "frames", "/data/frames/frames/1.jpg", "frames"),
        ("/data/frames", "train", "train", "frames/train/1.jpg", "train"),
        ("/data/frames", "train", "Train", "/data/frames/Train/1.jpg", "train"),
        ("/data/frames", "train", "train", "train/1.jpg", "train"),
        ("/data/frames", "train", "train", "frames/train/train/1.jpg", "train/train"),
        ("/data/frames", "train", "x", "frames/train/x/1.jpg", "train/x"),
        ("/data/frames", "train", "x/train", "frames/train/x/train/1.jpg", "train/x/train"),
        ("", "train", "train", "frames/train/1.jpg", "train/train"),
        ("", "all", "frames", "frames/1.jpg", "frames"),
    ],
)  # fmt: skip
def test_files_of_pictures_lie_as_the_pictures_do(root, split, clip_id, picture, place):
    made = make_clip(1)
    clip = replace(made, clip_id=clip_id, split=split, image_paths=(picture,) * len(made))
    assert picture_folder(clip, root) == place
    assert picture_folder(replace(clip, image_paths=()), root) == place_of(clip)
