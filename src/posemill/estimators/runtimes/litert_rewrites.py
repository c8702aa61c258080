"""Changes to a TFLite file that LiteRT needs for stock's numbers, or runs faster with the same.

Scalings round as MediaPipe's do: a product, then a sum. Its kernels compute `x·w + b` of a
depthwise convolution of one pixel with two roundings; those of LiteRT 2 have fused it into one. As
two operators of their own, both kernels round twice.

Kernels compute 16 channels of a pixel at once, also where there is only one. So convolutions of one
channel, which make masks, get the pixels of a square as channels. Every sum keeps its order and
gets only products with zero in between: results are equal to the bit. Changes of the order, as a
convolution before an enlargement, are quicker, but a detection that differs by 6e-7 moves points of
a hand by up to 3 px.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

# Part of the cached file's name: raise it when the result changes.
VERSION = 2
_TRANSPOSED = b"Convolution2DTransposeBias"
_SQUARE_SIDE = 4
# By the name of their options in TFLite's schema.
_OPERATORS = {
    "Add": "ADD",
    "Conv2D": "CONV_2D",
    "DepthToSpace": "DEPTH_TO_SPACE",
    "Mul": "MUL",
}


def rewrite(data: bytes, *, splits_scalings: bool) -> bytes:
    """Return a TFLite model that LiteRT runs faster.

    Args:
        data: The model.
        splits_scalings: Whether each 1x1 depthwise convolution becomes a product and a sum.
    """
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(data)
    graph = _Graph(model, schema)
    changes = [_spread_transposed, _widen_convolution]
    if splits_scalings:
        changes.append(_split_scaling)
    operators: list[Any] = []
    for operator in graph.operators:
        changed = next(filter(None, (change(graph, operator) for change in changes)), [operator])
        operators += changed
    if len(operators) == len(graph.operators):
        return data
    model.subgraphs[0].operators = operators
    builder = flatbuffers.Builder(len(data))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


class _Graph:
    """The one subgraph of a model, and what a change of an operator asks of it."""

    def __init__(self, model: Any, schema: Any) -> None:
        (graph,) = model.subgraphs
        self.operators = list(graph.operators)
        self.schema = schema
        self._model, self._tensors = model, graph.tensors
        self._producers = {int(operator.outputs[0]): operator for operator in graph.operators}
        self._codes: dict[int, int] = {}

    def kind(self, operator: Any) -> tuple[int, bytes]:
        """Return an operator's number, which older files have in another field, and its name."""
        code = self._model.operatorCodes[operator.opcodeIndex]
        return max(int(code.builtinCode), int(code.deprecatedBuiltinCode)), code.customCode or b""

    def shape(self, tensor: int) -> list[int]:
        """Return the shape of a tensor."""
        return list(map(int, self._tensors[tensor].shape))

    def values(self, tensor: int) -> npt.NDArray[np.float32]:
        """Return a constant, which the file may have in half precision."""
        producer = self._producers.get(tensor)
        stored = self._tensors[tensor if producer is None else int(producer.inputs[0])]
        is_half = stored.type == self.schema.TensorType.FLOAT16
        raw = np.asarray(self._model.buffers[stored.buffer].data, np.uint8).tobytes()
        values = np.frombuffer(raw, np.float16 if is_half else np.float32).astype(np.float32)
        return values.reshape(self.shape(tensor))

    def add_tensor(self, shape: list[int], values: npt.NDArray[Any] | None = None) -> int:
        """Return the number of a new tensor, a constant if it has values."""
        tensor = self.schema.TensorT()
        tensor.name = b"posemill/%d" % len(self._tensors)
        tensor.shape = shape
        tensor.type = self.schema.TensorType.FLOAT32
        tensor.buffer = 0
        if values is not None:
            buffer = self.schema.BufferT()
            buffer.data = np.frombuffer(values.tobytes(), np.uint8)
            tensor.buffer = len(self._model.buffers)
            self._model.buffers.append(buffer)
        self._tensors.append(tensor)
        return len(self._tensors) - 1

    def operator(self, name: str, inputs: list[int], output: int, **options: Any) -> Any:
        """Return a new operator, by the name that its options have in the schema."""
        schema = self.schema
        number = getattr(schema.BuiltinOperator, _OPERATORS[name])
        if number not in self._codes:
            code = schema.OperatorCodeT()
            code.builtinCode = code.deprecatedBuiltinCode = number
            code.version = 1
            self._codes[number] = len(self._model.operatorCodes)
            self._model.operatorCodes.append(code)
        operator = schema.OperatorT()
        operator.opcodeIndex = self._codes[number]
        operator.inputs, operator.outputs = inputs, [output]
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, f"{name}Options")
        operator.builtinOptions = getattr(schema, f"{name}OptionsT")()
        for option, value in options.items():
            setattr(operator.builtinOptions, option, value)
        return operator


def _spread_transposed(graph: _Graph, operator: Any) -> list[Any] | None:
    """Return a transposed 2x2 convolution as one of 1x1 to four channels, which are then spread."""
    if graph.kind(operator)[1] != _TRANSPOSED:
        return None
    pixels, weights, bias = map(int, operator.inputs)
    (output,) = map(int, operator.outputs)
    kernel = graph.values(weights)  # (1, 2, 2, channels)
    batch, height, width, _ = graph.shape(pixels)
    if kernel.shape[:3] != (1, 2, 2) or graph.shape(output) != [batch, 2 * height, 2 * width, 1]:
        return None
    flat = kernel.reshape(4, 1, 1, -1)
    offsets = graph.values(bias).repeat(4)
    corners = graph.add_tensor([batch, height, width, 4])
    inputs = [pixels, graph.add_tensor(list(flat.shape), flat), graph.add_tensor([4], offsets)]
    return [
        graph.operator("Conv2D", inputs, corners, strideW=1, strideH=1),
        graph.operator("DepthToSpace", [corners], output, blockSize=2),
    ]


def _widen_convolution(graph: _Graph, operator: Any) -> list[Any] | None:
    """Return a convolution to one channel as one to a channel for each pixel of a square."""
    schema = graph.schema
    if graph.kind(operator)[0] != schema.BuiltinOperator.CONV_2D:
        return None
    pixels, weights, bias = map(int, operator.inputs)
    (output,) = map(int, operator.outputs)
    options = operator.builtinOptions
    batch, height, width, channels = graph.shape(output)
    is_plain = (options.strideW, options.strideH, options.padding) == (1, 1, schema.Padding.SAME)
    _, rows, columns, depth = graph.shape(weights)
    side = _SQUARE_SIDE
    if channels != 1 or columns == 1 or not is_plain or height % side or width % side:
        return None
    kernel = graph.values(weights)[0]  # (rows, columns, depth)
    wide = np.zeros((side * side, rows + side - 1, columns + side - 1, depth), np.float32)
    for pixel in range(side * side):
        row, column = divmod(pixel, side)
        wide[pixel, row : row + rows, column : column + columns] = kernel
    offsets = graph.values(bias).repeat(len(wide))
    squares = graph.add_tensor([batch, height // side, width // side, len(wide)])
    inputs = [
        pixels,
        graph.add_tensor(list(wide.shape), wide),
        graph.add_tensor([len(wide)], offsets),
    ]
    return [
        graph.operator(
            "Conv2D",
            inputs,
            squares,
            strideW=side,
            strideH=side,
            fusedActivationFunction=options.fusedActivationFunction,
        ),
        graph.operator("DepthToSpace", [squares], output, blockSize=side),
    ]


def _split_scaling(graph: _Graph, operator: Any) -> list[Any] | None:
    """Return a depthwise convolution of one pixel as a product and a sum."""
    if graph.kind(operator)[0] != graph.schema.BuiltinOperator.DEPTHWISE_CONV_2D:
        return None
    pixels, weights, bias = map(int, operator.inputs)
    if graph.shape(weights)[1:3] != [1, 1]:
        return None
    (output,) = map(int, operator.outputs)
    scaled = graph.add_tensor(graph.shape(output))
    return [
        graph.operator("Mul", [pixels, weights], scaled),
        graph.operator("Add", [scaled, bias], output),
    ]
