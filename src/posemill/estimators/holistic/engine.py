"""The Holistic engine: pose, hands and face of a batch of frames, stage by stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import cv2
import numpy as np

from posemill.errors import ConfigError
from posemill.estimators import ClipState, EngineInfo, EngineOption, checked_frames
from posemill.estimators.holistic import face, hands, pose
from posemill.estimators.holistic.attention import AttentionNetwork
from posemill.estimators.holistic.crops import Cropper
from posemill.estimators.holistic.detection import Detector
from posemill.estimators.holistic.rects import Rect, Size, f32
from posemill.estimators.holistic.sampling import SampleGrid
from posemill.estimators.holistic.state import HolisticState
from posemill.estimators.runtime import (
    RUNTIMES,
    Network,
    choose_runtime,
    open_network,
    tell_that_litert_is_missing,
    version_of,
)
from posemill.records import FloatArray, Frame, Keypoints
from posemill.skeletons import get_skeleton
from posemill.weights.catalogue import get_pinned
from posemill.weights.networks import CONVERTER_VERSION, NETWORKS

# Frames that go through the stages together.
_MAX_BATCH = {"cpu": 8, "gpu": 32}
_LARGEST_CROP = 256
_SKELETONS = ("holistic-543", "holistic-143", "openpose-18", "coco-133")
# By `model_complexity`.
_BODY_NETWORKS = ("pose_landmark_lite", "pose_landmark_full", "pose_landmark_heavy")
_REFINED_FACE = "face_attention"  # in pieces


@dataclass
class HolisticFrame:
    """One frame on its way through the engine, and what was found in it.

    `state` is None for a frame that stands alone. Landmarks are float32, normalised, None where
    the part was not found.
    """

    pixels: Frame
    state: HolisticState | None
    body: pose.PoseLandmarks | None = None
    parts: dict[str, FloatArray] = field(default_factory=dict)
    size: Size = field(init=False)

    def __post_init__(self) -> None:
        self.size = f32(self.pixels.shape[1]), f32(self.pixels.shape[0])

    def previous(self, part: str) -> FloatArray | None:
        """Return the part's landmarks in the frame before."""
        return self.state.previous[part] if self.state else None


class CropNetwork:
    """A network with its crops: looks at rectangles of pictures.

    Cutting and running are two steps: a network pushes the pictures out of the processor's caches,
    so all crops of a stage are cut before its networks run.
    """

    def __init__(self, network: Network, cropper: Cropper) -> None:
        self._network, self._cropper = network, cropper
        self._pixels = np.zeros((0, self._network.size, self._network.size, 3), np.uint8)
        self._num_places = 0

    def cut(self, places: Sequence[tuple[Frame, Rect | None]]) -> None:
        """Cut the places (None: the whole picture) that `run` will show to the network."""
        self._num_places = len(places)
        if len(places) > len(self._pixels):
            self._pixels = np.zeros((len(places), *self._pixels.shape[1:]), np.uint8)
        for row, (frame, rect) in enumerate(places):
            self._cropper.cut(frame, rect, self._pixels[row])

    def run(self) -> list[list[FloatArray]]:
        """Return the network's outputs for each place that was cut, each with a batch axis of 1."""
        rows = range(self._num_places)
        if not self._network.runs_batches:
            return [self._network.run(self._pixels[row : row + 1]) for row in rows]
        if not rows:
            return []
        outputs = self._network.run(self._pixels[: len(rows)])
        return [[output[row : row + 1] for output in outputs] for row in rows]


class HolisticEstimator:
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
    """

    info = EngineInfo(
        "body, face and hands of one person: MediaPipe Holistic 0.10.21",
        _SKELETONS,
        devices=("cpu", "cuda", "tensorrt"),
        options=(
            EngineOption("runtime", str, "auto", "What runs the networks; auto: LiteRT on a CPU.",
                         choices=("auto", *RUNTIMES)),
            EngineOption("min_detection_confidence", float, 0.5, "Of the pose detector.",
                         least=0, most=1),
            EngineOption("min_tracking_confidence", float, 0.5,
                         "Of the pose landmarks; below it nobody is there.", least=0, most=1),
            EngineOption("smooth_landmarks", bool, True, "Filter the pose over time."),
            EngineOption("model_complexity", int, 1,
                         "Of the body's network: 0 is the fastest, 2 the most exact.",
                         least=0, most=2),
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
    ) -> None:
        self.info.check_options("holistic", {
            "runtime": runtime, "min_detection_confidence": min_detection_confidence,
            "min_tracking_confidence": min_tracking_confidence,
            "model_complexity": model_complexity,
        })  # fmt: skip
        self.refine_face_landmarks = bool(refine_face_landmarks)
        self.info = self.info.with_options({"refine_face_landmarks": self.refine_face_landmarks})
        if not isinstance(threads, (int, np.integer)) or threads < 1:
            raise ConfigError(f"threads: expected at least 1, got {threads!r}")
        self.device, self.threads = device, threads
        self.runtime = choose_runtime(runtime, device)
        self.smooth_landmarks = smooth_landmarks
        self.min_tracking_confidence = min_tracking_confidence
        self.min_detection_confidence = min_detection_confidence
        self.model_complexity = int(model_complexity)
        self._max_batch = _MAX_BATCH["cpu" if device == "cpu" else "gpu"]
        cv2.setNumThreads(threads)
        grid = SampleGrid(_LARGEST_CROP)
        self._models: list[str] = []

        def open_one(name: str) -> Network:
            self._models.append(NETWORKS[name].model)
            return open_network(name, runtime=self.runtime, device=device, threads=threads)

        def network(
            name: str, *, repeats_border: bool = True, stretches: bool = False
        ) -> CropNetwork:
            opened = AttentionNetwork(open_one) if name == _REFINED_FACE else open_one(name)
            cropper = Cropper(opened.size, grid, repeats_border=repeats_border, stretches=stretches)
            return CropNetwork(opened, cropper)

        self._pose_detector = network("pose_detection", repeats_border=False)
        self._pose_landmarks = network(_BODY_NETWORKS[self.model_complexity])
        self._hand_recrop = network("hand_recrop")
        self._hand_landmarks = network("hand_landmark_full")
        self._face_detector = network("face_detection_short_range", repeats_border=False)
        face_network = _REFINED_FACE if self.refine_face_landmarks else "face_landmark"
        self._face_landmarks = network(face_network, stretches=True)
        if runtime == "auto" and device == "cpu" and self.runtime != "litert":
            tell_that_litert_is_missing()
        self._find_pose = Detector(224, pose.DETECTOR_STRIDES, min_score=min_detection_confidence)
        self._find_face = Detector(128, face.DETECTOR_STRIDES, min_score=face.MIN_DETECTION_SCORE)

    def new_state(self) -> HolisticState:
        """Return the state before a clip's first frame."""
        return HolisticState(smooths=self.smooth_landmarks)

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
        for frame in batch:
            if frame.state is not None:
                frame.state.num_frames += 1
        self._find_bodies(batch)
        self._find_parts([frame for frame in batch if frame.body is not None])
        for frame in batch:
            if frame.state is not None:
                frame.state.previous = {
                    part: frame.parts.get(part) for part in frame.state.previous
                }

    def _find_bodies(self, batch: list[HolisticFrame]) -> None:
        rects: list[Rect | None] = [
            frame.state.next_rect if frame.state else None for frame in batch
        ]
        unknown = [index for index, rect in enumerate(rects) if rect is None]
        self._pose_detector.cut([(batch[index].pixels, None) for index in unknown])
        for index, outputs in zip(unknown, self._pose_detector.run(), strict=True):
            size = batch[index].size
            rects[index] = pose.rect_from_detection(self._find_pose, outputs, size)
        places = [(frame, rect) for frame, rect in zip(batch, rects, strict=True) if rect]
        self._pose_landmarks.cut([(frame.pixels, rect) for frame, rect in places])
        for (frame, rect), outputs in zip(places, self._pose_landmarks.run(), strict=True):
            frame.body = pose.read_pose(
                outputs, rect, frame.size, min_score=self.min_tracking_confidence
            )
        for frame in batch:
            if frame.body is not None:
                frame.body = pose.follow(frame.body, frame.state, frame.size)
            elif frame.state is not None:
                frame.state.lose_person()

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
            place = face.rect_from_detection(self._find_face, outputs, rect, frame.size)
            if place is not None:
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
            hand = hands.read_hand(outputs, rect, frame.size)
            if hand is not None:
                frame.parts[side] = hand
        for (frame, rect), outputs in zip(faces_found, self._face_landmarks.run(), strict=True):
            landmarks = face.read_face(outputs, rect)
            if landmarks is not None:
                frame.parts["face"] = landmarks

    def identity(self) -> dict[str, str]:
        """Return what decides the result: options, versions, hashes of the model files."""
        return {
            "engine": "holistic",
            "min_detection_confidence": str(self.min_detection_confidence),
            "min_tracking_confidence": str(self.min_tracking_confidence),
            "smooth_landmarks": str(self.smooth_landmarks),
            "device": self.device.split(":")[0],
            "runtime": self.runtime,
            self.runtime: version_of(self.runtime),
            # of the graphs for ONNX Runtime
            **({"converter": str(CONVERTER_VERSION)} if self.runtime == "onnxruntime" else {}),
            "opencv": cv2.__version__,
            # the networks say whether the face is refined, and how complex the body's is
            **{f"sha256 {name}": get_pinned(name, "model").sha256 for name in self._models},
        }

    def close(self) -> None:
        """Free the networks."""
        for name in [key for key, value in vars(self).items() if isinstance(value, CropNetwork)]:
            delattr(self, name)
