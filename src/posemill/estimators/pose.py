"""The engine of one body: MediaPipe's legacy Pose (0.10.21), in batches."""

from __future__ import annotations

from posemill.estimators import EngineInfo
from posemill.estimators.landmarks.body_finder import BODY_OPTIONS, BodyEngine


class PoseEstimator(BodyEngine):
    """The body of one person, 33 points: what Holistic gives without hands and face."""

    name = "pose"
    info = EngineInfo(
        "the body of one person: MediaPipe Pose 0.10.21",
        ("pose-33", "openpose-18", "coco-17"),
        devices=("cpu", "cuda", "tensorrt"),
        needs=("ai_edge_litert", "onnxruntime"),
        brought_by="ai-edge-litert",
        options=BODY_OPTIONS,
    )
