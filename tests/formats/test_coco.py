import contextlib
import io
import json

import numpy as np
import pytest

from posemill.errors import FormatError
from posemill.formats import detect_format
from posemill.formats.coco import CocoFormat, _annotation
from posemill.formats.shared.contract import Recipe
from posemill.skeletons import get_skeleton
from posemill.testing.formats import make_clips

COCO = CocoFormat()


def plain_file(tmp_path, **annotation):
    values = [value for i in range(17) for value in (10 + i, 20, 2)]
    one = {"id": 5, "image_id": 7, "category_id": 1, "iscrowd": 0, "area": 50, "keypoints": values}
    small = one | {"id": 6, "area": 10, "keypoints": [1.0, 1.0, 2] * 17}
    image = {"id": 7, "file_name": "000007.jpg", "width": 100, "height": 50}
    path = tmp_path / "plain.json"
    path.write_text(json.dumps({"images": [image], "annotations": [small, one | annotation]}))
    return path


def test_pycocotools_reads_what_we_write(tmp_path):
    module = pytest.importorskip("pycocotools.coco")
    clips = make_clips("coco-133")
    COCO.write(clips, tmp_path / "a.json", recipe=Recipe())
    with contextlib.redirect_stdout(io.StringIO()):
        coco = module.COCO(str(tmp_path / "a.json"))
    assert len(coco.getImgIds()) == 16
    (annotation,) = coco.loadAnns(coco.getAnnIds(imgIds=[1]))
    body = np.reshape(annotation["keypoints"], (17, 3))
    np.testing.assert_allclose(body[:, :2], np.nan_to_num(clips[0].pixels()[0, :17]), atol=1e-3)
    np.testing.assert_array_equal(body[:, 2] == 2, clips[0].mask[0, :17])
    lengths = {"foot_kpts": 18, "face_kpts": 204, "lefthand_kpts": 63, "righthand_kpts": 63}
    assert {key: len(annotation[key]) for key in lengths} == lengths
    assert annotation["num_keypoints"] == clips[0].mask[0, :17].sum()
    assert coco.loadCats([1])[0]["keypoints"][0] == "nose"
    assert coco.loadImgs([1])[0]["file_name"] == "clip_1/images0001.png"


def test_a_plain_file_gives_a_clip_per_picture_and_counts_unknown_pictures(tmp_path, caplog):
    path = plain_file(tmp_path)
    assert detect_format(path).name == "coco"
    (clip,) = COCO.read(path)
    assert (clip.clip_id, clip.image_paths, len(clip)) == ("000007", ("000007.jpg",), 1)
    np.testing.assert_allclose(clip.points[0, 0], (0.1, 0.4, 0))
    assert clip.mask[0, :17].all()
    assert not clip.mask[0, 17:].any()
    path = plain_file(tmp_path, image_id=99)
    (clip,) = COCO.read(path)
    np.testing.assert_allclose(clip.points[0, 0], (0.01, 0.02, 0))
    assert f"{path}: 1 annotations are of pictures that are not in it; left out" in caplog.text


@pytest.mark.parametrize("videos", [3, [None], [1], "film", {"a": 1}, [["clip_id", "sizes_wh"]]])
def test_videos_of_another_maker_do_not_matter(tmp_path, videos):
    path = plain_file(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "videos": videos}))
    (clip,) = COCO.read(path)
    assert clip.clip_id == "000007"


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ({"keypoints": [1, 2, 3]}, "keypoints: expected 17 points, got 1"),
        ({"keypoints": [1, 2]}, "keypoints: expected a list of 3 numbers a point"),
        ({"face_kpts": "x"}, "face_kpts: expected a list"),
        ({"scores": [1, 2]}, "scores: expected 17 or 133, got 2"),
    ],
)
def test_annotations_that_do_not_fit_are_refused(tmp_path, annotation, message):
    with pytest.raises(FormatError, match=rf"plain\.json.*{message}"):
        list(COCO.read(plain_file(tmp_path, **annotation)))


def test_real_annotations_are_read(shared):
    clips = list(COCO.read(shared / "datasets" / "coco_people" / "person_keypoints.json"))
    assert len(clips) == 40
    assert sum(clip.mask.any() for clip in clips) >= 35


def test_the_folder_of_a_picture_is_a_part_of_its_id(tmp_path):
    names = ["a/0001.jpg", "b/0001.jpg", "b/0002.jpg", "b/0002.png", "/c/../d\\0001.v2.jpg"]
    images = [{"id": i, "file_name": name, "width": 9, "height": 9} for i, name in enumerate(names)]
    path = tmp_path / "plain.json"
    path.write_text(json.dumps({"images": images, "annotations": []}))
    assert [clip.clip_id for clip in COCO.read(path)] == [
        "a/0001", "b/0001", "b/0002.jpg", "b/0002.png", "c/d/0001.v2"]  # fmt: skip


def test_a_person_has_boxes_around_what_was_found():
    points = np.zeros((133, 3))
    points[:2] = (10, 20, 0.5), (14.5, 26.25, 0.35)
    face = get_skeleton("coco-133").part("face").start
    points[face : face + 2] = (30, 41, 1), (33, 40, 1)
    found = _annotation(points)
    assert (found["bbox"], found["area"]) == ([10, 20, 23, 21], 483)
    assert (found["num_keypoints"], found["score"]) == (2, 0.05)
    assert (found["face_box"], found["face_valid"]) == ([30, 40, 3, 1], True)
    assert (found["lefthand_box"], found["lefthand_valid"]) == ([0, 0, 0, 0], False)
    assert found["foot_valid"] is False
    assert found["keypoints"][:9] == [10, 20, 2, 14.5, 26.25, 2, 0, 0, 0]
    body = _annotation(points[:17])
    assert (body["bbox"], body["area"]) == ([10, 20, 4.5, 6.25], 28.125)
    assert "face_box" not in body
