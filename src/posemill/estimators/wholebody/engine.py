"""The whole-body engine: people's boxes, then the points of each, by the user's ONNX files."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from posemill.errors import ConfigError
from posemill.estimators import ClipState, EngineInfo, EngineOption, checked_frames
from posemill.estimators.devices import import_onnxruntime
from posemill.estimators.people import gather_people
from posemill.estimators.wholebody.detector import KINDS, Detector
from posemill.estimators.wholebody.pose import SKELETONS, PoseNetwork
from posemill.records import Frame, Keypoints

_GPU_BATCH = 16


def _skeletons_with(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the pose network that is named gives; nothing where none is."""
    path = options.get("pose")
    if not isinstance(path, str) or not Path(path).is_file():
        return ()
    return SKELETONS[_count_points(path, Path(path).stat().st_mtime_ns)]


@functools.lru_cache(maxsize=8)
def _count_points(path: str, changed_ns: int) -> int:
    return PoseNetwork(path, colours="bgr", device="cpu", threads=1, batch=1).num_points


class WholeBodyEstimator:
    """The points of all people by RTMPose, RTMW or DWPose files: 133, 26 or 17 each.

    Args:
        device: `cpu`, `cuda:N` or `tensorrt:N`.
        threads: Threads inside one network call. OpenCV's are set to the same number.
        pose: The pose network, a SimCC one as .onnx.
        detector: The detector of people, YOLOX or RTMDet as .onnx; None: one person, the picture
            is the box.
        detector_kind: `yolox`, `rtmdet`, or `auto`: by what is in the file.
        detector_size: Side of the square the detector sees, where its file leaves that open.
        min_score: Least score of a box; None: 0.7 of YOLOX without NMS inside, else 0.3.
        most_overlap: Intersection over union that two boxes may have (YOLOX without NMS inside).
        colours: Order of the channels that the pose network gets, see docs/engine.md.
        batch: Most pictures or people in one network call; None: 1 on a CPU, 16 on a GPU.
    """

    info = EngineInfo(
        "bodies, feet, faces and hands of all people: RTMPose, RTMW and DWPose files of yours",
        ("coco-133", "coco-17", "openpose-18", "halpe-26"),
        people="several",
        modes=("image",),
        devices=("cpu", "cuda", "tensorrt"),
        needs=("onnxruntime",),
        brought_by="posemill[onnx]",
        options=(
            EngineOption("pose", str, None, "The pose network (SimCC), an .onnx file; needed."),
            EngineOption("detector", str, None,
                         "YOLOX or RTMDet, an .onnx file; without: one person, the whole picture."),
            EngineOption("detector_kind", str, "auto", "What the detector is.",
                         choices=("auto", *KINDS)),
            EngineOption("detector_size", int, None,
                         "Side of what the detector sees, where its file leaves that open.",
                         least=32, most=4096),
            EngineOption("min_score", float, None,
                         "Least score of a box; usually 0.7 of YOLOX without NMS inside, else 0.3.",
                         least=0, most=1),
            EngineOption("most_overlap", float, 0.45,
                         "Overlap that two boxes may have (YOLOX without NMS inside).",
                         least=0, most=1),
            EngineOption("colours", str, "bgr", "Order of the pose network's channels.",
                         choices=("bgr", "rgb")),
            EngineOption("batch", int, None,
                         "Most people in one network call; usually 1 on a CPU, 16 on a GPU.",
                         least=1),
        ),
        skeletons_with=_skeletons_with,
    )  # fmt: skip

    def __init__(
        self,
        *,
        device: str = "cpu",
        threads: int = 1,
        pose: str | None = None,
        detector: str | None = None,
        detector_kind: str = "auto",
        detector_size: int | None = None,
        min_score: float | None = None,
        most_overlap: float = 0.45,
        colours: str = "bgr",
        batch: int | None = None,
    ) -> None:
        self.info.check_device("wholebody", device)
        if pose is None:
            raise ConfigError(
                "engine 'wholebody' needs a pose network of yours (RTMPose, RTMW or DWPose as "
                ".onnx): {--engine-option:pose=FILE}"
            )
        cv2.setNumThreads(threads)
        # On a CPU batches gain nothing, and the last bits depend on their size.
        settings = {"device": device, "threads": threads,
                    "batch": batch or (1 if device == "cpu" else _GPU_BATCH)}  # fmt: skip
        self._pose: PoseNetwork = PoseNetwork(pose, colours=colours, **settings)
        self._detector: Detector | None = None
        if detector is not None:
            self._detector = Detector(
                detector, kind=detector_kind, side=detector_size, min_score=min_score,
                most_overlap=most_overlap, **settings,
            )  # fmt: skip
        self.info = dataclasses.replace(self.info, skeletons=SKELETONS[self._pose.num_points])
        self._batch = settings["batch"]

    def new_state(self) -> ClipState:
        """There is no video mode."""
        raise ConfigError("engine 'wholebody' has no video mode")

    def load_state(self, data: bytes) -> ClipState:
        """There is no video mode."""
        raise ConfigError("engine 'wholebody' has no video mode")

    def estimate(
        self, frames: Sequence[Frame], states: Sequence[ClipState] | None = None
    ) -> Keypoints:
        """Return the people of every frame: the largest, and the others by their size."""
        frames = checked_frames(frames)
        if self._detector is None:
            boxes = [np.array([[0.0, 0.0, *frame.shape[1::-1]]]) for frame in frames]
        else:
            boxes = self._detector.find(frames)
        return gather_people(frames, self._pose.find(frames, boxes), self._pose.num_points)

    def identity(self) -> dict[str, str]:
        """Return what decides the result."""
        detector = {"detector": "none"} if self._detector is None else self._detector.identity
        return {
            "engine": "wholebody",
            **self._pose.identity,
            **detector,
            "batch": str(self._batch),
            "runtime": f"onnxruntime {import_onnxruntime().__version__}",
        }

    def close(self) -> None:
        """Free the networks."""
        del self._pose, self._detector
