"""TensorFlow graphs turned into ONNX, whatever file they were read from.

Only the operators that our networks use are known. The ONNX model keeps every map with channels
first; where TensorFlow has another order the two are told apart by `Value.axes`, so that no
operator that only reorders is left in the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.errors import WeightsError
from posemill.weights.onnx_writer import INPUT_NAME, OnnxWriter, Sizes

Array = npt.NDArray[Any]
CHANNELS_FIRST, CHANNELS_LAST = (0, 1, 2, 3), (0, 2, 3, 1)


@dataclass(frozen=True)
class TensorFlowNode:
    """One operator: its inputs by name, its attributes as plain values."""

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TensorFlowGraph:
    """The nodes of a file, each after those it reads, and the values of its constants."""

    path: Path
    nodes: list[TensorFlowNode]
    constants: dict[str, Array]


@dataclass(frozen=True)
class Picture:
    """What the network takes: `(batch, size, size, 3)` bytes.

    Args:
        size: Side in pixels.
        factor: Of every channel; a byte becomes `factor * byte + offset`.
        offset: Of every channel.
    """

    size: int
    factor: tuple[float, float, float] = (1.0, 1.0, 1.0)
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Value:
    """A tensor of the ONNX model: TensorFlow's is the same with its axes in the order `axes`.

    `pads` (top, left, bottom, right) are still to be put around it, by the window that reads it.
    """

    name: str
    axes: tuple[int, ...] = CHANNELS_LAST
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    pad_value: float = 0.0


def export_graph(
    graph: TensorFlowGraph,
    *,
    start: Value,
    outputs: Sequence[str],
    picture: Picture | None = None,
) -> bytes:
    """Return the ONNX model of a part of a graph: maps of any batch size, channels first.

    Args:
        graph: What was read.
        start: The node where the part begins, and the order of its axes.
        outputs: The nodes where it ends.
        picture: What the model takes; None: numbers `(batch, 3, height, width)` of any size.
    """
    writer = _GraphWriter(graph)
    if picture is None:
        inputs: dict[str, Sizes] = {start.name: ["batch", 3, "height", "width"]}
    else:
        inputs = {INPUT_NAME: ["batch", picture.size, picture.size, 3]}
        pixels = writer.pixels(picture.factor, picture.offset)
        writer.emit("Transpose", [pixels], start.name, perm=[0, 3, 1, 2])
    writer.values[start.name] = start
    needed = _nodes_between(graph, start.name, outputs)
    for node in graph.nodes:
        if node.name in needed:
            if node.op not in _OPERATORS:
                raise writer.unknown(node)
            writer.values[node.name] = _OPERATORS[node.op](writer, node)
    for output in outputs:
        writer.emit("Identity", [writer.read(output).name], output)
    maps = {
        output: ["batch", f"channels{i}", f"rows{i}", f"columns{i}"]
        for i, output in enumerate(outputs)
    }
    return writer.model(graph.path.stem, inputs, maps, is_bytes=picture is not None)


def _nodes_between(graph: TensorFlowGraph, start: str, outputs: Sequence[str]) -> set[str]:
    """Return the names of the nodes that the outputs need, but for constants and `start`."""
    nodes = {node.name: node for node in graph.nodes}
    needed: set[str] = set()
    waiting = list(outputs)
    while waiting:
        name = waiting.pop().partition(":")[0]
        if name == start or name in graph.constants or name in needed:
            continue
        if name not in nodes:
            raise WeightsError("{path}: there is no node {name}", path=graph.path, name=name)
        needed.add(name)
        waiting += nodes[name].inputs
    return needed


class _GraphWriter(OnnxWriter):
    """Writes the operators of one graph."""

    def __init__(self, graph: TensorFlowGraph) -> None:
        super().__init__()
        self.graph = graph
        self.values: dict[str, Value] = {}

    def unknown(self, node: TensorFlowNode, reason: str = "") -> WeightsError:
        """Return the error that names an operator we do not convert."""
        return WeightsError(
            "{path}: operator {op} at {name} is not one this converter knows{reason}",
            path=self.graph.path,
            op=node.op,
            name=node.name,
            reason=reason and f" ({reason})",
        )

    def read(self, name: str) -> Value:
        """Return the tensor of that name."""
        if name not in self.values:
            raise WeightsError(
                "{path}: {name} is read before it is computed", path=self.graph.path, name=name
            )
        return self.values[name]

    def read_plain(self, node: TensorFlowNode, place: int = 0) -> Value:
        """Return an input that nothing has to be put around."""
        value = self.read(node.inputs[place])
        if any(value.pads):
            raise self.unknown(node, "after padding that no window does")
        return value

    def constant_of(self, node: TensorFlowNode, place: int) -> Array:
        """Return an input that must be a constant."""
        if node.inputs[place] not in self.graph.constants:
            raise self.unknown(node, f"expected {node.inputs[place]} to be a constant")
        return self.graph.constants[node.inputs[place]]


def _conv(writer: _GraphWriter, node: TensorFlowNode) -> Value:
    weights = writer.constant_of(node, 1)  # height, width, channels in, out or per channel
    is_deep = "Depthwise" in node.op
    if is_deep and weights.shape[3] != 1:
        raise writer.unknown(node, "more than one output for a channel")
    kernel = weights.transpose((2, 3, 0, 1) if is_deep else (3, 2, 0, 1))
    source, window = _window(writer, node, weights.shape[:2])
    inputs = [source, writer.constant(kernel.astype(np.float32))]
    fused = node.attributes.get("fused_ops", [])
    if fused[:1] == ["BiasAdd"]:
        inputs.append(writer.constant(writer.constant_of(node, 2).astype(np.float32)))
    if fused[:1] not in ([], ["BiasAdd"]) or fused[1:] not in ([], ["Relu"], ["Relu6"]):
        raise writer.unknown(node, f"fused with {', '.join(fused)}")
    group, activation = weights.shape[2] if is_deep else 1, "".join(fused[1:])
    return Value(writer.emit("Conv", inputs, activation=activation, group=group, **window))


def _max_pool(writer: _GraphWriter, node: TensorFlowNode) -> Value:
    source, window = _window(writer, node, node.attributes["ksize"][1:3], pad_value=-np.inf)
    return Value(writer.emit("MaxPool", [source], **window))


def _window(
    writer: _GraphWriter, node: TensorFlowNode, sides: Sequence[int], pad_value: float = 0.0
) -> tuple[str, dict[str, Any]]:
    """Return what a window slides over, and its attributes in ONNX."""
    value, attributes = writer.read(node.inputs[0]), node.attributes
    if attributes.get("data_format", "NHWC") != "NHWC" or value.axes != CHANNELS_LAST:
        raise writer.unknown(node, "channels that are not last")
    if any(step != 1 for step in attributes.get("dilations", [])):
        raise writer.unknown(node, "dilated")
    window = {"kernel_shape": list(sides), "strides": attributes["strides"][1:3]}
    if any(value.pads):
        if attributes["padding"] != "VALID" or value.pad_value != pad_value:
            raise writer.unknown(node, "after padding of another kind")
        return value.name, {**window, "pads": list(value.pads)}
    if attributes["padding"] not in ("SAME", "VALID"):
        raise writer.unknown(node, f"padding {attributes['padding']}")
    is_same = attributes["padding"] == "SAME"
    return value.name, {**window, "auto_pad": "SAME_UPPER" if is_same else "VALID"}


def _pad(writer: _GraphWriter, node: TensorFlowNode) -> Value:
    value = writer.read_plain(node)
    around = np.zeros((4, 2), np.int64)
    around[list(value.axes)] = writer.constant_of(node, 1)  # batch, channel, height, width
    if around[:2].any():
        raise writer.unknown(node, "of the batch or of channels")
    (top, bottom), (left, right) = around[2:].tolist()
    pad_value = float(writer.constant_of(node, 2)) if node.op == "PadV2" else 0.0
    return replace(value, pads=(top, left, bottom, right), pad_value=pad_value)


def _elementwise(op: str) -> Callable[[_GraphWriter, TensorFlowNode], Value]:
    def write(writer: _GraphWriter, node: TensorFlowNode) -> Value:
        places = [i for i, name in enumerate(node.inputs) if name not in writer.graph.constants]
        values = {place: writer.read_plain(node, place) for place in places}
        axes = values[places[0]].axes
        if any(value.axes != axes for value in values.values()):
            raise writer.unknown(node, "of tensors in different order")
        names = [
            values[place].name
            if place in values
            else writer.constant(_as_stored(writer.constant_of(node, place), axes))
            for place in range(len(node.inputs))
        ]
        return Value(writer.emit(op, names), axes)

    return write


def _as_stored(value: Array, axes: tuple[int, ...]) -> Array:
    """Return a constant that TensorFlow stretches over a tensor, its axes in the order of ONNX."""
    whole = value.reshape((1,) * (len(axes) - value.ndim) + value.shape)
    stored: Array = whole.transpose(np.argsort(axes)).astype(np.float32)
    return stored


def _leaky_relu(writer: _GraphWriter, node: TensorFlowNode) -> Value:
    value = writer.read_plain(node)
    name = writer.emit("LeakyRelu", [value.name], alpha=node.attributes["alpha"])
    return Value(name, value.axes)


def _transpose(writer: _GraphWriter, node: TensorFlowNode) -> Value:
    value = writer.read(node.inputs[0])
    order = writer.constant_of(node, 1).tolist()
    return replace(value, axes=tuple(value.axes[axis] for axis in order))


def _concat(writer: _GraphWriter, node: TensorFlowNode) -> Value:
    values = [writer.read_plain(node, place) for place in range(len(node.inputs) - 1)]
    axes = values[0].axes
    if any(value.axes != axes for value in values):
        raise writer.unknown(node, "of tensors in different order")
    axis = axes[int(writer.constant_of(node, -1).item())]
    return Value(writer.emit("Concat", [value.name for value in values], axis=axis), axes)


def _resize(writer: _GraphWriter, node: TensorFlowNode) -> Value:
    value, attributes = writer.read_plain(node), node.attributes
    if attributes.get("align_corners") or not attributes.get("half_pixel_centers"):
        raise writer.unknown(node, "not by the centres of pixels")
    if value.axes != CHANNELS_LAST:
        raise writer.unknown(node, "channels that are not last")
    height, width = writer.constant_of(node, 1).tolist()
    # ONNX wants the sizes of batch and channels too: those it has.
    shape = writer.emit("Shape", [value.name], end=2)
    sizes = writer.emit("Concat", [shape, writer.constant(np.array([height, width]))], axis=0)
    name = writer.emit(
        "Resize",
        [value.name, "", "", sizes],
        mode="linear",
        coordinate_transformation_mode="half_pixel",
    )
    return Value(name)


def _identity(writer: _GraphWriter, node: TensorFlowNode) -> Value:
    return writer.read(node.inputs[0])


_OPERATORS: dict[str, Callable[[_GraphWriter, TensorFlowNode], Value]] = {
    **dict.fromkeys(("Conv2D", "DepthwiseConv2dNative", "_FusedConv2D",
                     "FusedDepthwiseConv2dNative"), _conv),
    **dict.fromkeys(("Add", "AddV2", "BiasAdd"), _elementwise("Add")),
    "ConcatV2": _concat,
    "Identity": _identity,
    "LeakyRelu": _leaky_relu,
    "MaxPool": _max_pool,
    "Mul": _elementwise("Mul"),
    **dict.fromkeys(("Pad", "PadV2"), _pad),
    "Relu": _elementwise("Relu"),
    "ResizeBilinear": _resize,
    "Sigmoid": _elementwise("Sigmoid"),
    "Sub": _elementwise("Sub"),
    "Transpose": _transpose,
}  # fmt: skip
