"""Classes with scores, such as which hand it is: the original's messages."""

from __future__ import annotations

from posemill.framework.formats.messages import Descriptor, Field, FieldsMessage


class Classification(FieldsMessage):
    """One class: its `index`, `score` and `label`."""

    DESCRIPTOR = Descriptor(
        "mediapipe.Classification",
        (
            Field("index", 1, "int"),
            Field("score", 2),
            Field("label", 3, "string"),
            Field("display_name", 4, "string"),
        ),
    )


class ClassificationList(FieldsMessage):
    """Classes, the best first, in `classification`."""

    DESCRIPTOR = Descriptor(
        "mediapipe.ClassificationList",
        (Field("classification", 1, "message", is_repeated=True, message_class=Classification),),
    )
