import json

import numpy as np
import pytest

from posemill.errors import FormatError
from posemill.formats import detect_format
from posemill.formats.openpose_json import OpenPoseFileFormat, OpenPoseFolderFormat
from posemill.formats.shared.contract import Recipe
from posemill.testing.formats import make_clip, make_clips

FOLDER, FILE = OpenPoseFolderFormat(), OpenPoseFileFormat()


def person(count=18, at=10.0, score=0.5, **parts):
    values = [value for i in range(count) for value in (at + i, at, score)]
    return {"pose_keypoints_2d": values} | parts


def one_file(tmp_path, *people):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"version": 1.3, "people": list(people)}))
    return path


def test_pose_format_reads_our_folder_of_frames(tmp_path):
    openpose = pytest.importorskip("pose_format.utils.openpose")
    clip = make_clip(1, skeleton="coco-133")
    FOLDER.write([clip], tmp_path / "out", recipe=Recipe())
    folder = tmp_path / "out" / "train" / "clip_1"
    assert len(list(folder.iterdir())) == 6
    pose = openpose.load_openpose_directory(str(folder), fps=25, width=640, height=480)
    names = [component.name for component in pose.header.components]
    assert names == ["pose_keypoints_2d", "face_keypoints_2d", "hand_left_keypoints_2d",
                     "hand_right_keypoints_2d"]  # fmt: skip
    hand = clip.skeleton.part("left_hand")
    # It takes frame numbers from file names, and ours begin at 1.
    data = pose.body.data[1:, 0, 25 + 70 : 25 + 70 + 21]
    expected = np.nan_to_num(clip.pixels()[:, hand.start : hand.stop])
    np.testing.assert_allclose(np.asarray(data.filled(0)), expected, atol=2e-3)


def test_neck_and_mid_hip_are_means_and_missing_with_either(tmp_path):
    clip = make_clip(1, skeleton="coco-133", frames=1)
    clip.points[0, 5:7, :2] = [(0.2, 0.5), (0.4, 0.7)]
    clip.points[0, 11] = np.nan
    clip.scores[0, 11] = 0
    FILE.write([clip], tmp_path / "a.json", recipe=Recipe())
    frame = json.loads((tmp_path / "a.json").read_text())["clips"][0]["frames"]["0"]
    body = np.reshape(frame["people"][0]["pose_keypoints_2d"], (25, 3))
    np.testing.assert_allclose(body[1, :2], (0.3 * 640, 0.6 * 480), atol=1e-3)
    assert body[8].tolist() == [0, 0, 0]


def test_a_frame_without_anyone_has_no_people(tmp_path):
    clip = make_clip(1, skeleton="openpose-18", frames=2)
    clip.points[1] = np.nan
    clip.scores[1] = 0
    FILE.write([clip], tmp_path / "a.json", recipe=Recipe())
    frames = json.loads((tmp_path / "a.json").read_text())["clips"][0]["frames"]
    assert frames["1"] == {"people": []}
    (back,) = FILE.read(tmp_path / "a.json")
    assert back.mask.any(1).tolist() == [True, False]


def test_of_several_people_the_largest_comes_first(tmp_path):
    large = person(at=100)
    large["pose_keypoints_2d"][0:2] = [1.0, 1.0]
    path = one_file(tmp_path, person(), large, person())
    (clip,) = FILE.read(path, size_wh=(200, 200))
    assert detect_format(path).name == "openpose-file"
    np.testing.assert_allclose(clip.points[0, 1], (101 / 200, 0.5, 0))
    assert clip.others.counts.tolist() == [2]  # also those whose points are a line


def test_body_25_and_18_with_hands_become_coco_133(tmp_path):
    (clip,) = FILE.read(one_file(tmp_path, person(25)), size_wh=(100, 100))
    assert clip.skeleton_name == "coco-133"
    names = clip.skeleton.point_names
    np.testing.assert_allclose(clip.points[0, names.index("left_big_toe"), 0], 0.29)
    hand = [value for i in range(21) for value in (i + 1.0, 2.0, 0.9)]
    path = one_file(tmp_path, person(18, hand_left_keypoints_2d=hand))
    (clip,) = FILE.read(path, size_wh=(100, 100))
    assert clip.skeleton_name == "coco-133"
    assert clip.present.tolist() == [[True, False, False, True, False]]
    for count in (68, 70):  # without the pupils, and with them
        path = one_file(tmp_path, person(25, face_keypoints_2d=[2.0, 3.0, 0.9] * count))
        (clip,) = FILE.read(path, size_wh=(100, 100))
        assert clip.part("face")[0, :, 0].tolist() == pytest.approx([0.02] * 68)


def test_a_folder_of_another_maker_is_read_with_a_size(tmp_path):
    folder = tmp_path / "out" / "test" / "x"
    folder.mkdir(parents=True)
    for name in ("x_000000000002", "x_000000000001"):
        frame = {"people": [person()] if name.endswith("2") else []}
        (folder / f"{name}_keypoints.json").write_text(json.dumps(frame))
    assert detect_format(tmp_path / "out").name == "openpose"
    (clip,) = FOLDER.read(tmp_path / "out", size_wh=(100, 100))
    assert (clip.split, clip.clip_id) == ("test", "x")
    assert clip.mask.any(1).tolist() == [False, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name"),
        ("3", "expected frames with 'people', got 3"),
        ('{"clips": [{"frames": 3}]}', "expected clips with an object 'frames', got"),
        ("[]", "holds no clips"),
        ("[" * 100_000, "RecursionError"),
        ('{"a": ' * 100_000, "RecursionError"),
        ('[{"people": 1}]', "expected a frame with a list 'people'"),
        ('[{"people": [1]}]', "expected people as objects"),
        ('[{"people": [{"pose_keypoints_2d": [1, 2, NaN]}]}]', "NaN is not a JSON number"),
        ('[{"people": [{"pose_keypoints_2d": [1, 2, 1e999]}]}]', "flat list of finite numbers"),
        ('[{"people": [{"pose_keypoints_2d": [1, 2]}]}]', "expected a list of 3 numbers a point"),
        ('[{"people": [{"pose_keypoints_2d": [[1], 2, 3]}]}]', "inhomogeneous|flat list of finite"),
        ('[{"people": [{"pose_keypoints_2d": ["1", 2, 3]}]}]', "inhomogeneous|flat list of finite"),
        ('[{"people": [{"pose_keypoints_2d": [1, 2, 3]}]}]', "expected 18 or 25 points, got 1"),
        ('[{"people": [{"face_keypoints_2d": [1, 2, 3]}]}]', "face_keypoints_2d: expected 70"),
        (f"[{'9' * 5000}]", "Exceeds the limit|expected a frame"),
        (json.dumps([{"people": [person(25)]}, {"people": [person()]}]), "frame 1 has 18 points, "),
    ],
)
def test_json_that_does_not_fit_is_refused(tmp_path, text, message):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=rf"bad\.json.*({message})"):
        list(FILE.read(path, size_wh=(10, 10)))


def test_a_file_that_ends_in_the_middle_of_its_clips_says_so(tmp_path):
    FILE.write(make_clips("openpose-18"), tmp_path / "a.json", recipe=Recipe())
    lines = (tmp_path / "a.json").read_text().splitlines(keepends=True)
    (tmp_path / "a.json").write_text("".join(lines[:3]))
    with pytest.raises(FormatError, match="is cut off in the list 'clips'"):
        list(FILE.read(tmp_path / "a.json"))


def test_json_too_large_to_hold_is_refused_unread(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    with (folder / "a_keypoints.json").open("wb") as handle:
        handle.truncate(1 << 23)
    with pytest.raises(FormatError, match="8388608 bytes of JSON in one value; expected at most"):
        list(FOLDER.read(folder, size_wh=(10, 10)))
