"""The Holistic engine: pose, hands and face of a batch of frames, stage by stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from posemill.estimators import ClipState, EngineInfo, EngineOption, checked_frames
from posemill.estimators.holistic import face, hands
from posemill.estimators.holistic.state import HolisticState
from posemill.estimators.landmarks.body_finder import BodyFinder, BodyFrame
from posemill.estimators.landmarks.crop_network import REFINED_FACE, LandmarkEngine
from posemill.estimators.landmarks.detection import Detector
from posemill.estimators.landmarks.face import DETECTOR_SIZE, DETECTOR_STRIDES, read_face
from posemill.estimators.landmarks.hand import read_points
from posemill.estimators.landmarks.rects import Rect
from posemill.estimators.pose import BODY_OPTIONS
from posemill.records import FloatArray, Frame, Keypoints
from posemill.skeletons import get_skeleton

_SKELETONS = ("holistic-543", "holistic-143", "openpose-18", "coco-133")


@dataclass
class HolisticFrame(BodyFrame):
    """One frame on its way through the engine, and what was found in it.

    `state` is None for a frame that stands alone. Landmarks are float32, normalised; `parts` has
    those of hands and face that were found.
    """

    state: HolisticState | None
    parts: dict[str, FloatArray] = field(default_factory=dict)

    def previous(self, part: str) -> FloatArray | None:
        """Return the part's landmarks in the frame before."""
        return self.state.previous[part] if self.state else None


class HolisticEstimator(LandmarkEngine):
    """The legacy Holistic graph (0.10.21), in batches.

    Args:
        device: `cpu`, `cuda:N` or `tensorrt:N`.
        threads: Threads inside one network call. OpenCV's are set to the same number.
        runtime: `litert` (CPU only), `onnxruntime`, or `auto`: LiteRT on a CPU.
        min_detection_confidence: Of the pose detector.
        min_tracking_confidence: Of the pose landmarks; below it nobody is there.
        smooth_landmarks: Whether pose landmarks are filtered over time in video mode.
        model_complexity: Of the body's network: 0 is the fastest, 2 the most exact.
        refine_face_landmarks: Whether lips, eyes and irises are looked at a second time: 478
            points of the face, the skeleton `holistic-553`.
        with_masks: Whether `find` gives masks of people, too. Not an option of runs.
    """

    name = "holistic"
    info = EngineInfo(
        "body, face and hands of one person: MediaPipe Holistic 0.10.21",
        _SKELETONS,
        devices=("cpu", "cuda", "tensorrt"),
        needs=("ai_edge_litert", "onnxruntime"),
        brought_by="ai-edge-litert",
        options=(
            *BODY_OPTIONS,
            EngineOption("refine_face_landmarks", bool, False,
                         "Look at lips, eyes and irises a second time: 478 points of the face.",
                         skeletons=("holistic-553", *_SKELETONS)),
        ),
    )  # fmt: skip

    def __init__(
        self,
        *,
        device: str = "cpu",
        threads: int = 1,
        runtime: str = "auto",
        min_detection_confidence: float = 0.5,
        min_tracking_confidence: float = 0.5,
        smooth_landmarks: bool = True,
        model_complexity: int = 1,
        refine_face_landmarks: bool = False,
        with_masks: bool = False,
    ) -> None:
        options = {
            "runtime": runtime, "min_detection_confidence": min_detection_confidence,
            "min_tracking_confidence": min_tracking_confidence,
            "smooth_landmarks": bool(smooth_landmarks), "model_complexity": model_complexity,
            "refine_face_landmarks": bool(refine_face_landmarks),
        }  # fmt: skip
        super().__init__(options, device=device, threads=threads)
        self._bodies = BodyFinder(
            self._open, model_complexity=model_complexity, with_masks=with_masks,
            min_detection_confidence=min_detection_confidence,
            min_tracking_confidence=min_tracking_confidence,
        )  # fmt: skip
        self._hand_recrop = self._open("hand_recrop")
        self._hand_landmarks = self._open("hand_landmark_full")
        self._face_detector = self._open("face_detection_short_range", repeats_border=False)
        face_network = REFINED_FACE if refine_face_landmarks else "face_landmark"
        self._face_landmarks = self._open(face_network, stretches=True)
        self._find_face = Detector(DETECTOR_SIZE, DETECTOR_STRIDES, min_score=face.MIN_SCORE)

    def new_state(self) -> HolisticState:
        """Return the state before a clip's first frame."""
        return HolisticState(smooths=self.options["smooth_landmarks"])

    def load_state(self, data: bytes) -> HolisticState:
        """Return the state `HolisticState.to_bytes` wrote."""
        return HolisticState.from_bytes(data)

    def estimate(
        self, frames: Sequence[Frame], states: Sequence[ClipState] | None = None
    ) -> Keypoints:
        """Return the 543 (refined: 553) landmarks of a batch of RGB frames of any sizes."""
        found = self.find(frames, cast("Sequence[HolisticState] | None", states))
        skeleton = get_skeleton(self.info.skeleton_names[0])
        points = np.full((len(found), skeleton.num_points, 3), np.nan, np.float32)
        scores = np.zeros((len(found), skeleton.num_points), np.float32)
        for row, frame in enumerate(found):
            if frame.body is not None:
                points[row, :33], scores[row, :33] = frame.body.points, frame.body.visibility
            for name, landmarks in frame.parts.items():
                part = skeleton.part(name)
                points[row, part.start : part.stop] = landmarks
                scores[row, part.start : part.stop] = 1
        sizes_wh = np.array([frame.size for frame in found], np.int32).reshape(-1, 2)
        return Keypoints(points, scores, sizes_wh)

    def find(
        self, frames: Sequence[Frame], states: Sequence[HolisticState] | None = None
    ) -> list[HolisticFrame]:
        """Return all that is found in a batch of frames, in the engine's own terms.

        Args:
            frames: `(height, width, 3)` RGB uint8 each.
            states: One per frame, each of another clip, changed in place; None: frames stand alone.
        """
        if states is not None and len(states) != len(frames):
            raise ValueError(f"states: expected {len(frames)}, one per frame, got {len(states)}")
        batch = [
            HolisticFrame(frame, states[index] if states else None)
            for index, frame in enumerate(checked_frames(frames))
        ]
        for start in range(0, len(batch), self._max_batch):
            self._find_in(batch[start : start + self._max_batch])
        return batch

    def _find_in(self, batch: list[HolisticFrame]) -> None:
        self._bodies.find(batch)
        self._find_parts([frame for frame in batch if frame.body is not None])
        for frame in batch:
            if frame.state is not None:
                frame.state.previous = {
                    part: frame.parts.get(part) for part in frame.state.previous
                }

    def _find_parts(self, batch: list[HolisticFrame]) -> None:
        """Find hands and faces of frames with a body: first where, then their landmarks."""
        face_places = [
            (frame, face.rect_from_body(frame.body, frame.size)) for frame in batch if frame.body
        ]
        hand_places = [
            (frame, side, rect)
            for frame in batch
            for side in hands.SIDES
            if frame.body and (rect := hands.rect_from_body(frame.body, side, frame.size))
        ]
        self._hand_recrop.cut([(frame.pixels, rect) for frame, _, rect in hand_places])
        self._face_detector.cut([(frame.pixels, rect) for frame, rect in face_places])

        hands_found, faces_found = [], []
        for (frame, side, rect), outputs in zip(hand_places, self._hand_recrop.run(), strict=True):
            found = hands.rect_from_recrop(outputs, rect, frame.size)
            found = hands.rect_to_read(found, frame.previous(side), frame.size)
            hands_found.append((frame, side, found))
        for (frame, rect), outputs in zip(face_places, self._face_detector.run(), strict=True):
            detection = self._find_face.best(outputs[0][0], outputs[1].reshape(-1))
            if detection is not None:
                place = face.rect_from_detection(detection, rect, frame.size)
                place = face.rect_to_read(place, frame.previous("face"), frame.size)
                faces_found.append((frame, place))
        self._read_parts(hands_found, faces_found)

    def _read_parts(
        self,
        hands_found: list[tuple[HolisticFrame, str, Rect]],
        faces_found: list[tuple[HolisticFrame, Rect]],
    ) -> None:
        self._hand_landmarks.cut([(frame.pixels, rect) for frame, _, rect in hands_found])
        self._face_landmarks.cut([(frame.pixels, rect) for frame, rect in faces_found])
        for (frame, side, rect), outputs in zip(
            hands_found, self._hand_landmarks.run(), strict=True
        ):
            hand = read_points(outputs, rect, frame.size, min_score=hands.MIN_SCORE)
            if hand is not None:
                frame.parts[side] = hand
        for (frame, rect), outputs in zip(faces_found, self._face_landmarks.run(), strict=True):
            landmarks = read_face(outputs, rect, min_score=face.MIN_SCORE)
            if landmarks is not None:
                frame.parts["face"] = landmarks

    def close(self) -> None:
        """Free the networks."""
        super().close()
        if hasattr(self, "_bodies"):
            del self._bodies
