from __future__ import annotations

import pytest

from posemill.framework.formats.landmark_pb2 import Landmark, LandmarkList
from posemill.framework.formats.messages import Field


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
    assert field == ("x", 1, None, False, None, 0.0)
    assert field.message_type is None


def test_a_message_says_what_it_is_and_where_it_comes_from() -> None:
    descriptor = Landmark.DESCRIPTOR
    assert descriptor.full_name == f"mediapipe.{descriptor.name}"
    assert descriptor.file.name == "mediapipe/framework/formats/landmark.proto"
    assert descriptor.has_options is False
