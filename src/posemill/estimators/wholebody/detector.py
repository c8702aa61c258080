"""People's boxes by YOLOX or RTMDet, with or without the choice among double boxes inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.errors import ConfigError
from posemill.estimators.people import drop_doubles
from posemill.estimators.runtimes.sessions import Session
from posemill.estimators.wholebody.networks import OPEN_SIDE, PictureNetwork, pixel_tables
from posemill.messages import Message
from posemill.records import FloatArray, Frame
from posemill.weights.onnx_files import first_convolution_channels

KINDS = ("yolox", "rtmdet")
_STRIDES = (8, 16, 32)
_PERSON = 0  # among the classes of COCO, and the only one of detectors of people
# RTMDet wants these in the order of its channels, BGR; YOLOX wants bytes as they are.
_RTMDET_PIXELS = pixel_tables((103.53, 116.28, 123.675), (57.375, 57.12, 58.395))
_FOCUS_CHANNELS = 12  # YOLOX lays four neighbouring pixels on each other first

# (people, 4): left, top, right, bottom in pixels. Of the precision that rtmlib has there: the last
# bit decides how some pixels of a person's crop are rounded.
Boxes = npt.NDArray[Any]


class Detector:
    """A detector of people in a user's file.

    Args:
        session: The network, as `open_file` gives it.
        path: Its file.
        kind: Of `KINDS`, or `auto`: told by the first convolution.
        side: Of the square it sees, where the file leaves that open; None: 640.
        min_score: Least score of a box; None: 0.7 of YOLOX without the choice inside, else 0.3.
        most_overlap: Intersection over union that two people may have, where we choose.
        batch: Most pictures in one call.
    """

    def __init__(
        self,
        session: Session,
        path: str,
        *,
        kind: str,
        side: int | None,
        min_score: float | None,
        most_overlap: float,
        batch: int,
    ) -> None:
        self._network = PictureNetwork(
            session,
            path,
            "detector",
            tables=pixel_tables(),
            colours="bgr",
            open_side=side or OPEN_SIDE,
            batch=batch,
        )
        shapes = self._network.output_shapes
        width, height = self._network.size_wh
        self._cells = _cells_of(width, height)
        columns = shapes[0][2] if len(shapes[0]) == 3 else 0
        self._chooses = columns > 5 and shapes[0][1] == len(self._cells)
        has_boxes = columns == 5 and all(len(shape) == 2 for shape in shapes[1:])
        if not self._chooses and not has_boxes:
            raise self._network.refuse(
                Message(
                    "boxes (batch, boxes, 5) and their labels, or YOLOX's (batch, {num_cells}, 5 "
                    "+ classes) for a picture of {width} x {height}",
                    num_cells=len(self._cells),
                    width=width,
                    height=height,
                )
            )
        self.kind = kind if kind != "auto" else self._tell_kind()
        if self.kind == "rtmdet":
            self._network.tables = _RTMDET_PIXELS
        usual = 0.7 if self._chooses and self.kind == "yolox" else 0.3
        self.min_score = usual if min_score is None else min_score
        self._most_overlap = most_overlap
        self.sha256 = self._network.sha256
        self.settled = {
            "detector": self._network.path.name,
            "detector_kind": self.kind,
            "detector_size": f"{width}x{height}",
            "min_score": self.min_score,
            "most_overlap": most_overlap,
        }

    def find(self, frames: Sequence[Frame]) -> list[Boxes]:
        """Return the boxes of the people in each RGB frame."""
        decode = self._choose if self._chooses else self._read
        found: list[Boxes] = []
        for scale, _, outputs in self._network.look_at(frames):
            boxes = decode(outputs, scale)
            has_area = np.isfinite(boxes).all(axis=1) & (boxes[:, 2:] > boxes[:, :2]).all(axis=1)
            found.append(boxes[has_area])
        return found

    def _choose(self, outputs: list[FloatArray], scale: float) -> Boxes:
        """Return the boxes of what YOLOX says of every cell, without doubles."""
        rows = outputs[0]
        scores = rows[:, 4] * rows[:, 5 + _PERSON]
        sure = np.nonzero(scores > self.min_score)[0]
        rows, scores, cells = rows[sure].astype(np.float32), scores[sure], self._cells[sure]
        middles, halves = rows[:, :2], rows[:, 2:4] / 2
        if outputs[0][-1, 0] < self._network.size_wh[0] / 2:
            # Counted from each cell; else the file has done this, as the last cell lies far right.
            middles = (middles + cells[:, :2]) * cells[:, 2:]
            halves = np.exp(rows[:, 2:4]) * cells[:, 2:] / 2
        boxes = np.concatenate([middles - halves, middles + halves], axis=1) / np.float32(scale)
        kept = drop_doubles(boxes, scores, most_overlap=self._most_overlap, rim=1)
        return np.asarray(boxes[kept], np.float64)

    def _read(self, outputs: list[FloatArray], scale: float) -> Boxes:
        """Return the boxes of people as the file gives them."""
        rows = outputs[0]
        is_sure = rows[:, 4] > self.min_score
        for labels in outputs[1:]:
            is_sure &= labels == _PERSON
        return np.asarray(rows[is_sure, :4] / np.float32(scale), np.float32)

    def _tell_kind(self) -> str:
        if self._chooses:
            return "yolox"
        channels = first_convolution_channels(self._network.path)
        kind = {_FOCUS_CHANNELS: "yolox", 3: "rtmdet"}.get(channels or 0)
        if kind is None:
            raise ConfigError(
                "detector {path}: it is not plain whether this is YOLOX or RTMDet, which want "
                "other pixels; say it: {--engine-option:detector_kind=yolox} (or rtmdet)",
                path=self._network.path,
            )
        return kind


def _cells_of(width: int, height: int) -> FloatArray:
    """Return column, row and stride of each of YOLOX's cells."""
    parts = []
    for stride in _STRIDES:
        rows, columns = np.mgrid[: height // stride, : width // stride].reshape(2, -1)
        parts.append(np.stack([columns, rows, np.full(len(rows), stride)], axis=1))
    return np.concatenate(parts).astype(np.float32)
