import pickle

import numpy as np
import pytest

from posemill.errors import FormatError
from posemill.formats.pkl import PklFormat
from posemill.formats.shared.contract import Recipe
from posemill.testing.formats import make_clip, make_clips

PKL = PklFormat()


def dump(path, value):
    path.write_bytes(pickle.dumps(value))
    return path


def test_python_itself_loads_the_layout_other_projects_use(tmp_path):
    clips = make_clips()
    PKL.write(clips, tmp_path / "a.pkl", recipe=Recipe())
    data = pickle.loads((tmp_path / "a.pkl").read_bytes())
    assert list(data) == ["train", "dev"]
    train = data["train"]
    assert train["video_ids"] == ["clip_1"] * 6 + ["deep/er.name"] * 3
    assert train["image_paths"][0] == "clip_1/images0001.png"
    assert len(train["keypoints"]) == 9
    shapes = {"face": (68, 3), "left_hand": (21, 3), "right_hand": (21, 3), "pose": (33, 3)}
    for frame, points, present in zip(
        train["keypoints"], clips[0].points, clips[0].present, strict=False
    ):
        assert list(frame) == list(shapes)
        for part, is_there in zip(clips[0].skeleton.parts, present, strict=True):
            value = frame[part.name]
            assert (value is not None) == is_there
            if is_there:
                assert (value.shape, value.dtype) == (shapes[part.name], np.float32)
                np.testing.assert_array_equal(value, points[part.start : part.stop])


def test_without_video_ids_the_folders_of_the_pictures_are_the_clips(tmp_path):
    frame = {"pose": np.ones((33, 3)), "face": None}
    path = dump(
        tmp_path / "a.pkl",
        {"dev": {"keypoints": [frame, None, frame],
                 "image_paths": ["x/1.png", "x/2.png", "y/1.png"]}},
    )  # fmt: skip
    one, two = PKL.read(path, size_wh=(10, 20))
    assert (one.clip_id, len(one), two.clip_id) == ("x", 2, "y")
    assert one.present.tolist() == [[False, False, False, True], [False] * 4]
    assert one.sizes_wh[0].tolist() == [10, 20]


FRAME = {"pose": np.ones((33, 3), np.float32)}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], r"expected \{split: \{'keypoints': …\}\}, got list"),
        ({}, "holds no clips"),
        ({"dev": {"keypoints": []}}, "split 'dev' holds no frames; expected at least one"),
        ({"dev": []}, "split 'dev': expected a list 'keypoints'"),
        ({"dev": {"keypoints": [FRAME], "video_ids": ["a", "b"]}},
         "has 1 keypoints and 2 video_ids"),
        ({"dev": {"keypoints": [None] * 3, "video_ids": ["a", "b", "a"]}},
         "clip 'a' do not follow each other: it begins again at frame 2; sort the"),
        ({"dev": {"keypoints": [3]}}, "'dev' frame 0: expected parts by name"),
        ({"dev": {"keypoints": [{"face": np.ones((33, 3))}]}},
         r"expected face of dev frame 0 of shape \(68, 3\) \(kind fiu\), got float64 \(33, 3\)"),
        ({"dev": {"keypoints": [{"face": "?"}]}}, "expected an array, got str"),
        ({"dev": {"keypoints": [{"pose": np.full((33, 3), np.inf)}]}}, "a found point is infinite"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_with_the_file(tmp_path, value, message):
    path = dump(tmp_path / "bad.pkl", value)
    with pytest.raises(FormatError, match=rf"bad\.pkl.*{message}") as caught:
        list(PKL.read(path))
    assert str(caught.value).count("bad.pkl") == 1


def in_pixels(clip, width, height):
    scale = np.array([width, height, width])
    frames = [
        {part.name: clip.part(part.name)[row] * scale if is_there else None
         for part, is_there in zip(clip.skeleton.parts, present, strict=True)}
        for row, present in enumerate(clip.present)
    ]  # fmt: skip
    return {"train": {"keypoints": frames, "video_ids": [clip.clip_id] * len(clip)}}


def test_pixels_of_another_maker_are_divided_by_the_size_that_must_be_given(tmp_path):
    clip = make_clip(1)
    path = dump(tmp_path / "a.pkl", in_pixels(clip, 640, 480))
    (back,) = PKL.read(path, size_wh=(640, 480))
    np.testing.assert_allclose(back.points, clip.points, atol=1e-6)
    assert back.sizes_wh[0].tolist() == [640, 480]
    with pytest.raises(FormatError, match=r"a\.pkl: x and y are pixels .*size="):
        list(PKL.read(path))
