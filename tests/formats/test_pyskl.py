import json
import pickle

import numpy as np
import pytest

from posemill.errors import FormatError
from posemill.formats.pyskl import PysklFormat, _number_labels
from posemill.formats.shared.contract import Recipe
from posemill.testing.formats import make_clip, make_clips

PYSKL = PysklFormat()


def dump(path, *annotations, **top):
    path.write_bytes(pickle.dumps({"annotations": list(annotations), "split": {}} | top))
    return path


def annotation(**changes):
    return {"frame_dir": "a", "label": 3, "img_shape": (100, 200), "total_frames": 4,
            "keypoint": np.full((1, 4, 17, 2), 50, np.float16),
            "keypoint_score": np.full((1, 4, 17), 0.5, np.float16)} | changes  # fmt: skip


def test_python_itself_loads_what_pyskl_expects(tmp_path):
    clips = make_clips("coco-133")
    PYSKL.write(clips, tmp_path / "a.pkl", recipe=Recipe())
    data = pickle.loads((tmp_path / "a.pkl").read_bytes())
    assert data["split"] == {"train": ["clip_1", "deep/er.name"], "dev": ["clip_3", "one"]}
    first = data["annotations"][0]
    assert first["keypoint"].shape == (1, 6, 133, 2)
    assert first["keypoint_score"].shape == (1, 6, 133)
    assert (first["frame_dir"], first["total_frames"]) == ("clip_1", 6)
    assert first["img_shape"] == first["original_shape"] == (480, 640)
    np.testing.assert_allclose(first["keypoint"][0], np.nan_to_num(clips[0].pixels()), atol=1e-4)
    assert [entry["label"] for entry in data["annotations"]] == [0, 1, -1, 2]
    names = json.loads(data["posemill"])["class_names"]
    assert names == {"0": "SIGN 1", "1": "SIGN 2", "2": "SIGN 4"}


def test_seventeen_points_become_the_body_of_the_133(tmp_path):
    (clip,) = PYSKL.read(dump(tmp_path / "a.pkl", annotation(), split={"xsub_val": ["a"]}))
    assert (clip.skeleton_name, clip.split, clip.label) == ("coco-133", "xsub_val", "3")
    assert clip.mask[:, :17].all()
    assert not clip.mask[:, 17:].any()
    np.testing.assert_allclose(clip.points[0, 0], (0.25, 0.5, 0))


def test_of_two_people_the_surer_is_read_and_a_given_size_stands_in_for_a_missing_one(tmp_path):
    points = np.ones((2, 4, 17, 2)) * np.array([10, 20])[:, None, None, None]
    scores = np.ones((2, 4, 17)) * np.array([0.2, 0.9])[:, None, None]
    path = dump(tmp_path / "a.pkl", annotation(keypoint=points, keypoint_score=scores))
    (clip,) = PYSKL.read(path)
    assert clip.split == "all"
    np.testing.assert_allclose(clip.points[0, 0], (0.1, 0.2, 0))
    (clip,) = PYSKL.read(dump(tmp_path / "a.pkl", annotation(img_shape=None)), size_wh=(100, 50))
    np.testing.assert_allclose(clip.points[0, 0], (0.5, 1, 0))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (3, "expected annotations with 'frame_dir' and 'keypoint'"),
        (annotation(keypoint=np.ones((4, 17, 2))), "expected keypoint of a of shape .4, frames"),
        (annotation(keypoint=np.array(5.0)), "expected keypoint of a of shape .1, frames"),
        (annotation(keypoint_score=np.ones((1, 4, 3))), "expected keypoint_score of a of shape "),
        (annotation(img_shape=None), r"expected img_shape \(height, width\), got \(0, 0\); give"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_with_the_file(tmp_path, entry, message):
    path = dump(tmp_path / "bad.pkl", entry)
    with pytest.raises(FormatError, match=rf"bad\.pkl.*{message}"):
        list(PYSKL.read(path))
    with pytest.raises(FormatError, match=r"expected \{'split': …, 'annotations': \[…\]\}"):
        list(PYSKL.read(dump(tmp_path / "b.pkl", annotations=3)))


def test_an_id_of_two_splits_stays_two_clips_and_leaks_into_neither(tmp_path):
    names = [("train", "x"), ("dev", "x"), ("dev", "y"), ("test", "train/x")]
    clips = [make_clip(i, skeleton="coco-133", split=split, clip_id=name)
             for i, (split, name) in enumerate(names)]  # fmt: skip
    PYSKL.write(clips, tmp_path / "a.pkl", recipe=Recipe())
    data = pickle.loads((tmp_path / "a.pkl").read_bytes())
    assert data["split"] == {"train": ["train/x_"], "dev": ["dev/x", "y"], "test": ["train/x"]}
    assert [entry["frame_dir"] for entry in data["annotations"]] == [
        "train/x_", "dev/x", "y", "train/x"]  # fmt: skip
    back = list(PYSKL.read(tmp_path / "a.pkl"))
    assert [(clip.split, clip.clip_id) for clip in back] == names
    for one, other in zip(clips, back, strict=True):
        np.testing.assert_allclose(one.points[..., :2], other.points[..., :2], atol=1e-6)


def test_a_clip_that_comes_twice_in_a_split_is_refused(tmp_path):
    clips = [make_clip(i, skeleton="coco-133", clip_id="x") for i in range(2)]
    with pytest.raises(FormatError, match=r"a\.pkl: clip train/x came twice; expected it once"):
        PYSKL.write(clips, tmp_path / "a.pkl", recipe=Recipe())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("labels", "numbers"),
    [
        ({"7", "12"}, {"7": 7, "12": 12}),
        ({"999999999", "3"}, {"3": 3, "999999999": 999_999_999}),
        ({"1000000000", "3"}, {"1000000000": 0, "3": 1}),  # more than 32 bits may hold
        ({"²", "3"}, {"3": 0, "²": 1}),
        ({"wave", "3"}, {"3": 0, "wave": 1}),
    ],
)
def test_labels_are_numbers_of_their_own_only_where_all_of_them_are(labels, numbers):
    assert _number_labels(labels) == numbers
