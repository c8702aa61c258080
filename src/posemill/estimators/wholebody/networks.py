"""A user's ONNX or TFLite file that takes pictures: opened, checked, and tried once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from posemill.errors import ConfigError, WeightsError
from posemill.estimators.runtimes.sessions import (
    NetworkRunError,
    Session,
    TensorInfo,
    choose_session_runtime,
    open_session,
)
from posemill.files import sha256_of
from posemill.messages import Message
from posemill.records import FloatArray, Frame

OPEN_SIDE = 640  # of what finds people, where neither its file nor the user says
_GREY = 114  # what pictures are padded with
_TYPES = (np.float32, np.float16)


def open_file(path: str, option: str, *, runtime: str, device: str, threads: int) -> Session:
    """Return the network in a file.

    Args:
        path: The file: .onnx or .tflite.
        option: The option that named it, for messages.
        runtime: `auto`, `onnxruntime` or `openvino`.
        device: `cpu`, `cuda:N` or `tensorrt:N`.
        threads: Inside one call.
    """
    if not Path(path).is_file():
        raise ConfigError(
            "{option}: there is no file {path}; expected the path of an .onnx or a .tflite",
            option=option,
            path=path,
        )
    used = choose_session_runtime(runtime, device, path)
    return open_session(path, path, runtime=used, device=device, threads=threads)


def pixel_tables(means: Sequence[float] = (0, 0, 0), stds: Sequence[float] = (1, 1, 1)) -> Any:
    """Return `(3, 1, 256)`: what each byte becomes in each channel, rounded once to float32."""
    channels = zip(means, stds, strict=True)
    return np.array([[(np.arange(256) - mean) / std] for mean, std in channels], np.float32)


class PictureNetwork:
    """A file that takes pictures, channels first or last. `size_wh` is what it sees of them.

    Args:
        session: The network, as `open_file` gives it.
        path: The file.
        option: The option that named it, for messages.
        tables: What bytes become, see `pixel_tables`, in the order of the network's channels.
        colours: The order of its channels: `rgb` or `bgr`.
        batch: Most pictures in one call; 1 where the file takes one only.
        open_side: Width and height where the file leaves them open; None: it must not.
    """

    def __init__(
        self,
        session: Session,
        path: str,
        option: str,
        *,
        tables: FloatArray,
        colours: str,
        batch: int,
        open_side: int | None = None,
    ) -> None:
        self.path, self.option = Path(path), option
        self._session = session
        self._input = self._check_input(open_side)
        self.output_names = [each.name for each in session.outputs]
        self.tables, self._order = tables, (0, 1, 2) if colours == "rgb" else (2, 1, 0)
        width, height = self.size_wh
        self.batch = batch if self._takes_many(batch) else 1
        self._pictures = np.zeros((self.batch, 3, height, width), np.float32)
        self.output_shapes = [each.shape for each in self.run(self.batch)]
        if any(shape[:1] != (self.batch,) for shape in self.output_shapes):
            # Exported for one picture, whatever its input says.
            self.batch = 1
            self.output_shapes = [each.shape for each in self.run(1)]

    @property
    def sha256(self) -> str:
        """Which file it is."""
        return sha256_of(self.path)

    def refuse(self, expected: str) -> ConfigError:
        """Return the error for a file with other outputs than expected."""
        outputs = zip(self.output_names, self.output_shapes, strict=True)
        got = ", ".join(f"{name} {shape}" for name, shape in outputs)
        return ConfigError(
            "{option} {path}: expected {expected}, got {got}",
            option=self.option,
            path=self.path,
            expected=expected,
            got=got,
        )

    def put(self, place: int, picture: Frame) -> None:
        """Lay an RGB picture of the network's size at a place of the next call."""
        for channel, plane in zip(self._order, cv2.split(picture), strict=True):
            cv2.LUT(plane, self.tables[channel], dst=self._pictures[place, channel])

    def look_at(
        self, frames: Sequence[Frame], *, is_centred: bool = False
    ) -> Iterator[tuple[float, FloatArray, list[npt.NDArray[Any]]]]:
        """Yield the outputs for each whole RGB frame: its scale, its upper left corner, and they.

        Args:
            frames: Of any sizes; grey lies beside them.
            is_centred: Whether they lie in the middle, as YOLO-pose wants them, or in the corner.
        """
        for start in range(0, len(frames), self.batch):
            part = frames[start : start + self.batch]
            placed = [self._put_whole(place, frame, is_centred) for place, frame in enumerate(part)]
            outputs = self.run(len(part))
            for row, (scale, corner) in enumerate(placed):
                yield scale, corner, [output[row] for output in outputs]

    def _put_whole(self, place: int, frame: Frame, is_centred: bool) -> tuple[float, FloatArray]:
        (height, width), (canvas_width, canvas_height) = frame.shape[:2], self.size_wh
        scale = float(min(canvas_height / height, canvas_width / width))
        to_whole = round if is_centred else int
        size = max(to_whole(width * scale), 1), max(to_whole(height * scale), 1)
        left = round((canvas_width - size[0]) / 2 - 0.1) if is_centred else 0
        top = round((canvas_height - size[1]) / 2 - 0.1) if is_centred else 0
        canvas = np.full((canvas_height, canvas_width, 3), _GREY, np.uint8)
        canvas[top : top + size[1], left : left + size[0]] = cv2.resize(frame, size)
        self.put(place, canvas)
        return scale, np.array([left, top], np.float32)

    def run(self, count: int) -> list[npt.NDArray[Any]]:
        """Return the outputs for the pictures at the first `count` places."""
        pictures = self._pictures[:count].astype(self._input.dtype, copy=False)
        if self._is_last:
            pictures = np.ascontiguousarray(pictures.transpose(0, 2, 3, 1))
        try:
            return self._session.run(pictures)
        except NetworkRunError as error:
            remedy = Message("; try {--engine-option:batch=1}") if count > 1 else ""
            raise WeightsError(
                "{option} {path} cannot be run on {pictures_shape}: {reason}{remedy}",
                option=self.option,
                path=self.path,
                pictures_shape=pictures.shape,
                reason=error,
                remedy=remedy,
            ) from error

    def _takes_many(self, batch: int) -> bool:
        size = self._input.shape[0]
        if isinstance(size, int) and size > 1:
            raise ConfigError(
                "{option} {path}: it takes {size} pictures at a time; expected a file that takes "
                "one, or any number",
                option=self.option,
                path=self.path,
                size=size,
            )
        return batch > 1 and not isinstance(size, int)

    def _check_input(self, open_side: int | None) -> TensorInfo:
        inputs = self._session.inputs
        first = inputs[0]
        shape = first.shape if len(first.shape) == 4 else (0, 0, 0, 0)
        self._is_last = shape[3] == 3 and shape[1] != 3
        is_picture = self._is_last or shape[1] in (3, None)
        if len(inputs) != 1 or not is_picture or first.dtype not in _TYPES:
            got = ", ".join(map(str, inputs))
            raise ConfigError(
                "{option} {path}: expected one picture as input, (batch, 3, height, width) or "
                "(batch, height, width, 3) of float, got {got}",
                option=self.option,
                path=self.path,
                got=got,
            )
        sides = shape[1:3] if self._is_last else shape[2:]
        height, width = (open_side if size is None else size for size in sides)
        if height is None or width is None:
            raise ConfigError(
                "{option} {path}: it leaves the size of its picture open ({input}); export it "
                "with a fixed one",
                option=self.option,
                path=self.path,
                input=first,
            )
        self.size_wh = width, height
        return first
