"""OpenPose with 18 points: the bodies of several people."""

from posemill.estimators.openpose.engine import OpenPoseEstimator

__all__ = ["OpenPoseEstimator"]
