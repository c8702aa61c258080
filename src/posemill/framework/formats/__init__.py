"""`mediapipe.framework.formats`: the messages that hold landmarks, detections and classes."""

from posemill.framework.formats import (
    classification_pb2,
    detection_pb2,
    landmark_pb2,
    location_data_pb2,
)

__all__ = ["classification_pb2", "detection_pb2", "landmark_pb2", "location_data_pb2"]
