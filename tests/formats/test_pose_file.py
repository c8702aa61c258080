import dataclasses
import io
import json
import struct

import numpy as np
import pytest

from posemill.errors import FormatError
from posemill.formats.pose_file import PoseFormat, encode_clip
from posemill.formats.shared.contract import Recipe
from posemill.testing.formats import assert_same, make_clip, make_clips

POSE = PoseFormat()


@pytest.mark.parametrize("skeleton", PoseFormat.layouts)
def test_pose_format_itself_reads_what_we_write(tmp_path, skeleton):
    package = pytest.importorskip("pose_format")
    clip = make_clip(1, skeleton=skeleton)
    POSE.write([clip], tmp_path / "a.pose", recipe=Recipe())
    pose = package.Pose.read((tmp_path / "a.pose").read_bytes())
    assert (pose.header.dimensions.width, pose.header.dimensions.height) == (640, 480)
    assert pose.body.fps == 25
    assert pose.body.data.shape == (6, 1, clip.skeleton.num_points, 3)
    np.testing.assert_array_equal(~np.ma.getmaskarray(pose.body.data)[:, 0, :, 0], clip.mask)
    expected = np.nan_to_num(clip.pixels())
    np.testing.assert_allclose(pose.body.data.filled(0)[:, 0, :, :2], expected, atol=1e-3)
    np.testing.assert_allclose(pose.body.confidence[:, 0], clip.scores, atol=1e-6)


def test_pose_format_knows_the_points_by_name(tmp_path):
    package = pytest.importorskip("pose_format")
    header = package.Pose.read(encode_clip(make_clip(1, skeleton="holistic-543"))).header
    names = [(component.name, len(component.points)) for component in header.components]
    assert names == [("POSE_LANDMARKS", 33), ("FACE_LANDMARKS", 468),
                     ("LEFT_HAND_LANDMARKS", 21), ("RIGHT_HAND_LANDMARKS", 21)]  # fmt: skip
    assert header.get_point_index("POSE_LANDMARKS", "RIGHT_SHOULDER") == 12
    assert header.get_point_index("LEFT_HAND_LANDMARKS", "INDEX_FINGER_MCP") == 33 + 468 + 5


def test_a_file_written_by_pose_format_is_read(tmp_path):
    pytest.importorskip("pose_format")
    from pose_format import Pose
    from pose_format.numpy import NumPyPoseBody
    from pose_format.pose_header import PoseHeader, PoseHeaderDimensions
    from pose_format.utils.cocowholebody133_header import cocowholebody_components

    header = PoseHeader(0.2, PoseHeaderDimensions(100, 50), cocowholebody_components())
    data = np.full((4, 2, 133, 2), 25, np.float32)
    confidence = np.ones((4, 2, 133), np.float32)
    confidence[:, 0] = 0.1
    data[:, 0] = 1
    with (tmp_path / "b.pose").open("wb") as handle:
        Pose(header, NumPyPoseBody(30, data, confidence)).write(handle)
    (clip,) = POSE.read(tmp_path / "b.pose")
    assert (clip.clip_id, clip.skeleton_name, clip.fps) == ("b", "coco-133", 30)
    np.testing.assert_allclose(clip.points[0, 0], (0.25, 0.5, 0))


def test_a_folder_without_an_index_is_read_by_its_paths(tmp_path):
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "x.pose").write_bytes(encode_clip(make_clip(1)))
    (clip,) = POSE.read(tmp_path)
    assert (clip.split, clip.clip_id, clip.skeleton_name) == ("test", "x", "holistic-143")


def test_one_file_holds_one_clip_of_a_size_that_its_header_can_say(tmp_path):
    with pytest.raises(FormatError, match=r"holds one clip, 'deep/er\.name' is the second; give"):
        POSE.write(make_clips(), tmp_path / "a.pose", recipe=Recipe())
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FormatError, match=r"clip 'clip_1': 70000x480 or 1 people"):
        POSE.write([make_clip(1, size_wh=(70000, 480))], tmp_path / "a.pose", recipe=Recipe())


def replaced(data, at, layout, value):
    new = struct.pack(layout, value)
    return data[:at] + new + data[at + len(new) :]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: replaced(d, 0, "<f", 0.1), r"expected \.pose version 0\.2, got 0\.1"),
        (lambda d: replaced(d, 0, "<f", float("nan")), r"expected \.pose version 0\.2, got nan"),
        (lambda d: d[:-4], r"cut off at byte \d+"),
        (lambda d: d[:30], "cut off at byte 30"),
        (lambda d: replaced(d, 10, "<H", 3), "its components are|cut off|people in"),
        (lambda d: d.replace(b"FACE_LANDMARKS", b"FOOT_LANDMARKS"), r"its components are FOOT_"),
        (lambda d: d[:-4] + struct.pack("<f", np.inf), "a confidence is infinite"),
        (lambda d: b"", "cut off at byte 0"),
    ],
)
def test_files_that_do_not_fit_are_named(tmp_path, change, message):
    path = tmp_path / "bad.pose"
    path.write_bytes(change(encode_clip(make_clip(1))))
    with pytest.raises(FormatError, match=rf"bad\.pose.*({message})"):
        list(POSE.read(path))


def test_one_file_keeps_the_recipe_and_all_that_its_clip_has(tmp_path):
    clip = make_clip(1, clip_id="deep/er", split="dev", extra={"signer": "ä"}, fps=None,
                     frame_indices=np.arange(0, 12, 2))  # fmt: skip
    clip = dataclasses.replace(clip, interpolated=4)
    POSE.write([clip], tmp_path / "a.pose", recipe=Recipe(layout="143", interpolate=3))
    (back,) = POSE.read(tmp_path / "a.pose")
    assert_same(clip, back, tolerance=1e-6)
    assert (back.normalized, back.interpolated) == ("none", 4)
    text = (tmp_path / "a.pose").read_bytes()
    said = json.loads(text[text.rindex(b'{"posemill"') :])
    assert said["recipe"]["layout"] == "holistic-143"
    assert (said["format"], said["recipe"]["interpolate"]) == ("pose", 4)


def test_a_file_of_a_folder_knows_its_clip_also_outside_of_it(tmp_path):
    clips = [dataclasses.replace(clip, interpolated=2) for clip in make_clips()]
    POSE.write(clips, tmp_path / "all", recipe=Recipe())
    (tmp_path / "all" / "dev" / "one.pose").rename(tmp_path / "other.pose")
    (back,) = POSE.read(tmp_path / "other.pose")
    assert_same(clips[3], back, tolerance=1e-6)
    assert back.interpolated == 2


@pytest.mark.parametrize("options", [{}, {"start_frame": 2, "end_frame": 5}, {"start_time": 80}])
def test_pose_format_does_not_see_what_stands_behind_the_body(options):
    package = pytest.importorskip("pose_format")
    clip = make_clip(1)
    plain, noted = encode_clip(clip), encode_clip(clip, {"recipe": {}})
    for opened in (bytes, io.BytesIO):
        one, other = (package.Pose.read(opened(data), **options) for data in (plain, noted))
        np.testing.assert_array_equal(one.body.data, other.body.data)
        np.testing.assert_array_equal(one.body.confidence, other.body.confidence)
        assert len(other.body.data) == {0: 6, 2: 3, 1: 4}[len(options)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda note: note[:-3], "cut off at byte"),
        (lambda note: b"posemill" + struct.pack("<I", 2) + b"[]", "expected an object with 'clip'"),
        (lambda note: note.replace(b'"num_frames": 6', b'"num_frames": 5'), "expected 5 frames"),
        (lambda note: note.replace(b'"interpolate": 0', b'"interpolate":"0'), "not a readable"),
    ],
)
def test_a_note_that_does_not_fit_is_an_error(tmp_path, change, message):
    clip = make_clip(1)
    path = tmp_path / "bad.pose"
    body = encode_clip(clip)
    path.write_bytes(body + change(encode_clip(clip, {"recipe": {}}).removeprefix(body)))
    with pytest.raises(FormatError, match=rf"bad\.pose.*{message}"):
        list(POSE.read(path))
