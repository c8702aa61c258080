"""The MoveNet engine: boxes of persons, a square around each, and the points in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from posemill.estimators import EngineInfo, EngineOption
from posemill.estimators.identity import build_identity
from posemill.estimators.movenet.detection import Persons, detect
from posemill.estimators.movenet.networks import CONVERTER_VERSION, MapsNetwork
from posemill.estimators.movenet.poses import NUM_POINTS, drop_same_people, find_points
from posemill.estimators.movenet.squares import Square, cut_square
from posemill.estimators.people import PictureEngine, gather_people
from posemill.estimators.runtimes import describe_runtime
from posemill.estimators.runtimes.onnx_network import check_device_is_there
from posemill.estimators.runtimes.openvino_network import import_openvino
from posemill.estimators.runtimes.sessions import (
    SESSION_OPTION,
    choose_session_runtime,
)
from posemill.records import FloatArray, Frame, Keypoints

_AROUND = 1.1  # side of the square around a person, in sides of the box
_MOST_ALIKE = 0.75  # of two poses that are two people's


class MoveNetEstimator(PictureEngine):
    """The bodies of all people in a picture, 17 points each, from pictures of each alone."""

    name = "movenet"
    info = EngineInfo(
        "bodies of all people, 17 points each: MoveNet in NanoDet's boxes",
        ("coco-17", "openpose-18"),
        people="several",
        modes=("image",),
        devices=("cpu", "cuda", "tensorrt"),
        needs=("onnxruntime", "openvino"),
        brought_by="posemill[onnx]",
        options=(
            EngineOption(
                "network",
                str,
                "thunder",
                "thunder, or lightning: less exact, in a quarter of the time.",
                choices=("thunder", "lightning"),
            ),
            EngineOption(
                "min_box",
                float,
                0.2,
                "Least score of a box to look for a person in.",
                least=0.01,
                most=1,
            ),
            EngineOption(
                "min_point",
                float,
                0.05,
                "Least score of a point; below it is missing.",
                least=0,
                most=1,
            ),
            EngineOption(
                "min_person", float, 0.075, "Least mean of a person's scores.", least=0, most=1
            ),
            SESSION_OPTION,
        ),
    )

    def __init__(self, *, device: str = "cpu", threads: int = 1, **options: Any) -> None:
        super().__init__(device=device, threads=threads, **options)
        self._runtime = choose_session_runtime(self.options["runtime"], self.device)
        # Before the networks are fetched for nothing.
        if self._runtime == "onnxruntime":
            check_device_is_there(self.device)
        else:
            import_openvino()
        opening: dict[str, Any] = {
            "runtime": self._runtime,
            "device": self.device,
            "threads": self.threads,
        }
        self._detector = MapsNetwork("nanodet", **opening)
        self._network = MapsNetwork(f"movenet-{self.options['network']}", **opening)

    def _find(self, frames: list[Frame]) -> Keypoints:
        persons = detect(self._detector, frames, min_score=self.options["min_box"])
        squares = [
            _square_around(frame, box, self._network.size)
            for frame, found in zip(frames, persons, strict=True)
            for box in found.boxes
        ]
        points, scores = self._points_in(squares)
        starts = np.cumsum([0, *(len(found.boxes) for found in persons)])
        people = []
        for frame, found, start in zip(frames, persons, starts, strict=False):
            rows = slice(start, start + len(found.boxes))
            people.append(self._people_of(frame, found, points[rows], scores[rows]))
        return gather_people(frames, people, NUM_POINTS)

    def _points_in(self, squares: Sequence[Square]) -> tuple[FloatArray, FloatArray]:
        """Return `(squares, 17, 2)` in pixels of their frames, and the network's scores."""
        if not squares:
            nothing = np.zeros((0, NUM_POINTS, 2), np.float32)
            return nothing, nothing[..., 0]
        found = [
            find_points(maps) for maps in self._network.run([each.picture for each in squares])
        ]
        places = np.concatenate([each for each, _ in found]) * self._network.size
        scale = np.stack([each.scale for each in squares])[:, None]
        shift = np.stack([each.shift for each in squares])[:, None]
        return places * scale + shift, np.concatenate([each for _, each in found])

    def _people_of(
        self, frame: Frame, persons: Persons, points: FloatArray, scores: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return those who are somebody, points as shares of the picture."""
        # A point is as sure as its person is: that orders people, and points, of all pictures.
        sure = np.clip(np.where(scores < self.options["min_point"], 0, scores), 0, 1)
        sure = sure * persons.scores[:, None]
        totals = sure.mean(axis=1)
        areas = (persons.boxes[:, 2:] - persons.boxes[:, :2]).prod(axis=1)
        kept = drop_same_people(points, totals, areas, most_alike=_MOST_ALIKE)
        kept = kept[(totals[kept] > 0) & (totals[kept] >= self.options["min_person"])]
        shares = points[kept] / np.array(frame.shape[1::-1], np.float32)
        return np.where(sure[kept][..., None] > 0, shares, np.nan), sure[kept]

    def identity(self) -> dict[str, str]:
        """Return what decides the result."""
        return build_identity(
            self.name,
            self.options,
            device=self.device,
            runtime=describe_runtime(self._runtime),
            hashes={"network": self._network.sha256, "detector": self._detector.sha256},
            converter=CONVERTER_VERSION,
        )

    def close(self) -> None:
        """Free the networks."""
        del self._network, self._detector


def _square_around(frame: Frame, box: FloatArray, size: int) -> Square:
    """Return the square around a person's box, black outside of the frame."""
    side = max(round(float((box[2:] - box[:2]).max()) * _AROUND), 2)
    left, top = np.round((box[:2] + box[2:] - side) / 2).astype(int).tolist()
    return cut_square(frame, (left, top), side, size=size, colour=0)
