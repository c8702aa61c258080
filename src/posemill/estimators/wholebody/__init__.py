"""RTMPose, RTMW and DWPose: networks of the user's for bodies, faces, hands and feet."""

from posemill.estimators.wholebody.engine import WholeBodyEstimator

__all__ = ["WholeBodyEstimator"]
