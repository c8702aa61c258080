"""The small graph written as an ONNX model: channels first, any batch size, pictures as bytes in.

The model's input is `(batch, size, size, 3)` uint8 RGB; the scaling to the network's range is part
of the graph, so a crop goes in as it is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from posemill.weights.onnx_writer import INPUT_NAME, OnnxWriter, Sizes
from posemill.weights.tflite_graph import Graph, Node


class GraphWriter(OnnxWriter):
    """Collects ONNX nodes and constants while walking a `Graph`."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph


def _tensor(number: int) -> str:
    return f"t{number}"


def _conv(writer: GraphWriter, node: Node) -> None:
    weights = writer.graph.constants[node.inputs[1]]
    if node.op == "Depthwise":
        weights, group = weights.transpose(3, 0, 1, 2), weights.shape[3]
    else:
        weights, group = weights.transpose(0, 3, 1, 2), 1
    inputs = [_tensor(node.inputs[0]), writer.constant(weights)]
    if len(node.inputs) > 2:
        inputs.append(writer.constant(writer.graph.constants[node.inputs[2]]))
    writer.emit(
        "Conv",
        inputs,
        _tensor(node.outputs[0]),
        activation=node.options["activation"],
        group=group,
        kernel_shape=list(weights.shape[2:]),
        strides=list(node.options["strides"]),
        pads=list(node.options["pads"]),
    )


def _add(writer: GraphWriter, node: Node) -> None:
    names = [_tensor(number) for number in node.inputs]
    writer.emit("Add", names, _tensor(node.outputs[0]), activation=node.options["activation"])


def _prelu(writer: GraphWriter, node: Node) -> None:
    slope = writer.graph.constants[node.inputs[1]].reshape(-1, 1, 1)
    writer.emit(
        "PRelu", [_tensor(node.inputs[0]), writer.constant(slope)], _tensor(node.outputs[0])
    )


def _max_pool(writer: GraphWriter, node: Node) -> None:
    writer.emit(
        "MaxPool",
        [_tensor(node.inputs[0])],
        _tensor(node.outputs[0]),
        kernel_shape=list(node.options["kernel"]),
        strides=list(node.options["strides"]),
        pads=list(node.options["pads"]),
    )


def _pad(writer: GraphWriter, node: Node) -> None:
    # Rows batch, height, width, channel of (before, after) -> all befores, then all afters.
    pads = node.options["pads"][[0, 3, 1, 2]].T.reshape(-1).astype(np.int64)
    inputs = [_tensor(node.inputs[0]), writer.constant(pads)]
    writer.emit("Pad", inputs, _tensor(node.outputs[0]))


def _resize(writer: GraphWriter, node: Node) -> None:
    before = writer.graph.shapes[node.inputs[0]]
    after = writer.graph.shapes[node.outputs[0]]
    scales = np.array([1, 1, after[1] / before[1], after[2] / before[2]], np.float32)
    writer.emit(
        "Resize",
        [_tensor(node.inputs[0]), "", writer.constant(scales)],
        _tensor(node.outputs[0]),
        mode="linear",
        coordinate_transformation_mode="half_pixel",
    )


def _depth_to_space(writer: GraphWriter, node: Node) -> None:
    writer.emit(
        "DepthToSpace",
        [_tensor(node.inputs[0])],
        _tensor(node.outputs[0]),
        blocksize=node.options["block"],
        mode="DCR",
    )


def _reshape(writer: GraphWriter, node: Node) -> None:
    """Flatten pictures into rows; the batch, baked in as 1 by TFLite, is copied instead."""
    shape = writer.graph.shapes[node.outputs[0]]
    name = writer.emit("Transpose", [_tensor(node.inputs[0])], perm=[0, 2, 3, 1])
    rows = np.array([0, *shape[1:]], np.int64)
    writer.emit("Reshape", [name, writer.constant(rows)], _tensor(node.outputs[0]))


def _concat(writer: GraphWriter, node: Node) -> None:
    axis = node.options["axis"]
    if len(writer.graph.shapes[node.outputs[0]]) == 4:
        axis = (0, 2, 3, 1)[axis]
    names = [_tensor(number) for number in node.inputs]
    writer.emit("Concat", names, _tensor(node.outputs[0]), axis=axis)


def _first_channels(writer: GraphWriter, node: Node) -> None:
    count = writer.graph.shapes[node.outputs[0]][3]
    bounds = [writer.constant(np.array([value], np.int64)) for value in (0, count, 1)]
    writer.emit("Slice", [_tensor(node.inputs[0]), *bounds], _tensor(node.outputs[0]))


def _spatial_mean(writer: GraphWriter, node: Node) -> None:
    name = writer.emit("GlobalAveragePool", [_tensor(node.inputs[0])])
    writer.emit("Flatten", [name], _tensor(node.outputs[0]), axis=1)


def _dense(writer: GraphWriter, node: Node) -> None:
    constants = [writer.constant(writer.graph.constants[number]) for number in node.inputs[1:]]
    writer.emit("Gemm", [_tensor(node.inputs[0]), *constants], _tensor(node.outputs[0]), transB=1)


def _activation(writer: GraphWriter, node: Node) -> None:
    writer.activate(_tensor(node.inputs[0]), node.op, _tensor(node.outputs[0]))


def _elementwise(writer: GraphWriter, node: Node) -> None:
    writer.emit(node.op, [_tensor(node.inputs[0])], _tensor(node.outputs[0]))


_WRITERS: dict[str, Callable[[GraphWriter, Node], None]] = {
    "Add": _add,
    "Concat": _concat,
    "Conv": _conv,
    "Dense": _dense,
    "DepthToSpace": _depth_to_space,
    "Depthwise": _conv,
    "FirstChannels": _first_channels,
    "MaxPool": _max_pool,
    "PRelu": _prelu,
    "Pad": _pad,
    "Relu": _activation,
    "Relu6": _activation,
    "Reshape": _reshape,
    "Resize": _resize,
    "Sigmoid": _elementwise,
    "SpatialMean": _spatial_mean,
}


def export_onnx(graph: Graph, *, value_range: tuple[float, float] | None, name: str) -> bytes:
    """Return a serialised ONNX model.

    Args:
        graph: Rewritten or not; its only input is a picture.
        value_range: What the network expects black and white to be; None: its input are numbers.
        name: For people who open the file.
    """
    writer = GraphWriter(graph)
    _, height, width, channels = graph.shapes[graph.inputs[0]]
    pixels = INPUT_NAME
    if value_range is not None:
        low, high = value_range
        pixels = writer.pixels((high - low) / 255, low)
    writer.emit("Transpose", [pixels], _tensor(graph.inputs[0]), perm=[0, 3, 1, 2])
    for node in graph.nodes:
        _WRITERS[node.op](writer, node)
    outputs: dict[str, Sizes] = {}
    for output, number in graph.outputs.items():
        shape = graph.shapes[number]
        if len(shape) == 4 and shape[1:3] == (1, 1):
            writer.emit("Flatten", [_tensor(number)], output, axis=1)
            outputs[output] = ["batch", int(np.prod(shape[1:]))]
        else:
            # Maps keep channels first: the one map we read (heat maps) is used per channel.
            writer.emit("Identity", [_tensor(number)], output)
            order = (3, 1, 2) if len(shape) == 4 else range(1, len(shape))
            outputs[output] = ["batch", *(shape[axis] for axis in order)]
    inputs: dict[str, Sizes] = {INPUT_NAME: ["batch", height, width, channels]}
    return writer.model(name, inputs, outputs, is_bytes=value_range is not None)
