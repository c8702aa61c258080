"""Annotations beside the frames of a dataset, as the requirement's script writes them."""

import cv2
import numpy as np
import pytest

import posemill
from posemill.errors import ConfigError, FormatError


@pytest.fixture
def dataset(tmp_path):
    """`posewarp/{train,test}/frames/N.png` and a run of it."""
    root = tmp_path / "posewarp"
    for split, count in (("train", 3), ("test", 2)):
        (root / split / "frames").mkdir(parents=True)
        for number in range(count):
            picture = np.full((24, 32, 3), 90 + number, np.uint8)
            cv2.imwrite(str(root / split / "frames" / f"{number}.png"), picture)
    (root / "notes.txt").write_text("mine")
    posemill.extract(root, tmp_path / "run", engine="fake", skeleton="openpose-18", mode="image",
                     executor="serial", progress=False)  # fmt: skip
    return root


def write(dataset, **options):
    posemill.export(dataset.parent / "run", "txt", dataset, replace={"frames": "annotation"},
                           progress=False, **options)  # fmt: skip


def files_of(root):
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def test_a_file_of_eighteen_lines_lies_beside_each_picture_and_nothing_else_changed(dataset):
    before = files_of(dataset)
    write(dataset)
    new = files_of(dataset) - before
    assert before <= files_of(dataset)
    assert {name for name in new if name.endswith(".txt")} == {
        "train/annotation/0.txt", "train/annotation/1.txt", "train/annotation/2.txt",
        "test/annotation/0.txt", "test/annotation/1.txt",
    }  # fmt: skip
    assert (dataset / "notes.txt").read_text() == "mine"
    assert len((dataset / "train" / "annotation" / "0.txt").read_text().splitlines()) == 18
    assert not list(dataset.glob(".posemill-*"))
    view = posemill.view(dataset / "train" / "annotation", progress=False)
    assert view["splits"][0]["num_frames"] == 3


def test_the_same_again_replaces_its_own_and_no_folder_of_the_user(dataset):
    write(dataset)
    write(dataset)
    (dataset / "test" / "annotation" / "0.txt").write_text("corrected by hand")
    with pytest.raises(ConfigError, match="overwrite=True"):
        write(dataset)
    assert (dataset / "test" / "annotation" / "0.txt").read_text() == "corrected by hand"
    write(dataset, overwrite=True)
    assert len((dataset / "test" / "annotation" / "0.txt").read_text().splitlines()) == 18


def test_clips_without_such_a_folder_are_refused_before_anything_is_written(dataset):
    before = files_of(dataset)
    with pytest.raises(FormatError, match="replace"):
        posemill.export(dataset.parent / "run", "txt", dataset, replace={"train": "learn"},
                        progress=False)  # fmt: skip
    assert files_of(dataset) == before
