"""`x.run` beside `x.pkl`: what the file does not hold is known there."""

import pickle
import shutil

import cv2
import numpy as np
import pytest

import posemill
from posemill.clips.inputs import ClipInput


@pytest.fixture
def file(tmp_path):
    """A file of two labelled clips, its run beside it, and a picture of somebody else."""
    for name in ("a", "b"):
        (tmp_path / "data" / "train" / name).mkdir(parents=True)
        for number in range(3):
            picture = tmp_path / "data" / "train" / name / f"{number}.png"
            cv2.imwrite(str(picture), np.full((48, 64, 3), 90, np.uint8))
    cv2.imwrite(str(tmp_path / "private.png"), np.full((48, 64, 3), 90, np.uint8))
    listed = tmp_path / "data" / "clips.csv"
    listed.write_text("path,split,label\ntrain/a,train,hello\ntrain/b,train,bye\n")
    posemill.extract(
        listed, tmp_path / "x.pkl", engine="fake", executor="serial", mode="image", progress=False
    )
    return tmp_path / "x.pkl"


def labels_of(path):
    return [(clip.label, tuple(clip.sizes_wh[0].tolist())) for clip in ClipInput(path).clips()]


def change(path, edit):
    data = pickle.loads(path.read_bytes())
    edit(data["train"])
    path.write_bytes(pickle.dumps(data))


def test_keypoints_are_those_of_the_file(file):
    def move(part):
        for frame in part["keypoints"]:
            frame["pose"] += 1

    whole = [
        clip.as_skeleton("holistic-143").points
        for clip in posemill.open_run(file.with_suffix(".run"))
    ]
    change(file, move)
    for clip, before in zip(ClipInput(file).clips(), whole, strict=True):
        np.testing.assert_allclose(clip.points[:, -33:], before[:, -33:] + 1, atol=1e-5)
        assert clip.label


def test_labels_and_sizes_are_those_of_the_run_but_of_a_clip_of_another_length(file):
    def drop_last(part):
        for name in ("keypoints", "image_paths", "video_ids"):
            del part[name][-1]

    assert labels_of(file) == [("hello", (64, 48)), ("bye", (64, 48))]
    change(file, drop_last)
    assert labels_of(file) == [("hello", (64, 48)), (None, (0, 0))]


@pytest.mark.parametrize("harm", ["none", "damaged"])
def test_without_a_run_the_file_is_read_as_it_is(file, harm):
    run = file.with_suffix(".run")
    if harm == "none":
        shutil.rmtree(run)
    else:
        (run / "manifest.json").write_text("{}")
    assert labels_of(file) == [(None, (0, 0))] * 2


def test_prepare_says_where_the_labels_come_from(file, tmp_path):
    with pytest.warns(UserWarning, match=r"x\.pkl does not hold labels.*x\.run, were taken"):
        (prepared,) = posemill.prepare(file, tmp_path / "out", progress=False)
    assert np.load(prepared.path)["labels"].tolist() == ["hello", "bye"]


def test_pictures_are_those_below_the_folder_that_the_run_or_the_user_names(file, tmp_path):
    drawn = posemill.visualize(file, tmp_path / "out", progress=False)
    assert drawn.num_originals_gone == 0
    shutil.rmtree(file.with_suffix(".run"))
    drawn = posemill.visualize(file, tmp_path / "alone", progress=False)
    assert drawn.num_originals_gone == 6  # a stranger's file opens nothing
    drawn = posemill.visualize(
        file, tmp_path / "named", originals=tmp_path / "data", progress=False
    )
    assert drawn.num_originals_gone == 0


def test_a_picture_elsewhere_is_not_opened_though_a_run_lies_beside(file, tmp_path):
    def lead_out(part):
        part["image_paths"][:3] = [
            str(tmp_path / "private.png"),
            str(tmp_path / "data" / ".." / "private.png"),
            "../private.png",
        ]

    change(file, lead_out)
    assert posemill.visualize(file, tmp_path / "out", progress=False).num_originals_gone == 3
