"""A TFLite file as a small graph of plain numpy constants and nodes, ready to be rewritten.

Only what the Holistic models use is read; anything else is an error that names the operator.
Half-precision and sparse weights are made dense float32 here, so later stages never see them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.errors import WeightsError
from posemill.weights.tflite_prune import needed_operators, tensors_named

Array = npt.NDArray[Any]


@dataclass
class Node:
    """One operator. Tensors are numbers; constants among the inputs are in `Graph.constants`."""

    op: str
    inputs: list[int]
    outputs: list[int]
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Graph:
    """Nodes in order of execution, on tensors in TFLite's layout: batch, height, width, channel."""

    nodes: list[Node]
    constants: dict[int, Array]
    shapes: dict[int, tuple[int, ...]]
    inputs: list[int]
    outputs: dict[str, int]

    def new_tensor(self, shape: tuple[int, ...], value: Array | None = None) -> int:
        """Return the number of a tensor that did not exist before; a constant if it has a value."""
        number = max(self.shapes) + 1
        self.shapes[number] = shape
        if value is not None:
            self.constants[number] = value
        return number

    def producer(self, tensor: int) -> Node | None:
        """Return the node that makes a tensor; None for inputs and constants."""
        return next((node for node in self.nodes if tensor in node.outputs), None)

    def consumers(self, tensor: int) -> list[Node]:
        """Return the nodes that read a tensor."""
        return [node for node in self.nodes if tensor in node.inputs]


Reader = Callable[[Graph, Any, list[int], list[int]], Node]
_ACTIVATIONS = {0: "", 1: "Relu", 3: "Relu6"}
_DTYPES = {0: np.float32, 1: np.float16, 2: np.int32}


def read_graph(
    path: Path, outputs: Sequence[str] | None = None, *, start: str | None = None
) -> Graph:
    """Return the graph of a TFLite file, or a piece of it.

    Args:
        path: The file.
        outputs: Names of the tensors to compute; None: all outputs of the file.
        start: The name of the tensor to begin with; None: the file's input.
    """
    import tflite

    model = tflite.Model.GetRootAs(path.read_bytes(), 0)
    subgraph = model.Subgraphs(0)
    tensors = [subgraph.Tensors(index) for index in range(subgraph.TensorsLength())]
    ends = [int(index) for index in subgraph.OutputsAsNumpy()]
    if outputs is not None:
        ends = tensors_named(subgraph, outputs)
    inputs = [int(index) for index in subgraph.InputsAsNumpy()]
    if start is not None:
        inputs = tensors_named(subgraph, [start])
    operators = [subgraph.Operators(i) for i in needed_operators(subgraph, ends, inputs[0])]
    used = {int(i) for operator in operators for i in operator.InputsAsNumpy() if i >= 0}
    graph = Graph(
        nodes=[],
        constants=_read_constants(model, {index: tensors[index] for index in used}),
        shapes={index: _shape_of(tensor) for index, tensor in enumerate(tensors)},
        inputs=inputs,
        outputs={tensors[end].Name().decode(): end for end in ends},
    )
    for operator in operators:
        code = model.OperatorCodes(operator.OpcodeIndex())
        name = tflite.opcode2name(max(code.BuiltinCode(), code.DeprecatedBuiltinCode()))
        sources = [int(i) for i in operator.InputsAsNumpy()]
        results = [int(i) for i in operator.OutputsAsNumpy()]
        if name in ("DEQUANTIZE", "DENSIFY"):
            graph.constants[results[0]] = graph.constants[sources[0]]
        elif name in _READERS:
            graph.nodes.append(_READERS[name](graph, operator, sources, results))
        else:
            raise WeightsError(
                "{name}: operator {name_2} is not one this converter knows",
                name=path.name,
                name_2=name,
            )
    return graph


def _shape_of(tensor: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in tensor.ShapeAsNumpy()) if tensor.ShapeLength() else ()


def _read_constants(model: Any, tensors: dict[int, Any]) -> dict[int, Array]:
    constants = {}
    for index, tensor in tensors.items():
        buffer = model.Buffers(tensor.Buffer())
        if not buffer.DataLength():
            continue
        values = buffer.DataAsNumpy().view(_DTYPES[tensor.Type()])
        if tensor.Sparsity() is not None:
            values = _densify(values, tensor.Sparsity(), _shape_of(tensor))
        if values.dtype == np.float16:
            values = values.astype(np.float32)
        constants[index] = values.reshape(_shape_of(tensor))
    return constants


def _densify(values: Array, sparsity: Any, shape: tuple[int, ...]) -> Array:
    """Return the dense array of a sparse one.

    The dimensions (and those of blocks inside them) are stored in the order `traversal`; each is
    dense (a size) or compressed (segments and indices). Walked level by level, every level turns a
    list of positions into the list of their children, until each has one value.
    """
    traversal = sparsity.TraversalOrderAsNumpy()
    block_map = sparsity.BlockMapAsNumpy() if sparsity.BlockMapLength() else np.zeros(0, int)
    sizes = []
    positions = np.zeros((1, 0), np.int64)
    for level in range(len(traversal)):
        metadata = sparsity.DimMetadata(level)
        if metadata.Format() == 0:
            sizes.append(metadata.DenseSize())
            children = np.arange(metadata.DenseSize())
            positions = np.hstack(
                [positions.repeat(len(children), 0), np.tile(children, len(positions))[:, None]]
            )
        else:
            segments = _int_vector(metadata.ArraySegmentsType(), metadata.ArraySegments())
            indices = _int_vector(metadata.ArrayIndicesType(), metadata.ArrayIndices())
            sizes.append(0)
            positions = np.hstack([positions.repeat(np.diff(segments), 0), indices[:, None]])
    coordinates = np.zeros((len(positions), len(shape)), np.int64)
    blocks = {
        len(shape) + i: (int(dim), sizes[list(traversal).index(len(shape) + i)])
        for i, dim in enumerate(block_map)
    }
    for column, dimension in enumerate(traversal):
        if dimension < len(shape):
            block = next((size for dim, size in blocks.values() if dim == dimension), 1)
            coordinates[:, dimension] += positions[:, column] * block
        else:
            coordinates[:, blocks[int(dimension)][0]] += positions[:, column]
    dense = np.zeros(shape, values.dtype)
    dense[tuple(coordinates.T)] = values
    return dense


def _int_vector(kind: int, table: Any) -> npt.NDArray[np.int64]:
    import tflite

    readers = {1: tflite.Int32Vector, 2: tflite.Uint16Vector, 3: tflite.Uint8Vector}
    vector = readers[kind]()
    vector.Init(table.Bytes, table.Pos)
    return np.asarray(vector.ValuesAsNumpy(), np.int64)


def _options(operator: Any, kind: str) -> Any:
    import tflite

    options, table = getattr(tflite, kind)(), operator.BuiltinOptions()
    options.Init(table.Bytes, table.Pos)
    return options


def _window_pads(
    padding: int, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int]
) -> tuple[int, int, int, int]:
    """Return top, left, bottom, right for TFLite's SAME (0) or VALID (1) padding."""
    if padding == 1:
        return (0, 0, 0, 0)
    totals = [
        max((-(-size // stride) - 1) * stride + window - size, 0)
        for size, window, stride in zip(sizes, kernel, strides, strict=True)
    ]
    return (totals[0] // 2, totals[1] // 2, totals[0] - totals[0] // 2, totals[1] - totals[1] // 2)


def _window(op: str, kind: str) -> Reader:
    def read(graph: Graph, operator: Any, inputs: list[int], outputs: list[int]) -> Node:
        options = _options(operator, kind)
        if options.DilationHFactor() != 1 or options.DilationWFactor() != 1:
            raise WeightsError("dilated convolutions are not known to this converter")
        strides = (options.StrideH(), options.StrideW())
        _, *size, _ = graph.shapes[inputs[0]]
        _, *kernel, _ = graph.shapes[inputs[1]]
        pads = _window_pads(options.Padding(), size, kernel, strides)
        activation = _ACTIVATIONS[options.FusedActivationFunction()]
        return Node(
            op, inputs, outputs, {"strides": strides, "pads": pads, "activation": activation}
        )

    return read


def _read_max_pool(graph: Graph, operator: Any, inputs: list[int], outputs: list[int]) -> Node:
    options = _options(operator, "Pool2DOptions")
    kernel = (options.FilterHeight(), options.FilterWidth())
    strides = (options.StrideH(), options.StrideW())
    pads = _window_pads(options.Padding(), graph.shapes[inputs[0]][1:3], kernel, strides)
    return Node("MaxPool", inputs, outputs, {"kernel": kernel, "strides": strides, "pads": pads})


def _read_add(graph: Graph, operator: Any, inputs: list[int], outputs: list[int]) -> Node:
    options = _options(operator, "AddOptions")
    activation = _ACTIVATIONS[options.FusedActivationFunction()]
    return Node("Add", inputs, outputs, {"activation": activation})


def _read_resize(graph: Graph, operator: Any, inputs: list[int], outputs: list[int]) -> Node:
    options = _options(operator, "ResizeBilinearOptions")
    if not options.HalfPixelCenters() or options.AlignCorners():
        raise WeightsError("only half-pixel bilinear resizing is known to this converter")
    return Node("Resize", inputs[:1], outputs)


def _read_pad(graph: Graph, operator: Any, inputs: list[int], outputs: list[int]) -> Node:
    return Node("Pad", inputs[:1], outputs, {"pads": graph.constants[inputs[1]].reshape(4, 2)})


def _read_slice(graph: Graph, operator: Any, inputs: list[int], outputs: list[int]) -> Node:
    begin, end, step = (graph.constants[i].reshape(-1) for i in inputs[1:4])
    shape = graph.shapes[inputs[0]]
    if begin.any() or (step != 1).any() or tuple(end[:3]) != shape[:3]:
        raise WeightsError("only slices of the first channels are known to this converter")
    # The end of the batch, baked in as 1, is not kept: a batch of any size passes whole.
    return Node("FirstChannels", inputs[:1], outputs)


def _read_depth_to_space(
    graph: Graph, operator: Any, inputs: list[int], outputs: list[int]
) -> Node:
    options = _options(operator, "DepthToSpaceOptions")
    return Node("DepthToSpace", inputs, outputs, {"block": options.BlockSize()})


def _read_concat(graph: Graph, operator: Any, inputs: list[int], outputs: list[int]) -> Node:
    axis = _options(operator, "ConcatenationOptions").Axis()
    rank = len(graph.shapes[outputs[0]])
    return Node("Concat", inputs, outputs, {"axis": axis % rank})


def _read_mean(graph: Graph, operator: Any, inputs: list[int], outputs: list[int]) -> Node:
    if graph.constants[inputs[1]].tolist() != [1, 2] or len(graph.shapes[outputs[0]]) != 2:
        raise WeightsError("only the mean over height and width is known to this converter")
    return Node("SpatialMean", inputs[:1], outputs)


def _simple(op: str, num_inputs: int | None = None) -> Reader:
    def read(graph: Graph, operator: Any, inputs: list[int], outputs: list[int]) -> Node:
        return Node(op, inputs[:num_inputs], outputs)

    return read


_READERS: dict[str, Reader] = {
    "ADD": _read_add,
    "CONCATENATION": _read_concat,
    "CONV_2D": _window("Conv", "Conv2DOptions"),
    "DEPTHWISE_CONV_2D": _window("Depthwise", "DepthwiseConv2DOptions"),
    "DEPTH_TO_SPACE": _read_depth_to_space,
    "FULLY_CONNECTED": _simple("Dense"),
    "LOGISTIC": _simple("Sigmoid", 1),
    "MAX_POOL_2D": _read_max_pool,
    "MEAN": _read_mean,
    "PAD": _read_pad,
    "PRELU": _simple("PRelu", 2),
    "RELU": _simple("Relu", 1),
    "RESHAPE": _simple("Reshape", 1),
    "RESIZE_BILINEAR": _read_resize,
    "STRIDED_SLICE": _read_slice,
}
