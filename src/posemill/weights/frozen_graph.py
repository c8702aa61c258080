"""A frozen TensorFlow graph turned into ONNX: the few operators that OpenPose's mobilenet uses.

The file is protobuf; the fields that matter are read here, without TensorFlow. The ONNX model takes
`(batch, 3, height, width)` float32 of any size and gives maps with channels first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.errors import MissingExtraError, WeightsError

OPSET = 17
# Numbers of the fields of TensorFlow's messages, by message.
_NODE, _NAME, _OP, _INPUT, _ATTRIBUTES = 1, 1, 2, 3, 5
_KEY, _VALUE = 1, 2
_TENSOR, _LIST, _BYTES, _INTEGERS = 8, 1, 2, 3
_DTYPE, _SHAPE, _CONTENT, _FLOATS, _WHOLES = 1, 2, 4, 5, 7
_FLOAT = 1  # of TensorFlow's kinds of numbers


@dataclass
class FrozenNode:
    """One operator: its inputs by name, and its attributes as protobuf wrote them."""

    name: str = ""
    op: str = ""
    inputs: list[str] = field(default_factory=list)
    attributes: dict[str, bytes] = field(default_factory=dict)

    def integers(self, attribute: str) -> list[int]:
        """Return a list of small whole numbers, such as strides."""
        packed = _first(_first(self.attributes[attribute], _LIST), _INTEGERS)
        return list(packed)  # each below 128 is one byte

    def text(self, attribute: str) -> str:
        """Return a word, such as a padding."""
        return str(_first(self.attributes[attribute], _BYTES), "ascii")

    def tensor(self) -> npt.NDArray[Any]:
        """Return the value of a constant."""
        fields = dict(_fields(_first(self.attributes["value"], _TENSOR)))
        sizes = [dict(_fields(size)).get(1, 0) for number, size in _fields(fields.get(_SHAPE, b""))
                 if number == 2]  # fmt: skip
        if fields[_DTYPE] != _FLOAT:
            return np.array(list(fields.get(_WHOLES, b"")), np.int64)
        content = fields.get(_CONTENT, fields.get(_FLOATS, b""))
        return np.frombuffer(content, np.float32).reshape(sizes)


def read_frozen_graph(path: Path) -> list[FrozenNode]:
    """Return the nodes of a frozen graph, each after those it reads."""
    try:
        return [_node(value) for number, value in _fields(path.read_bytes()) if number == _NODE]
    except (IndexError, ValueError, KeyError, TypeError) as error:
        raise WeightsError(f"{path} is not a whole frozen TensorFlow graph ({error})") from error


def export_frozen_graph(path: Path) -> bytes:
    """Return the ONNX model of a frozen graph with one picture in and its last node out."""
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"the network is converted for ONNX Runtime once, and that needs {error.name!r}; run: "
            f"pip install onnx"
        ) from error
    nodes, initializers = [], []
    constants: dict[str, npt.NDArray[Any]] = {}
    picture = ""
    graph = read_frozen_graph(path)
    for node in graph:
        if node.op == "Const":
            constants[node.name] = node.tensor()
        elif node.op == "Placeholder":
            picture = node.name
        else:
            op, inputs, attributes = _translate(node, constants, path)
            for place, value in enumerate(inputs):
                if not isinstance(value, str):
                    inputs[place] = f"{node.name}/constant"
                    initializers.append(numpy_helper.from_array(value, inputs[place]))
            nodes.append(helper.make_node(op, inputs, [node.name], **attributes))
    sizes: list[str | int] = ["batch", 3, "height", "width"]
    maps: list[str | int] = ["batch", "channels", "rows", "columns"]
    model = helper.make_model(
        helper.make_graph(
            nodes,
            path.stem,
            [helper.make_tensor_value_info(picture, TensorProto.FLOAT, sizes)],
            [helper.make_tensor_value_info(graph[-1].name, TensorProto.FLOAT, maps)],
            initializer=initializers,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
    )
    model.ir_version = 8
    checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def _translate(
    node: FrozenNode, constants: dict[str, npt.NDArray[Any]], path: Path
) -> tuple[str, list[Any], dict[str, Any]]:
    """Return ONNX's operator, its inputs (constants as arrays) and its attributes."""
    first = node.inputs[0]
    if node.op in ("Conv2D", "DepthwiseConv2dNative"):
        weights = constants[node.inputs[1]]  # height, width, in, out or per channel
        groups = weights.shape[2] if node.op != "Conv2D" else 1
        order = (2, 3, 0, 1) if node.op != "Conv2D" else (3, 2, 0, 1)
        kernel = np.ascontiguousarray(weights.transpose(order))
        return "Conv", [first, kernel], {**_windows(node), "group": groups,
                                         "kernel_shape": kernel.shape[2:]}  # fmt: skip
    if node.op == "BiasAdd":
        return "Add", [first, constants[node.inputs[1]].reshape(1, -1, 1, 1)], {}
    if node.op == "Relu":
        return "Relu", [first], {}
    if node.op == "MaxPool":
        return "MaxPool", [first], {**_windows(node), "kernel_shape": node.integers("ksize")[1:3]}
    if node.op == "ConcatV2" and constants[node.inputs[-1]].tolist() == [3]:
        return "Concat", node.inputs[:-1], {"axis": 1}
    raise WeightsError(f"{path}: operator {node.op} at {node.name} is not one we know to convert")


def _windows(node: FrozenNode) -> dict[str, Any]:
    if node.text("padding") != "SAME":
        raise WeightsError(f"{node.name}: expected padding SAME, got {node.text('padding')}")
    return {"strides": node.integers("strides")[1:3], "auto_pad": "SAME_UPPER"}


def _node(data: bytes) -> FrozenNode:
    node = FrozenNode()
    for number, value in _fields(data):
        if number == _NAME:
            node.name = str(value, "utf-8")
        elif number == _OP:
            node.op = str(value, "utf-8")
        elif number == _INPUT:
            node.inputs.append(str(value, "utf-8"))
        elif number == _ATTRIBUTES:
            entry = dict(_fields(value))
            node.attributes[str(entry[_KEY], "utf-8")] = entry.get(_VALUE, b"")
    return node


def _first(data: bytes, wanted: int) -> Any:
    return next((value for number, value in _fields(data) if number == wanted), b"")


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a protobuf message: their number, and a whole number or bytes."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        value: Any
        if kind == 0:
            value, place = _varint(data, place)
        else:
            if kind == 2:
                size, place = _varint(data, place)
            else:
                size = {5: 4, 1: 8}[kind]
            value, place = data[place : place + size], place + size
            if len(value) < size:
                raise ValueError("it ends inside a field")
        yield key >> 3, value


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
