"""Something that was detected in a picture: the original's messages."""

from __future__ import annotations

from posemill.framework.formats.location_data_pb2 import LocationData
from posemill.framework.formats.messages import Descriptor, Field, FieldsMessage


class Detection(FieldsMessage):
    """What it is (`label_id`), how sure that is (`score`), and where (`location_data`)."""

    DESCRIPTOR = Descriptor(
        "mediapipe.Detection",
        (
            Field("label", 1, "string", is_repeated=True),
            Field("label_id", 2, "int", is_repeated=True),
            Field("score", 3, is_repeated=True),
            Field("location_data", 4, "message", message_class=LocationData),
            Field("feature_tag", 5, "string"),
            Field("track_id", 6, "string"),
            Field("detection_id", 7, "int"),
            Field("display_name", 9, "string", is_repeated=True),
            Field("timestamp_usec", 10, "int"),
        ),
    )


class DetectionList(FieldsMessage):
    """Several, in `detection`."""

    DESCRIPTOR = Descriptor(
        "mediapipe.DetectionList",
        (Field("detection", 1, "message", is_repeated=True, message_class=Detection),),
    )
