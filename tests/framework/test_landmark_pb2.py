"""Landmarks, detections and classes behave as the original's messages do."""

import copy
import pickle

import numpy as np
import pytest
from made_up_people import make_detection

from posemill.framework.formats.classification_pb2 import Classification, ClassificationList
from posemill.framework.formats.detection_pb2 import Detection
from posemill.framework.formats.landmark_pb2 import Landmark, LandmarkList


@pytest.fixture
def hand():
    """21 points without visibility."""
    return LandmarkList.of_points(np.arange(63, dtype=np.float32).reshape(21, 3))


@pytest.fixture
def body():
    """33 points; the visibility of the first is 0, and set."""
    points = np.arange(99, dtype=np.float32).reshape(33, 3)
    return LandmarkList.of_points(points, np.linspace(0, 1, 33, dtype=np.float32))


def test_fields_not_set_read_zero(hand, body):
    assert (hand.landmark[1].x, hand.landmark[1].visibility, hand.landmark[1].presence) == (3, 0, 0)
    assert not hand.landmark[1].HasField("visibility")
    assert not hand.landmark[1].HasField("presence")
    assert body.landmark[0].HasField("visibility")  # 0.0 is a value
    assert not body.landmark[0].HasField("presence")
    assert body.landmark[32].visibility == 1.0


def test_what_is_assigned_lasts_and_is_in_the_array(hand):
    hand.landmark[2].x = 0.25
    hand.landmark[2].visibility = 0.5
    hand.landmark[2].presence = 0.0
    assert hand.landmark[2].x == 0.25
    assert hand.landmark[2].HasField("visibility")
    assert hand.landmark[2].HasField("presence")
    assert hand.to_numpy()[2].tolist() == [0.25, 7, 8]
    hand.landmark[2].ClearField("visibility")
    hand.landmark[2].ClearField("x")
    assert (hand.landmark[2].x, hand.landmark[2].visibility) == (0, 0)
    assert not hand.landmark[2].HasField("visibility")


def test_a_part_is_read_by_length_index_slice_and_iteration(hand):
    assert len(hand) == len(hand.landmark) == 21
    assert [point.x for point in hand.landmark[-3:]] == [54, 57, 60]
    assert [point.z for point in hand.landmark] == list(range(2, 63, 3))
    assert [point.y for point in hand] == list(range(1, 62, 3))
    assert hand.landmark[0] is hand.landmark[0]
    with pytest.raises(IndexError):
        hand.landmark[21]
    points = np.ones((21, 3), np.float32)
    part = LandmarkList.of_points(points)
    points[:] = 7  # the engine's array is not kept,
    part.to_numpy()[:] = 8  # and ours is a copy
    assert part.landmark[0].x == 1
    assert part.to_numpy().dtype == np.float32


@pytest.mark.parametrize("again", [copy.deepcopy, lambda part: pickle.loads(pickle.dumps(part))])
@pytest.mark.parametrize("looked_at", [True, False])
def test_copies_are_equal_and_their_own(body, again, looked_at):
    if looked_at:
        body.landmark[3].y = -1.0
    other = again(body)
    assert other == body
    other.landmark[0].x = 9.0
    assert other != body
    assert body.landmark[0].x == 0


def test_a_list_is_filled_as_a_message_is(hand):
    part = LandmarkList()
    assert part  # a message is true, however little is in it
    added = part.landmark.add(x=0.5)
    added.y = 0.1
    part.landmark.extend([Landmark(x=1, y=2, z=3), *hand.landmark[:2]])
    part.landmark.append(hand.landmark[2])
    assert [point.x for point in part.landmark] == [0.5, 1, 0, 3, 6]
    assert part.landmark[0].y == np.float32(0.1)  # a field is a float32
    hand.landmark[2].x = 77
    assert part.landmark[4].x == 6  # a copy was added
    assert not part.landmark[0].HasField("z")
    assert LandmarkList(landmark=part.landmark) == part
    del part.landmark[1:]
    assert len(part) == len(part.landmark) == 1


def test_a_list_becomes_another_is_merged_and_cleared(hand):
    part = LandmarkList(landmark=[Landmark(x=1)])
    part.CopyFrom(hand)
    assert part == hand
    assert part.landmark[0] is not hand.landmark[0]
    part.MergeFrom(LandmarkList(landmark=[Landmark(x=1)]))
    assert len(part) == 22
    part.Clear()
    assert len(part) == 0
    assert part.ListFields() == []
    point = Landmark()
    point.CopyFrom(Landmark(0.5, 0.25, -1.0, 0.75))
    assert point == Landmark(x=0.5, y=0.25, z=-1.0, visibility=0.75)
    point = Landmark(x=1, y=2)
    point.MergeFrom(Landmark(y=3, visibility=0.5))
    assert [(field.name, value) for field, value in point.ListFields()] == [
        ("x", 1), ("y", 3), ("visibility", 0.5),
    ]  # fmt: skip


def test_what_a_message_refuses_is_refused_with_words(hand):
    with pytest.raises(TypeError, match="expected a number, got 'left'"):
        hand.landmark[0].x = "left"
    with pytest.raises(TypeError, match="expected a NormalizedLandmark to copy, got int"):
        hand.landmark.append(3)
    with pytest.raises(TypeError, match="expected a NormalizedLandmarkList to copy, got Landmark"):
        hand.CopyFrom(hand.landmark[0])
    with pytest.raises(TypeError, match=r"cannot be assigned; use \.landmark\[i\]\.CopyFrom"):
        hand.landmark[0] = Landmark()
    with pytest.raises(ValueError, match=r"'landmark' is a list, .* ask for its len\(\)"):
        hand.HasField("landmark")
    with pytest.raises(AttributeError, match=r"has no UnknownFields: it is a plain .*Messag"):
        hand.UnknownFields()
    with pytest.raises(AttributeError, match="NormalizedLandmarkList has no 'landmarks'"):
        hand.landmarks  # noqa: B018
    hand.landmark[0].x = 1e40
    assert hand.landmark[0].x == float("inf")


@pytest.mark.parametrize("cut", [1, 20, 26])
def test_bytes_that_are_cut_or_something_else_are_refused(body, cut):
    with pytest.raises(
        ValueError, match=rf"these {cut} bytes are no NormalizedLandmark.* SerializeToString gave"
    ):
        LandmarkList.FromString(body.SerializeToString()[:cut])
    with pytest.raises(ValueError, match="these 5 bytes are no NormalizedLandmarkList"):
        LandmarkList.FromString(b"hello")


def test_a_message_says_what_it_is_and_a_number_has_the_codes_of_an_optional_float():
    descriptor = Landmark.DESCRIPTOR
    assert descriptor.full_name == f"mediapipe.{descriptor.name}"
    assert descriptor.file.name == "mediapipe/framework/formats/landmark.proto"
    assert descriptor.has_options is False
    for name in ("x", "y", "z", "visibility", "presence"):
        field = descriptor.fields_by_name[name]
        assert (field.type, field.cpp_type, field.label) == (2, 6, 1)
        assert (field.is_repeated, field.has_presence, field.json_name) == (False, True, name)


# What mediapipe 0.10.21 gives for the same messages: bytes, text, JSON.
STOCK = [
    (
        make_detection(ymin=-0.5),
        "1201001a0471c6383f223008021a140d0000803e15000000bf1dcdcccc3d25cdcc4c3e2a0a0d9a99993e15cdcc"
        "cc3e2a0a0d0000003f159a99193f",
        "label_id: 0\nscore: 0.721778\nlocation_data {\n  format: RELATIVE_BOUNDING_BOX\n"
        "  relative_bounding_box {\n    xmin: 0.25\n    ymin: -0.5\n    width: 0.1\n"
        "    height: 0.2\n  }\n  relative_keypoints {\n    x: 0.3\n    y: 0.4\n  }\n"
        "  relative_keypoints {\n    x: 0.5\n    y: 0.6\n  }\n}\n",
        {"labelId": [0], "score": [0.721778], "locationData": {
            "format": "RELATIVE_BOUNDING_BOX",
            "relativeBoundingBox": {"xmin": 0.25, "ymin": -0.5, "width": 0.1, "height": 0.2},
            "relativeKeypoints": [{"x": 0.3, "y": 0.4}, {"x": 0.5, "y": 0.6}]}},
    ),
    (
        ClassificationList(
            classification=[Classification(index=300, score=0.98, label='Left "x"')]
        ),
        "0a1208ac021548e17a3f1a084c65667420227822",
        'classification {\n  index: 300\n  score: 0.98\n  label: "Left \\"x\\""\n}\n',
        {"classification": [{"index": 300, "score": 0.98, "label": 'Left "x"'}]},
    ),
    (
        LandmarkList([Landmark(0.5, 0.25, -1.0, 0.75), Landmark(), Landmark(y=-0.1, presence=0)]),
        "0a140d0000003f150000803e1d000080bf250000403f0a000a0a15cdccccbd2d00000000",
        "landmark {\n  x: 0.5\n  y: 0.25\n  z: -1\n  visibility: 0.75\n}\nlandmark {\n}\n"
        "landmark {\n  y: -0.1\n  presence: 0\n}\n",
        {"landmark": [{"x": 0.5, "y": 0.25, "z": -1.0, "visibility": 0.75}, {},
                      {"y": -0.1, "presence": 0.0}]},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("message", "data", "text", "plain"), STOCK, ids=["detection", "classes", "points"]
)
def test_bytes_text_and_json_are_the_originals(message, data, text, plain):
    assert message.SerializeToString().hex() == data
    assert message.ByteSize() == len(data) // 2
    assert type(message).FromString(bytes.fromhex(data)) == message
    other = copy.deepcopy(message)
    assert other.ParseFromString(bytes.fromhex(data)) == len(data) // 2
    assert other == message  # its fields are replaced
    assert str(message) == text
    assert copy.deepcopy(message) == pickle.loads(pickle.dumps(message)) == message
    assert pytest.importorskip("google.protobuf.json_format").MessageToDict(message) == plain


def test_fields_are_set_or_not():
    one = make_detection()
    assert one.HasField("location_data")
    assert not Detection().HasField("location_data")
    assert (one.detection_id, one.label, list(one.label_id)) == (0, [], [0])
    assert one.score[0] == 0.7217779755592346  # a float32
    other = Detection()
    other.CopyFrom(one)
    assert other == one
    other.location_data.relative_bounding_box.xmin = 0.5
    assert other != one
    other.ClearField("location_data")
    assert not other.HasField("location_data")
    with pytest.raises(ValueError, match="Detection has no field 'place'; it has label, label_id"):
        Detection(place=1)
    with pytest.raises(AttributeError, match="score cannot be assigned; use"):
        one.score = [1.0]
    with pytest.raises(ValueError, match="'score' is a list, which is always there"):
        one.HasField("score")
    with pytest.raises(ValueError, match="bytes are no Detection"):
        Detection.FromString(one.SerializeToString()[:-3])
