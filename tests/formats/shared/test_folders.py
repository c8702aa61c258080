"""What the formats that write folders share: places, the index, names of frames, pixels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posemill import __version__
from posemill.errors import FormatError
from posemill.formats.shared import folders
from posemill.formats.shared.contract import ClipStream, Format, Recipe
from posemill.formats.shared.folders import IndexWriter, new_folder, picture_folder, place_of
from posemill.testing.formats import make_clip


def stream(path: Path, **recipe: Any) -> ClipStream:
    form = Format()
    form.name = "made-up"
    return ClipStream(form, (), path, Recipe(**recipe))


def test_an_index_has_a_header_and_a_line_a_clip(tmp_path: Path) -> None:
    clips = [make_clip(1, normalized="bbox"), make_clip(2, split="all", clip_id="a\\b")]
    with new_folder(stream(tmp_path / "x", interpolate=4)) as (folder, index):
        assert [index.place(clip) for clip in clips] == [
            folder / "train" / "clip_1", folder / "a%5Cb"
        ]  # fmt: skip
    header, *records = folders.read_index(tmp_path / "x")
    assert (
        header
        == folders.header_in(tmp_path / "x")
        == {
            "posemill": __version__,
            "format": "made-up",
            "skeleton": "holistic-143",
            "recipe": {
                "layout": None,
                "normalize": "bbox",
                "interpolate": 4,
                "smooth": "none",
                "fill": None,
            },
        }
    )
    assert [record.pop("place") for record in records] == ["train/clip_1", "a%5Cb"]
    assert records == [folders.record_of(clip) for clip in clips]


def mirror(tmp_path: Path, replace: dict[str, str], **fields: Any) -> str:
    index = IndexWriter(tmp_path, stream(tmp_path, replace=replace))
    try:
        found = index.place(make_clip(1, **fields)).relative_to(tmp_path).as_posix()
        index.finish()
    finally:
        index.close()
    return found


def test_folders_are_renamed_and_pictures_lie_beside_one_another(tmp_path: Path) -> None:
    swap = {"frames": "notes"}
    picture = {"frames": 1, "clip_id": "frames/x", "image_paths": ("frames/x.jpg",)}
    assert mirror(tmp_path, swap, **picture) == "train/notes"
    assert mirror(tmp_path, swap, **picture | {"image_paths": ("frames/y.jpg",)}) == "train/notes/x"
    assert mirror(tmp_path, swap, clip_id="frames/x") == "train/notes/x"
    assert mirror(tmp_path, {"x": "z"}, clip_id="frames/x") == "train/frames/z"
    alone = {"frames": 1, "clip_id": "x", "image_paths": ("x.jpg",), "split": "all"}
    assert mirror(tmp_path, {"x": "z"}, **alone) == "z"


def test_renames_that_lead_out_or_find_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"^replace: '\.\./clip_1' leads out of the folder$"):
        mirror(tmp_path, {"train": ".."})
    with pytest.raises(FormatError) as caught:
        mirror(tmp_path, {"a": "b", "c": "d"}, clip_id="k/j/i/h/g/f/e/D/C/B")
    assert str(caught.value) == (
        "replace: no folder is called 'a' or 'c'; there are B, C, D, e, f, g, h, i, j"
    )


def test_a_folder_appears_when_all_went_well(tmp_path: Path) -> None:
    target = tmp_path / "x"
    with (
        pytest.raises(FormatError, match="no folder is called 'a'"),
        new_folder(stream(target, replace={"a": "b"})) as (_, index),
    ):
        index.place(make_clip(1))
    assert list(tmp_path.iterdir()) == []
    target.mkdir()
    (target / "precious").touch()
    with (
        pytest.raises(FormatError, match=r"it has no posemill\.jsonl"),
        new_folder(stream(target)),
    ):
        pass
    assert (target / "precious").exists()


@pytest.mark.parametrize(("split", "clip_id", "expected"), [
    ("all", "a", "a"), ("dev", "a/b", "dev/a/b"), ("dev", "a//./b", "dev/a/b"),
    ("all", "a\\..\\b", "a%5C..%5Cb"),
])  # fmt: skip
def test_places_are_below_the_folder(split: str, clip_id: str, expected: str) -> None:
    assert place_of(make_clip(1, split=split, clip_id=clip_id)) == expected


@pytest.mark.parametrize(("split", "clip_id"), [
    ("all", ""), ("dev", ""), ("all", "."), ("all", "/a"), ("dev", "/a"), ("all", "a/../../b"),
    ("dev", ".."), ("..", "a"), ("dev", "a\0"),
])  # fmt: skip
def test_ids_that_are_no_places_are_refused(split: str, clip_id: str) -> None:
    with pytest.raises(FormatError, match="cannot be a path inside a folder"):
        place_of(make_clip(1, split=split, clip_id=clip_id))


def test_a_record_is_short_where_frames_are_alike() -> None:
    clip = make_clip(1, frames=2, extra={"a": 1}, normalized="bbox", interpolated=3)
    record = folders.record_of(clip)
    assert record == {
        "clip_id": "clip_1",
        "split": "train",
        "num_frames": 2,
        "sizes_wh": [640, 480],
        "frame_indices": None,
        "image_paths": list(clip.image_paths),
        "label": "SIGN 1",
        "fps": 25.0,
        "extra": {"a": 1},
        "recipe": {"normalize": "bbox", "interpolate": 3, "smooth": "none"},
    }
    fields = folders.fields_of(record, 2)
    assert fields["sizes_wh"].tolist() == [[640, 480]] * 2
    assert fields["sizes_wh"].dtype == np.int32
    assert fields["frame_indices"].tolist() == [0, 1]
    assert fields["image_paths"] == clip.image_paths
    assert (fields["label"], fields["fps"], fields["extra"]) == ("SIGN 1", 25.0, {"a": 1})
    assert (fields["normalized"], fields["interpolated"]) == ("bbox", 3)


def test_a_record_is_long_where_frames_differ() -> None:
    clip = make_clip(1, frames=2, frame_indices=np.array([3, 5]), label=None, fps=None)
    clip.sizes_wh[1, 1] = 9
    record = folders.record_of(clip)
    assert (record["sizes_wh"], record["frame_indices"]) == ([[640, 480], [640, 9]], [3, 5])
    fields = folders.fields_of(record, 2)
    assert fields["sizes_wh"].tolist() == [[640, 480], [640, 9]]
    assert fields["frame_indices"].tolist() == [3, 5]
    assert (fields["label"], fields["fps"]) == (None, None)
    assert folders.fields_of(record | {"label": 5, "fps": 2}, 2)["label"] == "5"


def test_a_record_of_no_frames_and_of_other_frames() -> None:
    record = folders.record_of(make_clip(1, frames=0))
    assert (record["sizes_wh"], record["frame_indices"]) == ([], None)
    assert folders.fields_of(record, 0)["sizes_wh"].shape == (0, 2)
    with pytest.raises(ValueError, match=r"^expected 0 frames, found 2$"):
        folders.fields_of(record, 2)


def test_an_index_is_objects_or_absent(tmp_path: Path) -> None:
    assert folders.header_in(tmp_path) == {}
    (tmp_path / "posemill.jsonl").write_text("")
    assert folders.header_in(tmp_path) == {}
    (tmp_path / "posemill.jsonl").write_text("[]")
    with pytest.raises(ValueError, match=r"^posemill\.jsonl: expected an object a line$"):
        folders.header_in(tmp_path)


@pytest.mark.parametrize(("below", "expected"), [
    ("dev/a/b", ("dev", "a/b")), ("a/dev", ("all", "a/dev")), ("dev", ("all", "dev")),
    ("", ("all", "data")),
])  # fmt: skip
def test_folders_tell_split_and_id(below: str, expected: tuple[str, str]) -> None:
    assert folders.split_and_id(Path("data"), Path("data") / below) == expected


@pytest.mark.parametrize("paths", [(), ("a/x.png", "b/x.png"), ("", "y.png")])
def test_frames_are_numbered_where_pictures_do_not_name_them(paths: tuple[str, ...]) -> None:
    assert folders.frame_names(paths, np.array([3, 12])) == ["000003", "000012"]


def test_frames_are_called_like_their_pictures_and_found_in_order(tmp_path: Path) -> None:
    assert folders.frame_names(("a/x.png", "a/b.c.png"), np.array([3, 12])) == ["x", "b.c"]
    long = f"f{'9' * 30}.txt"
    for name in ("f10.txt", "f2.txt", "f1.json", "e11.txt", long, f"f{'9' * 17}.txt"):
        (tmp_path / name).touch()
    ((files, fields, skeleton),) = folders.read_clip_folders(tmp_path, ".txt", (4, 3))
    assert [file.name for file in files] == [
        "e11.txt", "f2.txt", "f10.txt", f"f{'9' * 17}.txt", long
    ]  # fmt: skip
    assert (fields["split"], fields["clip_id"], skeleton) == ("all", tmp_path.name, None)
    assert fields["sizes_wh"].tolist() == [[4, 3]] * 5
    with new_folder(stream(tmp_path / "ours")) as (_, index):
        index.place(make_clip(1, frames=2, image_paths=("b/z.png", "b/a.png")))
    ((files, fields, skeleton),) = folders.read_clip_folders(tmp_path / "ours", ".txt", None)
    assert [file.name for file in files] == ["z.txt", "a.txt"]
    assert (fields["clip_id"], skeleton) == ("clip_1", "holistic-143")


def test_pixels_are_rounded_and_zero_where_missing() -> None:
    clip = make_clip(1, frames=1, skeleton="openpose-18", size_wh=(1000, 10))
    clip.points[0, :3, :2] = [[0.1234567, 0.5], [np.nan, np.nan], [2, -1]]
    clip.scores[0, :3] = [0.12345678, 0, 0]
    found = folders.to_pixels(clip)
    np.testing.assert_allclose(
        found[0, :3], [[123.457, 5, 0.123457], [0, 0, 0], [2000, -10, 1e-6]], rtol=1e-12
    )
    back = folders.from_pixels(Path("p"), found, clip.sizes_wh)
    np.testing.assert_allclose(back[0, 0], [0.123457, 0.5, 0], rtol=1e-6)
    assert back.dtype == np.float32


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
