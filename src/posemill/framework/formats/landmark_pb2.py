"""`landmark_pb2`: landmarks that a script makes by itself, for `draw_landmarks`."""

from posemill.estimators.holistic.landmark_list import Landmark, LandmarkList

# The original has two kinds with the same fields: shares of the picture, and metres.
NormalizedLandmark = Landmark
NormalizedLandmarkList = LandmarkList

__all__ = ["Landmark", "LandmarkList", "NormalizedLandmark", "NormalizedLandmarkList"]
