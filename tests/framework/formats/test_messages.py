from __future__ import annotations

import copy
import pickle

import pytest

from posemill.framework.formats.classification_pb2 import Classification, ClassificationList
from posemill.framework.formats.detection_pb2 import Detection
from posemill.framework.formats.landmark_pb2 import Landmark, LandmarkList
from posemill.framework.formats.location_data_pb2 import LocationData
from posemill.framework.formats.messages import Field, Message


@pytest.mark.parametrize("name", ["x", "y", "z", "visibility", "presence"])
def test_a_number_has_the_codes_of_protobuf_for_an_optional_float(name: str) -> None:
    field = Landmark.DESCRIPTOR.fields_by_name[name]
    assert (field.type, field.cpp_type, field.label) == (2, 6, 1)
    assert (field.is_repeated, field.has_presence, field.json_name) == (False, True, name)


def test_a_list_has_the_codes_of_protobuf_for_repeated_messages() -> None:
    (field,) = LandmarkList.DESCRIPTOR.fields
    assert (field.type, field.cpp_type, field.label) == (11, 10, 3)
    assert (field.is_repeated, field.has_presence, field.json_name) == (True, False, "landmark")


def test_a_field_is_an_optional_number_unless_said() -> None:
    field = Field("x")
    assert (field.name, field.number, field.kind) == ("x", 1, "float")
    assert (field.is_repeated, field.default_value, field.message_type) == (False, 0.0, None)


def test_a_message_says_what_it_is_and_where_it_comes_from() -> None:
    descriptor = Landmark.DESCRIPTOR
    assert descriptor.full_name == f"mediapipe.{descriptor.name}"
    assert descriptor.file.name == "mediapipe/framework/formats/landmark.proto"
    assert descriptor.has_options is False


def detection() -> Detection:
    keypoint = LocationData.RelativeKeypoint
    location = LocationData(
        format=LocationData.RELATIVE_BOUNDING_BOX,
        relative_bounding_box=LocationData.RelativeBoundingBox(
            xmin=0.25, ymin=-0.5, width=0.1, height=0.2
        ),
        relative_keypoints=[keypoint(x=0.3, y=0.4), keypoint(x=0.5, y=0.6)],
    )
    return Detection(label_id=[0], score=[0.721778], location_data=location)


def classes() -> ClassificationList:
    return ClassificationList(
        classification=[Classification(index=300, score=0.98, label='Left "x"')]
    )


# What mediapipe 0.10.21 gives for the same messages: bytes, text, JSON.
STOCK = [
    (
        detection(),
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
        classes(),
        "0a1208ac021548e17a3f1a084c65667420227822",
        'classification {\n  index: 300\n  score: 0.98\n  label: "Left \\"x\\""\n}\n',
        {"classification": [{"index": 300, "score": 0.98, "label": 'Left "x"'}]},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("message", "data", "text", "plain"), STOCK, ids=["detection", "classes"])
def test_bytes_text_and_json_are_the_originals(
    message: Message, data: str, text: str, plain: dict[str, object]
) -> None:
    assert message.SerializeToString().hex() == data
    assert type(message).FromString(bytes.fromhex(data)) == message
    assert str(message) == text
    assert copy.deepcopy(message) == pickle.loads(pickle.dumps(message)) == message
    json_format = pytest.importorskip("google.protobuf.json_format")
    assert json_format.MessageToDict(message) == plain


def test_fields_are_set_or_not() -> None:
    one = detection()
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
