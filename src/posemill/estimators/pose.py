"""The engine of bodies: MediaPipe's legacy Pose (0.10.21), in batches."""

from __future__ import annotations

from posemill.estimators import EngineInfo
from posemill.estimators.landmarks.body_finder import BODY_OPTIONS, BodyEngine
from posemill.estimators.landmarks.crop_network import LANDMARK_NEEDS


class PoseEstimator(BodyEngine):
    """Bodies, 33 points each: what Holistic gives without hands and face."""

    name = "pose"
    info = EngineInfo(
        "the body of one person, or of several: MediaPipe Pose 0.10.21",
        ("pose-33", "openpose-18", "coco-17"),
        **LANDMARK_NEEDS,
        options=BODY_OPTIONS,
    )
