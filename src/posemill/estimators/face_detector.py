"""Boxes of faces: MediaPipe's legacy FaceDetection (0.10.21), in batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from posemill.estimators import EngineInfo
from posemill.estimators.landmarks import face
from posemill.estimators.landmarks.crop_network import RUNTIME_OPTION, LandmarkEngine
from posemill.estimators.landmarks.detection import Detection, Detector, project_detection
from posemill.estimators.landmarks.rects import f32
from posemill.records import Frame


class FaceFrame(NamedTuple):
    """One frame on its way through the detector, and the faces in it, the best first."""

    pixels: Frame
    faces: list[Detection]


class FaceDetector(LandmarkEngine[FaceFrame]):
    """All faces of a picture, each with its box and six points.

    Args:
        full_range: Whether faces up to five metres away are looked for, not two.
        device: `cpu`, `cuda:N` or `tensorrt:N`.
        threads: Threads inside one network call.
    """

    name = "face_detection"
    info = EngineInfo("boxes of faces", (), people="several", options=(RUNTIME_OPTION,))

    def __init__(self, *, full_range: bool, device: str = "cpu", threads: int = 1) -> None:
        super().__init__(device=device, threads=threads)
        if full_range:
            self._network = self._open("face_detection_full_range_sparse", repeats_border=False)
            self._find = Detector(192, (4,), min_score=0.6, anchors_per_layer=1)
        else:
            self._network = self._open("face_detection_short_range", repeats_border=False)
            self._find = Detector(face.DETECTOR_SIZE, face.DETECTOR_STRIDES, min_score=0.5)

    def find(self, frames: Sequence[Frame]) -> list[list[Detection]]:
        """Return the faces of each frame in shares of it, the best first."""
        return [frame.faces for frame in self._look_at(frames, None)]

    def _begin(self, pixels: Frame, state: None) -> FaceFrame:
        return FaceFrame(pixels, [])

    def _find_in(self, batch: list[FaceFrame]) -> None:
        seen = self._network.look([(frame.pixels, None) for frame in batch])
        for (picture, faces), (boxes, logits) in zip(batch, seen, strict=True):
            size = f32(picture.shape[1]), f32(picture.shape[0])
            detections = self._find.find(boxes[0], logits.reshape(-1))
            faces += [project_detection(detection, size) for detection in detections]
