"""MediaPipe's legacy Holistic without MediaPipe: 33 pose, 468 face, 21 + 21 hand landmarks."""

from posemill.estimators.holistic.engine import HolisticEstimator
from posemill.estimators.holistic.state import HolisticState

__all__ = ["HolisticEstimator", "HolisticState"]
