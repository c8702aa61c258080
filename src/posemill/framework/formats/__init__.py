"""`mediapipe.framework.formats`: the messages that hold landmarks."""

from posemill.framework.formats import landmark_pb2

__all__ = ["landmark_pb2"]
