"""The OpenPose engine: every picture at one height or two, its maps, its people."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from posemill.errors import ConfigError
from posemill.estimators import EngineInfo, EngineOption
from posemill.estimators.identity import build_identity
from posemill.estimators.openpose.decoding import (
    MIRRORED_MAPS,
    MIRRORED_SIGNS,
    NUM_POINTS,
    Thresholds,
    find_people,
)
from posemill.estimators.openpose.networks import DEFAULT, PIXELS, open_maps_network
from posemill.estimators.people import PictureEngine, gather_people
from posemill.records import FloatArray, Frame, Keypoints

_STRIDE = 8  # pixels of the input in a cell of the maps
_SECOND_SCALE = 1.5
_WIDEST = 8  # times the height: a wider picture is looked at smaller

# Times the shorter side: a network that is shown two or three cells of a strip finds people in any,
# in a flat one of a pixel too.
_LONGEST = 12


class OpenPoseEstimator(PictureEngine):
    """The bodies of all people in a picture, 18 points each."""

    name = "openpose"
    info = EngineInfo(
        "bodies of all people, 18 points each: OpenPose (COCO)",
        ("openpose-18",),
        people="several",
        modes=("image",),
        devices=("cpu", "cuda", "tensorrt"),
        options=(
            EngineOption("network", str, DEFAULT, "mobilenet_thin, or an .onnx or .pth file."),
            EngineOption(
                "height",
                int,
                368,
                "Of the picture the network sees, in pixels.",
                least=32,
                most=4096,
            ),
            EngineOption(
                "second_scale",
                bool,
                False,
                "Look again, mirrored and 1.5 times as large: finds more, 3x the work.",
            ),
            EngineOption(
                "pixels",
                str,
                "auto",
                "What the network expects of pixels.",
                choices=("auto", *PIXELS),
            ),
            EngineOption(
                "min_peak", float, 0.1, "Least height of a heat map's peak.", least=0, most=1
            ),
            EngineOption(
                "runtime",
                str,
                "auto",
                "What runs mobilenet_thin; auto: on a CPU OpenVINO, ONNX Runtime or OpenCV, the "
                "first of these that is installed and works here.",
                choices=("auto", "opencv", "onnxruntime", "openvino"),
            ),
        ),
    )

    def __init__(self, *, device: str = "cpu", threads: int = 1, **options: Any) -> None:
        super().__init__(device=device, threads=threads, **options)
        height, second_scale = self.options["height"], self.options["second_scale"]
        if height % _STRIDE:
            raise ConfigError(
                "height: expected a multiple of {stride}, got {height}",
                stride=_STRIDE,
                height=height,
            )
        self._network = open_maps_network(
            self.options["network"],
            device=self.device,
            threads=self.threads,
            pixels=self.options["pixels"],
            runtime=self.options["runtime"],
        )
        self._thresholds = Thresholds(peak=self.options["min_peak"])
        self._fixed_hw = self._network.size_hw
        if self._fixed_hw is not None and second_scale:
            raise ConfigError(
                "second_scale: {network} takes pictures of {width} x {height} only; export "
                "it with an open size, or leave second_scale out",
                network=self.options["network"],
                width=self._fixed_hw[1],
                height=self._fixed_hw[0],
            )
        self._height = height if self._fixed_hw is None else self._fixed_hw[0]
        self._second_scale = second_scale

    def _find(self, frames: list[Frame]) -> Keypoints:
        return gather_people(frames, [self._look(frame) for frame in frames], NUM_POINTS)

    def _look(self, frame: Frame) -> tuple[FloatArray, FloatArray]:
        """Return `(people, 18, 2)` as shares of the picture, and their scores."""
        if max(frame.shape[:2]) > _LONGEST * min(frame.shape[:2]):
            return np.zeros((0, NUM_POINTS, 2), np.float32), np.zeros((0, NUM_POINTS), np.float32)
        maps = self._maps_of(frame, self._height)
        if self._second_scale:
            taller = round(self._height * _SECOND_SCALE / _STRIDE) * _STRIDE
            larger = self._maps_of(np.ascontiguousarray(frame[:, ::-1]), taller)
            larger = larger[MIRRORED_MAPS, :, ::-1] * MIRRORED_SIGNS[:, None, None]
            size = larger.shape[2], larger.shape[1]
            first = cv2.resize(maps.transpose(1, 2, 0), size, interpolation=cv2.INTER_CUBIC)
            maps = np.ascontiguousarray((first.transpose(2, 0, 1) + larger) / 2)
        people = find_people(maps, self._thresholds)
        # The centre of a cell of the maps is the centre of the pixels it stands for.
        cells = np.array([maps.shape[2], maps.shape[1]], np.float32)
        return (people.points + 0.5) / cells, people.scores

    def _maps_of(self, frame: Frame, height: int) -> FloatArray:
        """Return the maps `(57, rows, columns)` of what of the network's picture the frame is."""
        height, width = self._size_seen(frame.shape[0], frame.shape[1], height)
        is_smaller = height < frame.shape[0]
        picture = cv2.resize(
            frame,
            (width, height),
            interpolation=cv2.INTER_AREA if is_smaller else cv2.INTER_CUBIC,
        )
        if self._fixed_hw is not None:  # the rest is black
            below, right = self._fixed_hw[0] - height, self._fixed_hw[1] - width
            picture = np.pad(picture, ((0, below), (0, right), (0, 0)))
        factor, offset = PIXELS[self._network.pixels]
        blob = np.ascontiguousarray(picture[None, :, :, ::-1].transpose(0, 3, 1, 2), np.float32)
        if (factor, offset) != (1.0, 0.0):
            blob = blob * np.float32(factor) + np.float32(offset)
        maps: FloatArray = self._network.run(blob)[0]
        if self._fixed_hw is not None:
            rows = maps.shape[1] * height // self._fixed_hw[0]
            columns = maps.shape[2] * width // self._fixed_hw[1]
            maps = np.ascontiguousarray(maps[:, :rows, :columns])
        return maps

    def _size_seen(self, height: int, width: int, wanted: int) -> tuple[int, int]:
        """Return height and width, in whole cells, at which the network sees a picture."""
        if self._fixed_hw is not None:
            scale = min(self._fixed_hw[0] / height, self._fixed_hw[1] / width)
            cells_most = [side // _STRIDE for side in self._fixed_hw]
            cells = [round(side * scale / _STRIDE) for side in (height, width)]
            seen = [
                min(max(each, 1), most) * _STRIDE
                for each, most in zip(cells, cells_most, strict=True)
            ]
            return seen[0], seen[1]
        seen_width = round(width * wanted / height / _STRIDE) * _STRIDE
        if seen_width > _WIDEST * wanted:  # a strip: its longer side decides
            widest = _WIDEST * wanted
            return max(round(wanted * widest / seen_width / _STRIDE), 1) * _STRIDE, widest
        return wanted, max(seen_width, _STRIDE)

    def identity(self) -> dict[str, str]:
        """Return what decides the result."""
        network = self._network
        settled = {"network": network.name, "pixels": network.pixels, "height": self._height}
        return build_identity(
            self.name,
            {**self.options, **settled},
            device=self.device,
            runtime=network.runtime,
            hashes={"network": network.sha256},
            converter=network.converter,
        )

    def close(self) -> None:
        """Free the network."""
        del self._network
