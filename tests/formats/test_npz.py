import json

import numpy as np
import pytest

from posemill.errors import FormatError
from posemill.formats import detect_format, format_for, get_format
from posemill.formats.npz import NpzFormat
from posemill.formats.shared.contract import Recipe
from posemill.testing.formats import make_clip, make_clips

NPZ = NpzFormat()


@pytest.fixture
def path(tmp_path):
    NPZ.write(make_clips(), tmp_path / "train_keypoints.npz", recipe=Recipe())
    return tmp_path / "train_keypoints.npz"


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_plain_numpy_loads_it_without_pickle_and_finds_the_promised_arrays(path):
    with np.load(path, allow_pickle=False) as data:
        assert (data["keypoints"].shape, data["keypoints"].dtype) == ((16, 143, 3), np.float32)
        assert (data["mask"].shape, data["mask"].dtype) == ((16, 143), np.bool_)
        assert (data["scores"].shape, data["scores"].dtype) == ((16, 143), np.float32)
        assert data["lengths"].tolist() == [6, 3, 6, 1]
        assert data["offsets"].tolist() == [0, 6, 9, 15]
        assert data["video_ids"][[0, 6]].tolist() == ["clip_1", "deep/er.name"]
        assert data["image_paths"][0] == "clip_1/images0001.png"
        assert data["frame_index"][6:9].tolist() == [4, 6, 8]
        assert data["keypoint_names"][:1].tolist() == ["face_0"]
        assert json.loads(str(data["meta"][0]))["skeleton"] == "holistic-143"
        assert (data["keypoints"][~data["mask"]] == 0).all()
        assert not data["mask"].all()


@pytest.mark.parametrize("fill", ["zero", "nan", "interpolate"])
def test_fill_decides_what_stands_for_points_that_stay_missing(tmp_path, fill):
    clip = make_clip(1, frames=9)
    NPZ.write([clip], tmp_path / "a.npz", recipe=Recipe(fill=fill))
    data = np.load(tmp_path / "a.npz")
    np.testing.assert_array_equal(data["mask"], clip.mask)
    missing = data["keypoints"][~data["mask"] & clip.mask.any(0)]
    is_filled = {"zero": missing == 0, "nan": np.isnan(missing), "interpolate": missing != 0}
    assert is_filled[fill].all()
    assert len(missing)
    (back,) = NPZ.read(tmp_path / "a.npz")
    np.testing.assert_array_equal(back.points, clip.points)


def test_a_folder_of_splits_is_read_as_one(tmp_path):
    for split in ("dev", "train"):
        clips = [make_clip(1, frames=0, split=split), make_clip(2, split=split)]
        NPZ.write(clips, tmp_path / f"{split}_keypoints.npz", recipe=Recipe())
    lengths = [("dev", 0), ("dev", 6), ("train", 0), ("train", 6)]
    assert [(clip.split, len(clip)) for clip in NPZ.read(tmp_path)] == lengths
    assert NPZ.sniff(tmp_path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"points": np.ones(3)}, "expected an array 'keypoints' .*found points"),
        ({"keypoints": np.ones((2, 15, 2))}, r"expected \[17, 18, 26, 33, .*, 543, 553\]"),
        ({"keypoints": np.ones((2, 143, 4))}, r"expected points of bad of shape .*points, 3\)"),
        ({"keypoints": np.ones((0, 143, 3))}, "holds no clips; expected at least one"),
        ({"keypoints": np.ones((2, 143, 3)), "keypoint_names": np.array(["nose"])},
         "keypoint_names are not those of holistic-143: they differ at 0"),
        ({"keypoints": np.ones((2, 143, 3)), "meta": np.array(['{"skeleton": "coco-133"}'])},
         "expected 133 points a frame, got 143"),
        ({"keypoints": np.full((2, 143, 3), 365.0)},
         r"are pixels .*not known; give one by size=.WIDTHxHEIGHT"),
        ({"keypoints": np.full((2, 18, 2), 365), "sizes_wh": np.array([[640, 480], [0, 0]])},
         "are pixels"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_with_the_file(tmp_path, arrays, message):
    path = save(tmp_path / "bad.npz", **arrays)
    with pytest.raises(FormatError, match=rf"bad\.npz.*{message}"):
        list(NPZ.read(path))


def test_real_keypoints_of_another_maker_are_read(shared):
    clips = list(NPZ.read(shared / "datasets" / "signs48" / "dev_keypoints.npz"))
    assert len(clips) == 192
    assert {len(clip) for clip in clips} == {30}
    assert {clip.split for clip in clips} == {"dev"}
    assert 0.5 < np.mean([clip.mask.mean() for clip in clips]) < 1


def test_pixels_of_another_maker_are_divided_by_the_size(tmp_path):
    points = np.zeros((3, 143, 3), np.float32)
    points[:, 5:] = [320, 120, 64]
    path = save(tmp_path / "big.npz", keypoints=points)
    (clip,) = NPZ.read(path, size_wh=(640, 480))
    np.testing.assert_allclose(clip.points[0, 5], [0.5, 0.25, 0.1])
    assert not clip.mask[:, :5].any()
    sizes = np.array([[640, 480], [640, 480], [320, 240]])
    path = save(tmp_path / "own.npz", keypoints=points[..., :2].astype(int), sizes_wh=sizes)
    (clip,) = NPZ.read(path)
    np.testing.assert_allclose(clip.points[:, 5, 0], [0.5, 0.5, 1])


@pytest.mark.parametrize(
    ("name", "written"),
    [("A.NPZ", "npz"), ("B.Pkl", "pkl"), ("C.POSE", "pose"), ("D.JSON", "coco")],
)
def test_endings_in_capitals_are_known(tmp_path, name, written):
    skeleton = "coco-17" if written == "coco" else "holistic-143"
    clips = [make_clip(1, skeleton=skeleton)]
    target = tmp_path / name.lower()
    get_format(written).write(clips, target, recipe=Recipe())
    target.rename(tmp_path / name)
    found = detect_format(tmp_path / name)
    assert found.name == written
    assert len(list(found.read(tmp_path / name))) == 1
    assert written in ("coco", "pose") or format_for(tmp_path / name) == written
