"""Small ONNX files with random weights, of the shapes that RTMPose's and YOLOX's have.

Tests and the benchmark against rtmlib make the same ones. Pictures go in as they do there; what
comes out means nothing, but is boxes and points that any change of a pixel moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper

from posemill.records import Frame

_STRIDES = (8, 16, 32)


class OnnxGraph:
    """Nodes and weights in the making; a value is known by its name."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._rng = np.random.default_rng(seed)

    def add(self, kind: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        """Return the name of the value that a new node gives."""
        name = to or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, values: Any, kind: Any = np.int64) -> str:
        """Return the name of a new constant."""
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(values, kind), name))
        return name

    def random(self, *shape: int, spread: float) -> str:
        """Return the name of new weights around 0."""
        return self.constant(self._rng.normal(0, spread, shape), np.float32)

    def convolve(
        self, value: str, into: int, out: int, *, side: int = 3, stride: int = 1, gain: float = 1.0
    ) -> str:
        """Return the value after a convolution."""
        weights = self.random(out, into, side, side, spread=gain / side / into**0.5)
        return self.add("Conv", value, weights, kernel_shape=[side, side], strides=[stride] * 2,
                        pads=[side // 2] * 4)  # fmt: skip

    def shrink(self, value: str, into: int, out: int) -> str:
        """Return the value at half the size: a convolution, cut off below 0."""
        return self.add("Relu", self.convolve(value, into, out, stride=2, gain=1.4))

    def write(self, path: Path, picture: Sequence[Any], outputs: Mapping[str, Any]) -> Path:
        """Write the file, and return where it is; an output's shape may be None."""
        numbers = TensorProto.FLOAT
        kinds = {"labels": TensorProto.INT64}
        graph = helper.make_graph(
            self.nodes, "random", [helper.make_tensor_value_info("input", numbers, picture)],
            [helper.make_tensor_value_info(name, kinds.get(name, numbers), shape)
             for name, shape in outputs.items()],
            self.weights,
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        path.write_bytes(model.SerializeToString())
        return path


def write_fixed(
    path: Path, outputs: dict[str, npt.NDArray[Any]], picture: Sequence[Any] = (1, 3, 64, 64)
) -> Path:
    """Write a network that says the same of every picture."""
    graph = OnnxGraph(0)
    for name, values in outputs.items():
        graph.add("Constant", to=name, value=numpy_helper.from_array(values))
    return graph.write(path, picture, {name: values.shape for name, values in outputs.items()})


def write_pose(
    path: Path,
    num_points: int = 133,
    *,
    size_wh: tuple[int, int] = (48, 64),
    batch: int | str = "batch",
    width: int = 8,
    layers: int = 0,
    seed: int = 0,
) -> Path:
    """Write a SimCC network: two bins a pixel along x and along y.

    Args:
        path: Where.
        num_points: Of a person.
        size_wh: Of the picture; multiples of 16.
        batch: 1, or the name of an open axis.
        width: Channels.
        layers: More convolutions at a quarter of the size, for something to compute.
        seed: Of the weights.
    """
    graph = OnnxGraph(seed)
    value = graph.shrink(graph.shrink("input", 3, width), width, width)
    for _ in range(layers):
        value = graph.add("Relu", graph.convolve(value, width, width, gain=1.4))
    value = graph.shrink(graph.shrink(value, width, width), width, width)
    value = graph.convolve(value, width, num_points, side=7)
    value = graph.add("Reshape", value, graph.constant([0, num_points, -1]))
    cells = size_wh[0] // 16 * (size_wh[1] // 16)
    outputs: dict[str, Sequence[Any]] = {}
    # The first point is never there, the second's score would be above 1.
    bias = graph.constant([[-3.0], [1.0], *[[0.1]] * (num_points - 2)], np.float32)
    for name, side in zip(("simcc_x", "simcc_y"), size_wh, strict=True):
        bins = graph.add("MatMul", value, graph.random(cells, 2 * side, spread=0.3 / cells**0.5))
        graph.add("Add", bins, bias, to=name)
        outputs[name] = [batch, num_points, 2 * side]
    return graph.write(path, [batch, 3, size_wh[1], size_wh[0]], outputs)


def write_one_stage(
    path: Path,
    kind: str = "rtmo",
    *,
    size_wh: tuple[int, int] = (128, 96),
    num_points: int = 17,
    cells: int = 40,
    seed: int = 1,
) -> Path:
    """Write a network that says boxes and points of people: RTMO, or YOLO-pose without NMS.

    Args:
        path: Where.
        kind: `rtmo` or `yolo`.
        size_wh: Of the picture; multiples of 8.
        num_points: Of a person.
        cells: People it speaks of.
        seed: Of the weights.
    """
    graph = OnnxGraph(seed)
    width, height = size_wh
    value = graph.shrink(graph.shrink(graph.shrink("input", 3, 8), 8, 8), 8, 8)
    value = graph.add("Reshape", value, graph.constant([0, 1, -1]))
    num_values = width * height // 8
    # YOLO's numbers are 255 times smaller at the input.
    spread = 0.003 if kind == "rtmo" else 0.75
    rng = np.random.default_rng(seed)
    low, high = rng.uniform(0, 0.35, (cells, 2)), rng.uniform(0.65, 1, (cells, 2))
    if kind == "yolo":
        low, high = (low + high) / 2, high - low
    sides = np.array([width, height])
    middles = np.concatenate([low * sides, high * sides, rng.uniform(0.3, 1, (cells, 1))], axis=1)
    boxes = graph.add("MatMul", value, graph.random(num_values, cells * 5, spread=spread))
    boxes = graph.add("Tanh", graph.add("Reshape", boxes, graph.constant([0, cells, 5])))
    reach = graph.constant([0.1 * width, 0.1 * height, 0.1 * width, 0.1 * height, 1], np.float32)
    boxes = graph.add("Mul", boxes, reach)
    boxes = graph.add("Add", boxes, graph.constant(middles, np.float32), to="dets")
    shape = graph.constant([0, cells, num_points, 3])
    weights = graph.random(num_values, cells * num_points * 3, spread=spread)
    points = graph.add("Sigmoid", graph.add("Reshape", graph.add("MatMul", value, weights), shape))
    sides_of_points = graph.constant([width, height, 1], np.float32)
    points = graph.add("Mul", points, sides_of_points, to="keypoints")
    picture = ["batch", 3, height, width]
    if kind == "rtmo":
        outputs: dict[str, Sequence[Any]] = {
            "dets": ["batch", cells, 5],
            "keypoints": ["batch", cells, num_points, 3],
        }
        return graph.write(path, picture, outputs)
    flat = graph.add("Reshape", points, graph.constant([0, cells, 3 * num_points]))
    rows = graph.add("Concat", boxes, flat, axis=2)
    graph.add("Transpose", rows, perm=[0, 2, 1], to="output0")
    return graph.write(path, picture, {"output0": ["batch", 5 + 3 * num_points, cells]})


def write_detector(
    path: Path,
    kind: str = "yolox",
    *,
    has_nms: bool = False,
    classes: int = 1,
    size_wh: tuple[int, int] = (128, 96),
    batch: int | str = 1,
    is_open: bool = False,
    width: int = 8,
    layers: int = 0,
    seed: int = 1,
) -> Path:
    """Write a detector that finds some boxes in the pictures of `make_pictures`.

    Args:
        path: Where.
        kind: `yolox`: four neighbouring pixels are laid on each other first; or `rtmdet`.
        has_nms: Boxes, scores and labels come out, and not what each cell says.
        classes: Things it knows; it finds the first only, people.
        size_wh: Of the picture; multiples of 32.
        batch: 1, or the name of an open axis.
        is_open: The file does not say the size of the picture.
        width: Channels.
        layers: More convolutions at an eighth of the size, for something to compute.
        seed: Of the weights.
    """
    graph = OnnxGraph(seed)
    if kind == "yolox":
        # Bytes come in as they are.
        value = graph.add("Mul", _focus(graph), graph.constant(1 / 128, np.float32))
        value = graph.add("Sub", value, graph.constant(1, np.float32))
        value = graph.add("Relu", graph.convolve(value, 12, width, gain=1.4))
    else:
        value = graph.shrink("input", 3, width)
    value = graph.shrink(graph.shrink(value, width, width), width, width)
    for _ in range(layers):
        value = graph.add("Relu", graph.convolve(value, width, width, gain=1.4))
    parts = []
    for number, _stride in enumerate(_STRIDES):
        value = graph.shrink(value, width, width) if number else value
        parts.append(_head(graph, value, width, classes))
    width_, height = size_wh
    num_cells = sum((height // stride) * (width_ // stride) for stride in _STRIDES)
    picture = [batch, 3, "height", "width"] if is_open else [batch, 3, height, width_]
    if not has_nms:
        graph.add("Concat", *parts, to="output", axis=1)
        cells = "cells" if is_open else num_cells
        return graph.write(path, picture, {"output": [batch, cells, 5 + classes]})
    _choose(graph, graph.add("Concat", *parts, axis=1), size_wh, classes)
    return graph.write(path, picture, {"dets": [batch, "boxes", 5], "labels": [batch, "boxes"]})


def _focus(graph: OnnxGraph) -> str:
    parts = []
    ends, axes = graph.constant([2**31, 2**31]), graph.constant([2, 3])
    for starts in ([0, 0], [1, 0], [0, 1], [1, 1]):
        begin, step = graph.constant(starts), graph.constant([2, 2])
        parts.append(graph.add("Slice", "input", begin, ends, axes, step))
    return graph.add("Concat", *parts, axis=1)


def _head(graph: OnnxGraph, value: str, width: int, classes: int) -> str:
    """Return `(batch, cells, 5 + classes)`: x, y, log of width and height, scores."""
    boxes = graph.convolve(value, width, 4, side=1, gain=0.3)
    # Boxes of some cells' size, higher than wide.
    boxes = graph.add(
        "Add", boxes, graph.constant([[[0.5]], [[0.5]], [[0.7]], [[1.4]]], np.float32)
    )
    sure = graph.convolve(value, width, 1 + classes, side=1, gain=6.0)
    bias = [[[-4.0]], [[6.0]], *[[[-60.0]]] * (classes - 1)]
    sure = graph.add("Sigmoid", graph.add("Add", sure, graph.constant(bias, np.float32)))
    both = graph.add("Concat", boxes, sure, axis=1)
    flat = graph.add("Reshape", both, graph.constant([0, 5 + classes, -1]))
    return graph.add("Transpose", flat, perm=[0, 2, 1])


def _choose(graph: OnnxGraph, rows: str, size_wh: tuple[int, int], classes: int) -> None:
    """Add what makes `dets` and `labels` of one picture."""
    cells, strides = [], []
    for stride in _STRIDES:
        down, across = np.mgrid[: size_wh[1] // stride, : size_wh[0] // stride].reshape(2, -1)
        cells.append(np.stack([across, down], axis=1))
        strides.append(np.full((len(down), 1), stride))
    stride_of = graph.constant(np.concatenate(strides)[None], np.float32)
    middle, size, sure, people = (
        graph.add("Slice", rows, graph.constant([start]), graph.constant([stop]),
                  graph.constant([2]))
        for start, stop in ((0, 2), (2, 4), (4, 5), (5, 5 + classes))
    )  # fmt: skip
    grid = graph.constant(np.concatenate(cells)[None], np.float32)
    middle = graph.add("Mul", graph.add("Add", middle, grid), stride_of)
    half = graph.add("Mul", graph.add("Mul", graph.add("Exp", size), stride_of),
                     graph.constant(0.5, np.float32))  # fmt: skip
    low, high = graph.add("Sub", middle, half), graph.add("Add", middle, half)
    boxes = graph.add("Concat", low, high, axis=2)  # (1, cells, 4)
    scores = graph.add("Mul", sure, people)
    by_class = graph.add("Transpose", scores, perm=[0, 2, 1])
    chosen = graph.add("NonMaxSuppression", boxes, by_class, graph.constant([100]),
                       graph.constant([0.45], np.float32),
                       graph.constant([0.05], np.float32))  # fmt: skip
    one = graph.constant([1])
    which, label = (
        graph.add("Slice", chosen, graph.constant([column]), graph.constant([column + 1]), one)
        for column in (2, 1)
    )
    nobody = graph.constant([0])
    flat_boxes = graph.add("Squeeze", boxes, nobody)
    kept = graph.add("Gather", flat_boxes, graph.add("Squeeze", which, one), axis=0)
    where = graph.add("Concat", which, label, axis=1)
    score = graph.add("GatherND", graph.add("Squeeze", scores, nobody), where)
    dets = graph.add("Concat", kept, graph.add("Unsqueeze", score, one), axis=1)
    graph.add("Unsqueeze", dets, nobody, to="dets")
    graph.add("Transpose", label, to="labels", perm=[1, 0])


def make_pictures(sizes_wh: Sequence[tuple[int, int]], seed: int = 0) -> list[Frame]:
    """Return pictures of soft coloured spots."""
    rng = np.random.default_rng(seed)
    pictures = []
    for width, height in sizes_wh:
        coarse = rng.integers(0, 256, (max(height // 24, 2), max(width // 24, 2), 3), np.uint8)
        smooth: npt.NDArray[Any] = cv2.resize(
            coarse, (width, height), interpolation=cv2.INTER_CUBIC
        )
        pictures.append(np.asarray(smooth, np.uint8))
    return pictures
