"""The whole-body engine: people's boxes, then the points of each, by the user's files."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from posemill.errors import ConfigError
from posemill.estimators import EngineInfo, EngineOption
from posemill.estimators.identity import build_identity
from posemill.estimators.people import PictureEngine, gather_people
from posemill.estimators.runtimes import describe_runtime
from posemill.estimators.runtimes.sessions import (
    SESSION_OPTION,
    Session,
    choose_session_runtime,
)
from posemill.estimators.wholebody.detector import KINDS, Detector
from posemill.estimators.wholebody.networks import open_file
from posemill.estimators.wholebody.one_stage import OneStageNetwork, kind_of
from posemill.estimators.wholebody.pose import SKELETONS, PoseNetwork
from posemill.records import Frame, Keypoints

_GPU_BATCH = 16
_MOST_OVERLAP = 0.45


def _skeletons_with(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the pose network that is named gives; nothing where none is."""
    path = options.get("pose")
    if not isinstance(path, str) or not Path(path).is_file():
        return ()
    runtime = str(options.get("runtime", "auto"))
    return SKELETONS[_count_points(path, runtime, Path(path).stat().st_mtime_ns)]


@functools.lru_cache(maxsize=8)
def _count_points(path: str, runtime: str, changed_ns: int) -> int:
    session = open_file(path, "pose", runtime=runtime, device="cpu", threads=1)
    return _open_pose(session, path, colours="bgr", batch=1).num_points


def _open_pose(
    session: Session,
    path: str,
    *,
    colours: str,
    batch: int,
    side: int | None = None,
    min_score: float | None = None,
    most_overlap: float | None = None,
) -> PoseNetwork | OneStageNetwork:
    """Return the pose network of a file: one that sees people, or one that sees pictures."""
    kind = kind_of(session)
    if kind is None:
        return PoseNetwork(session, path, colours=colours, batch=batch)
    return OneStageNetwork(
        session,
        path,
        kind=kind,
        side=side,
        min_score=min_score,
        most_overlap=most_overlap,
        batch=batch,
    )


class WholeBodyEstimator(PictureEngine):
    """The points of all people by files of RTMPose, RTMW, DWPose, RTMO or YOLO-pose.

    They have 133, 26 or 17 points each.
    """

    name = "wholebody"
    info = EngineInfo(
        "bodies, feet, faces and hands of all people: RTMPose, RTMW, DWPose, RTMO and YOLO-pose "
        "files of yours",
        ("coco-133", "coco-17", "openpose-18", "halpe-26"),
        people="several",
        modes=("image",),
        devices=("cpu", "cuda", "tensorrt"),
        needs=("onnxruntime", "openvino", "ai_edge_litert"),
        brought_by="posemill[onnx]",
        options=(
            EngineOption("pose", str, None, "The pose network, an .onnx or .tflite file; needed."),
            EngineOption(
                "detector",
                str,
                None,
                "YOLOX or RTMDet, such a file; without: one person, the whole picture.",
            ),
            EngineOption(
                "detector_kind", str, "auto", "What the detector is.", choices=("auto", *KINDS)
            ),
            EngineOption(
                "detector_size",
                int,
                None,
                "Side of what the detector sees, where its file leaves that open.",
                least=32,
                most=4096,
            ),
            EngineOption(
                "min_score",
                float,
                None,
                "Least score of a box; usually 0.7 of RTMO and of YOLOX without NMS "
                "inside, 0.25 of YOLO-pose, else 0.3.",
                least=0,
                most=1,
            ),
            EngineOption(
                "most_overlap",
                float,
                None,
                "Overlap that two boxes may have, where the file does not choose; usually "
                "0.7 of YOLO-pose, else 0.45.",
                least=0,
                most=1,
            ),
            EngineOption(
                "colours",
                str,
                "bgr",
                "Order of the pose network's channels.",
                choices=("bgr", "rgb"),
            ),
            EngineOption(
                "batch",
                int,
                None,
                "Most people in one network call; usually 1 on a CPU, 16 on a GPU.",
                least=1,
            ),
            SESSION_OPTION,
        ),
        skeletons_with=_skeletons_with,
    )

    def __init__(self, *, device: str = "cpu", threads: int = 1, **options: Any) -> None:
        super().__init__(device=device, threads=threads, **options)
        pose, detector = self.options["pose"], self.options["detector"]
        if pose is None:
            raise ConfigError(
                "engine 'wholebody' needs a pose network of yours (RTMPose, RTMW, DWPose, RTMO or "
                "YOLO-pose as .onnx or .tflite): {--engine-option:pose=FILE}"
            )
        # On a CPU batches gain nothing, and the last bits depend on their size.
        self._batch = self.options["batch"] or (1 if self.device == "cpu" else _GPU_BATCH)
        runtime, most_overlap = self.options["runtime"], self.options["most_overlap"]
        opening: dict[str, Any] = {
            "runtime": runtime,
            "device": self.device,
            "threads": self.threads,
        }
        boxes: dict[str, Any] = {
            "side": self.options["detector_size"],
            "min_score": self.options["min_score"],
            "batch": self._batch,
        }
        self._pose = _open_pose(
            open_file(pose, "pose", **opening),
            pose,
            colours=self.options["colours"],
            most_overlap=most_overlap,
            **boxes,
        )
        self._detector: Detector | None = None
        if detector is not None:
            if isinstance(self._pose, OneStageNetwork):
                raise ConfigError("pose {pose} finds people itself: leave detector out", pose=pose)
            self._detector = Detector(
                open_file(detector, "detector", **opening),
                detector,
                kind=self.options["detector_kind"],
                most_overlap=_MOST_OVERLAP if most_overlap is None else most_overlap,
                **boxes,
            )
        self.info = dataclasses.replace(self.info, skeletons=SKELETONS[self._pose.num_points])
        self._runtime = choose_session_runtime(runtime, self.device, pose)

    def _find(self, frames: list[Frame]) -> Keypoints:
        if isinstance(self._pose, OneStageNetwork):
            return gather_people(frames, self._pose.find(frames), self._pose.num_points)
        if self._detector is None:
            boxes = [np.array([[0.0, 0.0, *frame.shape[1::-1]]]) for frame in frames]
        else:
            boxes = self._detector.find(frames)
        return gather_people(frames, self._pose.find(frames, boxes), self._pose.num_points)

    def identity(self) -> dict[str, str]:
        """Return what decides the result."""
        settled = {**self._pose.settled, "batch": self._batch}
        hashes = {"pose": self._pose.sha256}
        if self._detector is not None:
            settled |= self._detector.settled
            hashes["detector"] = self._detector.sha256
        return build_identity(
            self.name,
            {**self.options, **settled},
            device=self.device,
            runtime=describe_runtime(self._runtime),
            hashes=hashes,
        )

    def close(self) -> None:
        """Free the networks."""
        del self._pose, self._detector
