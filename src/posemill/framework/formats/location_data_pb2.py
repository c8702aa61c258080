"""Where something is in a picture: the original's messages."""

from __future__ import annotations

from typing import ClassVar

from posemill.framework.formats.messages import Descriptor, EnumType, Field, FieldsMessage

_FORMAT = EnumType(
    "mediapipe.LocationData.Format", ("GLOBAL", "BOUNDING_BOX", "RELATIVE_BOUNDING_BOX", "MASK")
)
_SIDES = ("xmin", "ymin", "width", "height")


class _BoundingBox(FieldsMessage):
    DESCRIPTOR = Descriptor(
        "mediapipe.LocationData.BoundingBox",
        tuple(Field(name, number, "int") for number, name in enumerate(_SIDES, start=1)),
    )


class _RelativeBoundingBox(FieldsMessage):
    DESCRIPTOR = Descriptor(
        "mediapipe.LocationData.RelativeBoundingBox",
        tuple(Field(name, number) for number, name in enumerate(_SIDES, start=1)),
    )


class _RelativeKeypoint(FieldsMessage):
    DESCRIPTOR = Descriptor(
        "mediapipe.LocationData.RelativeKeypoint",
        (Field("x", 1), Field("y", 2), Field("keypoint_label", 3, "string"), Field("score", 4)),
    )


class LocationData(FieldsMessage):
    """A box in pixels or in shares of the picture, and points in shares of it."""

    BoundingBox = _BoundingBox
    RelativeBoundingBox = _RelativeBoundingBox
    RelativeKeypoint = _RelativeKeypoint
    GLOBAL: ClassVar = 0
    BOUNDING_BOX: ClassVar = 1
    RELATIVE_BOUNDING_BOX: ClassVar = 2
    MASK: ClassVar = 3
    DESCRIPTOR = Descriptor(
        "mediapipe.LocationData",
        (
            Field("format", 1, "enum", enum_type=_FORMAT),
            Field("bounding_box", 2, "message", message_class=_BoundingBox),
            Field("relative_bounding_box", 3, "message", message_class=_RelativeBoundingBox),
            Field(
                "relative_keypoints",
                5,
                "message",
                is_repeated=True,
                message_class=_RelativeKeypoint,
            ),
        ),
    )
