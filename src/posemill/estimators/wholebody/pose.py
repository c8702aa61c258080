"""The points of people in boxes, by a network that says where along x and where along y (SimCC)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from posemill.errors import ConfigError
from posemill.estimators.runtimes.sessions import Session
from posemill.estimators.wholebody.detector import Boxes
from posemill.estimators.wholebody.networks import PictureNetwork, pixel_tables
from posemill.messages import Message
from posemill.records import FloatArray, Frame

# By the number of points: what the network gives, and what can be made of it.
SKELETONS = {
    133: ("coco-133", "coco-17", "openpose-18"),
    26: ("halpe-26", "coco-17", "openpose-18"),
    17: ("coco-17", "openpose-18"),
}
_PIXELS = pixel_tables((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
_ROOM = 1.25  # times the box is what the network sees
_NAMES = ("simcc_x", "simcc_y")


def expect_known(path: str, num_points: int) -> None:
    """Raise unless a network has as many points as one of `SKELETONS`."""
    if num_points not in SKELETONS:
        known = ", ".join(f"{count} ({names[0]})" for count, names in SKELETONS.items())
        raise ConfigError(
            "pose {path}: it has {num_points} points; known: {known}",
            path=path,
            num_points=num_points,
            known=known,
        )


class PoseNetwork:
    """A SimCC network in a user's file; `num_points` is a key of `SKELETONS`.

    Args:
        session: The network, as `open_file` gives it.
        path: Its file.
        colours: The order of its channels: `rgb` or `bgr`.
        batch: Most people in one call.
    """

    def __init__(self, session: Session, path: str, *, colours: str, batch: int) -> None:
        self._network = PictureNetwork(
            session, path, "pose", tables=_PIXELS, colours=colours, batch=batch
        )
        self._outputs = self._find_outputs()
        self.num_points: int = self._network.output_shapes[self._outputs[0]][1]
        expect_known(path, self.num_points)
        width, height = self._network.size_wh
        self.sha256 = self._network.sha256
        self.settled = {"pose": self._network.path.name, "pose_size": f"{width}x{height}"}

    def find(
        self, frames: Sequence[Frame], boxes: Sequence[Boxes]
    ) -> list[tuple[FloatArray, FloatArray]]:
        """Return points `(people, points, 2)` as shares of the picture, and scores, of each frame.

        Args:
            frames: RGB pictures.
            boxes: Of the people in each: left, top, right, bottom in pixels.
        """
        owners = np.repeat(np.arange(len(frames)), [len(each) for each in boxes])
        everybody = np.concatenate(boxes) if len(boxes) else np.zeros((0, 4))
        middles = (everybody[:, :2] + everybody[:, 2:]) * 0.5
        areas_wh = self._in_shape((everybody[:, 2:] - everybody[:, :2]) * _ROOM)
        places = np.zeros((len(owners), self.num_points, 2))
        scores = np.zeros((len(owners), self.num_points), np.float32)
        for start in range(0, len(owners), self._network.batch):
            part = slice(start, start + self._network.batch)
            warps = self._warps(middles[part], areas_wh[part])
            for place, (owner, warp) in enumerate(zip(owners[part], warps, strict=True)):
                size_wh = self._network.size_wh
                crop = cv2.warpAffine(frames[owner], warp, size_wh, flags=cv2.INTER_LINEAR)
                self._network.put(place, np.asarray(crop, np.uint8))
            places[part], scores[part] = self._decode(self._network.run(len(warps)))
        points = places * areas_wh[:, None] + (middles - areas_wh / 2)[:, None]
        points[scores == 0] = np.nan
        has_points = (scores > 0).any(axis=1)
        found = []
        for row, frame in enumerate(frames):
            people = (owners == row) & has_points
            shares = points[people] / np.array(frame.shape[1::-1])
            found.append((shares.astype(np.float32), scores[people]))
        return found

    def _in_shape(self, areas_wh: Boxes) -> Boxes:
        """Return the areas, made wider or taller until they have the shape of the input."""
        shape = self._network.size_wh[0] / self._network.size_wh[1]
        wide, tall = areas_wh.T
        is_wide = wide > tall * shape
        areas: Boxes = np.where(is_wide, [wide, wide / shape], [tall * shape, tall]).T
        return areas

    def _warps(self, middles: Boxes, areas_wh: Boxes) -> list[npt.NDArray[np.float64]]:
        """Return the maps from the picture to the input: the middle, above it, left of that."""
        width, height = self._network.size_wh
        across = areas_wh[:, 0] / 2
        corners = np.stack([middles, middles, middles], axis=1).astype(np.float32)
        corners[:, 1, 1] = middles[:, 1] - across
        corners[:, 2, 1] = corners[:, 1, 1]
        corners[:, 2, 0] = corners[:, 1, 0] - (corners[:, 0, 1] - corners[:, 1, 1])
        above = (height - width) / 2
        targets = np.array([[width / 2, height / 2], [width / 2, above], [0, above]], np.float32)
        return [np.asarray(cv2.getAffineTransform(each, targets)) for each in corners]

    def _decode(self, outputs: list[npt.NDArray[Any]]) -> tuple[Boxes, FloatArray]:
        """Return where each point is, as shares of the input, and scores; 0 for no point."""
        axes = [outputs[index] for index in self._outputs]
        cells = [axis.argmax(axis=2) for axis in axes]
        heights = [
            np.take_along_axis(axis, cell[..., None], axis=2)[..., 0].astype(np.float32)
            for axis, cell in zip(axes, cells, strict=True)
        ]
        # The comparison is false of NaN too.
        scores = 0.5 * (heights[0] + heights[1])
        scores = np.where(scores > 0, np.minimum(scores, 1), np.float32(0))
        shares = [cell / axis.shape[2] for cell, axis in zip(cells, axes, strict=True)]
        return np.stack(shares, axis=2), scores

    def _find_outputs(self) -> tuple[int, int]:
        """Return which output is along x and which along y."""
        names, shapes = self._network.output_names, self._network.output_shapes
        width, height = self._network.size_wh
        pairs = [(0, 1), (1, 0)] if len(names) == 2 else []
        if {*_NAMES} <= {*names}:
            pairs = [(names.index("simcc_x"), names.index("simcc_y"))]
        for x, y in pairs:
            along_x, along_y = shapes[x], shapes[y]
            is_simcc = len(along_x) == len(along_y) == 3 and along_x[:2] == along_y[:2]
            if is_simcc and along_x[2] * height == along_y[2] * width:
                return x, y
        raise self._network.refuse(
            Message(
                "a SimCC network's two outputs, (batch, points, places along x) and (batch, "
                "points, places along y) for a picture of {width} x {height}",
                width=width,
                height=height,
            )
        )
