"""MoveNet in the boxes that NanoDet finds: the bodies of several people, 17 points each."""

from posemill.estimators.movenet.engine import MoveNetEstimator

__all__ = ["MoveNetEstimator"]
